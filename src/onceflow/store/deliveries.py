"""Deliveries: what is pending for a consumer, and what becomes of it (G3, G4).

The consumer is locked, then a later statement reads what is pending, then it is judged, then exactly the judged ids are
consumed; the row count must match or nothing is written. What a consumer gathers is not read one by one: deliveries are
marked as judged, under the lock, and a later statement surveys them per asset.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, Literal
from uuid import UUID

from onceflow.model.consume import Group, Pending, Waiting
from onceflow.store.database import Connection, Database

PENDING_PER_CONSUMER = 500
GATHERED_PER_CONSUMER = 2000
GATHERED_AT_ONCE = 50_000
PAYLOADS_AT_ONCE = 1000
PAYLOAD_BYTES_AT_ONCE = 8 * 1024 * 1024

Judge = Literal["infinity", "-infinity"]
WHEN_A_RUN_ENDED: Judge = "infinity"
AT_ONCE: Judge = "-infinity"


@dataclass
class Claimed:
    """A locked consumer and what nobody has judged for it. `hold` = why it may not consume now ("" = it may).

    `pause`: the intervention that paused it last. `joining`: the one that asked for one run of what is pending.
    `limit`: of a consumer that gathers, this is all there is, unless there is more than that.
    `released`: those of the events that a person let go on. `meanwhile`: those that were recorded during its pause and
    nobody has touched. `allowance`: how many more runs its events may start in
    this minute, but for those that are released; None: any number.
    """

    dag: int
    version: int
    hold: str
    pause: int | None = None
    joining: int | None = None
    limit: int = GATHERED_PER_CONSUMER
    pending: list[Pending] = field(default_factory=list)
    released: set[int] = field(default_factory=set)
    meanwhile: set[int] = field(default_factory=set)
    allowance: int | None = None


@dataclass(frozen=True)
class Settled:
    """What became of a delivery without a run, or for what it is held."""

    dag: int
    event: int
    disposition: Literal["held", "filtered", "discarded"]
    reason: str
    intervention: int | None = None


@dataclass(frozen=True)
class Consumption:
    """The runs to create for one consumer, and why."""

    dag: int
    version: int
    groups: Sequence[Group]
    explanation: str  # JSON
    released: Collection[int] = ()  # events whose runs do not count for the limit of runs in a minute


@dataclass
class Surveyed:
    """What waits for a consumer that gathers. `catching_up`: stored history is still being delivered to it."""

    now: datetime
    room: int
    cap: int
    catching_up: bool
    waiting: dict[str, Waiting] = field(default_factory=dict)


@dataclass(frozen=True)
class Note:
    """A judgement without a run, or beside one. `judge_at`: when to judge again; `joined`: it has judged a join."""

    dag: int
    explanation: str | None = None  # JSON
    judge_at: datetime | Judge | None = None
    joined: bool = False


@dataclass(frozen=True)
class Storm:
    """A consumer whose events would start more runs in a minute than they may. `explanation`: JSON."""

    dag: int
    explanation: str


async def find_consumers(database: Database, limit: int, after: int = 0, now: datetime | None = None) -> list[int]:
    """Ids, in order and above `after`, of consumers that have something to judge."""
    return [r["dag_id"] for r in await database.fetch("deliveries/find_consumers", limit, after, now)]


async def claim(
    tx: Connection,
    dags: Sequence[int],
    limit: int = PENDING_PER_CONSUMER,
    rate: int | None = None,
    now: datetime | None = None,
) -> list[Claimed]:
    """Lock the consumers that nobody else holds and read what nobody has judged for them, in commit order.

    `rate`: how many runs a minute are a storm, if the DAG does not say; None or 0: any number is none.
    """
    found: dict[int, Claimed] = {}
    gathered = max(limit, GATHERED_PER_CONSUMER, GATHERED_AT_ONCE // max(1, len(dags)))
    for row in await tx.fetch("deliveries/claim", list(dags), limit, gathered + 1, rate, now):
        claimed = found.get(row["dag"])
        if claimed is None:
            claimed = found[row["dag"]] = Claimed(
                *(row["dag"], row["version"], row["hold"] or "", row["pause"], row["joining"], gathered),
                allowance=row["allowance"],
            )
        if row["events"] is not None:
            claimed.pending += [Pending(event, row["asset"]) for event in row["events"]]
            if row["released"]:
                claimed.released.update(row["events"])
            if row["meanwhile"]:
                claimed.meanwhile.update(row["events"])
    for claimed in found.values():
        claimed.pending.sort(key=attrgetter("event_id"))
    return list(found.values())


async def payloads(tx: Connection, events: Collection[int]) -> AsyncIterator[tuple[int, Any]]:
    """Stored events with their payloads, which are read so many at a time as are not too large, and parsed together."""
    ids, begin = sorted(events), 0
    while begin < len(ids):
        rows = await tx.fetch("events/payloads", ids[begin : begin + PAYLOADS_AT_ONCE], PAYLOAD_BYTES_AT_ONCE)
        for row, payload in zip(rows, json.loads(f"[{','.join(row['extra'] for row in rows)}]"), strict=True):
            yield row["id"], payload
        begin = bisect_right(ids, rows[-1]["id"]) if rows else begin + PAYLOADS_AT_ONCE


async def sources(tx: Connection, events: Collection[int]) -> dict[int, dict[str, Any]]:
    """Who told of these events."""
    if not events:
        return {}
    return {row["id"]: json.loads(row["source"]) for row in await tx.fetch("events/sources", sorted(events))}


async def survey(
    tx: Connection, dags: Sequence[int], count_to: int | None, now: datetime | None = None
) -> dict[int, Surveyed]:
    """What waits for these locked consumers, per asset; counted up to `count_to` (None: exactly)."""
    found: dict[int, Surveyed] = {}
    for row in await tx.fetch("deliveries/survey", list(dags), count_to, now):
        surveyed = found.get(row["dag"])
        if surveyed is None:
            surveyed = found[row["dag"]] = Surveyed(row["now_at"], row["room"], row["cap"], row["catching_up"])
        if row["asset"] is not None:
            surveyed.waiting[row["asset"]] = Waiting(
                row["waiting"], row["first"], row["last"], row["first_at"], row["last_at"]
            )
    return found


async def oldest(tx: Connection, dag: int, limit: int) -> list[Pending]:
    """Those that wait the longest for a locked consumer, in order."""
    return [Pending(r["event"], r["asset"], r["at"]) for r in await tx.fetch("deliveries/oldest", dag, limit)]


async def overtaking(tx: Connection, newest: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Of (dag, event), each the newest that waits of its asset, those with a newer one in a run: that one."""
    if not newest:
        return {}
    dags, events = zip(*newest, strict=True)
    rows = await tx.fetch("deliveries/overtaking", list(dags), list(events))
    return {(r["dag"], r["event"]): r["newer"] for r in rows}


async def settle(tx: Connection, settled: Sequence[Settled], now: datetime | None = None) -> None:
    """Hold deliveries, or decide them without a run."""
    if settled:
        await tx.execute(
            "deliveries/settle",
            [s.dag for s in settled],
            [s.event for s in settled],
            [s.disposition for s in settled],
            [s.reason for s in settled],
            [s.intervention for s in settled],
            now,
        )


async def mark_judged(tx: Connection, judged: Sequence[tuple[int, int]]) -> None:
    """Note that deliveries, given as (dag, event), were judged and wait."""
    if judged:
        dags, events = zip(*judged, strict=True)
        await tx.execute("deliveries/mark_judged", list(dags), list(events))


async def note(tx: Connection, process: UUID, notes: Sequence[Note], now: datetime | None = None) -> None:
    """Note per consumer what this process judged, and when it is to be judged again."""
    if notes:
        times = [n.judge_at.isoformat() if isinstance(n.judge_at, datetime) else n.judge_at for n in notes]
        await tx.execute(
            "dags/note_judgement",
            [n.dag for n in notes],
            [n.explanation for n in notes],
            times,
            [n.joined for n in notes],
            now,
            process,
        )


async def trip(tx: Connection, storms: Sequence[Storm], now: datetime | None = None) -> None:
    """Trip the breakers of consumers: what waits for them is held, and what comes, until a person releases it."""
    if storms:
        dags = [s.dag for s in storms]
        await tx.execute("dags/trip", dags, [s.explanation for s in storms], now)
        await tx.execute("deliveries/hold_waiting", dags)


async def supersede(tx: Connection, newer: Sequence[tuple[int, int]], now: datetime | None = None) -> None:
    """Let what was judged and waits give way to newer events of its asset that are in runs, given as (dag, event)."""
    if newer:
        dags, events = zip(*newer, strict=True)
        await tx.execute("deliveries/supersede", list(dags), list(events), now)


async def consume(
    tx: Connection, process: UUID, consumptions: Sequence[Consumption], now: datetime | None = None
) -> list[int]:
    """Create the runs and settle their deliveries; returns the runs' ids. The consumers are locked by `claim`."""
    run_dag, run_decision, run_start, run_waiting, run_counted = [], [], [], [], []
    member_run, member_event = [], []
    for decision, consumption in enumerate(consumptions, 1):
        for group in consumption.groups:
            run_dag.append(consumption.dag)
            run_decision.append(decision)
            run_start.append(group.start_event)
            run_counted.append(group.start_event not in consumption.released)
            run_waiting.append(group.others)
            member_run.extend([len(run_dag)] * len(group.members))
            member_event.extend(group.members)
    rows = await tx.fetch(
        "runs/create_from_deliveries",
        process,
        [c.dag for c in consumptions],
        [c.version for c in consumptions],
        [c.explanation for c in consumptions],
        run_dag,
        run_decision,
        run_start,
        run_waiting,
        member_run,
        member_event,
        run_counted,
        now,
    )
    return [r["id"] for r in rows]
