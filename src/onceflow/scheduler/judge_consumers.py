"""Judges a batch of locked consumers, and writes what it came to: dispositions, decisions, runs, when to look again.

First every event that nobody has judged: held, discarded, filtered, or wanted. Where each makes a run of its own, that
is all. Where a consumer gathers, the wanted ones are marked as judged (but for those that go into a run of everything
at once), and then what waits is surveyed per asset and judged. A consumer that cannot be judged is held and named, and
harms no other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from onceflow.model.asset_expr import assets_of
from onceflow.model.consume import Group, Judgement, Pending, Situation, judge_each, judge_gathered, parts, with_fresh
from onceflow.model.dagspec import AssetSchedule
from onceflow.model.event_filter import Filter, asks_source, judge_payload
from onceflow.model.serialize import dumps
from onceflow.model.text import message_of
from onceflow.runtime.log import get_logger
from onceflow.store import deliveries, interventions
from onceflow.store.database import Connection
from onceflow.store.deliveries import AT_ONCE, WHEN_A_RUN_ENDED, Claimed, Consumption, Note, Settled, Storm, Surveyed
from onceflow.store.versions import Version, Versions

COUNTED = 1000
"""How many waiting events of an asset are counted while a consumer waits; when it consumes them the count is exact."""
PAUSED = "the DAG is paused, and discards what comes meanwhile"

log = get_logger("onceflow.scheduler")


@dataclass
class Judged:
    """What a batch came to. `again`: seconds until a consumer is to be judged again, by its id."""

    consumptions: list[Consumption] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    wanted: list[tuple[int, int]] = field(default_factory=list)
    superseded: list[tuple[int, int]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    again: dict[int, float] = field(default_factory=dict)
    storms: list[Storm] = field(default_factory=list)

    def hold(self, consumer: Claimed, reason: str, besides: Collection[int] = ()) -> None:
        held = (p.event_id for p in consumer.pending if p.event_id not in besides)
        self.settled += [Settled(consumer.dag, event, "held", reason) for event in held]

    def fail(self, consumer: Claimed, error: Exception) -> None:
        log.error("consumer cannot be judged; its deliveries are held", dag=consumer.dag, exc_info=error)
        self.hold(consumer, f"error: {error}")


@dataclass(frozen=True)
class Gathering:
    """A consumer whose waiting events are to be judged together. `fresh`: those that are not marked as judged yet."""

    consumer: Claimed
    schedule: AssetSchedule
    fresh: Sequence[Pending] = ()


async def judge_consumers(
    tx: Connection, process: UUID, claimed: Sequence[Claimed], versions: Versions, now: datetime | None = None
) -> Judged:
    """Judge the consumers that `claimed` has locked, and write all of it but the start of the runs."""
    judged = Judged()
    known = await versions.read(tx, {c.version for c in claimed if c.version})
    able = [c for c in claimed if _able(judged, c, known.get(c.version), versions.unreadable)]
    schedules = {c.dag: s for c in able if isinstance(s := known[c.version].spec.schedule, AssetSchedule)}
    unwanted = await _filter(tx, able, schedules)
    gathering = [g for c in able if (g := _sort(judged, c, schedules[c.dag], unwanted)) is not None]
    await deliveries.settle(tx, judged.settled, now)
    await deliveries.mark_judged(tx, judged.wanted)
    judged.settled.clear()
    judged.wanted.clear()
    await _gather(tx, judged, gathering, now)
    await deliveries.settle(tx, judged.settled, now)
    await deliveries.mark_judged(tx, judged.wanted)
    if judged.consumptions:
        await deliveries.consume(tx, process, judged.consumptions, now)
    await deliveries.supersede(tx, judged.superseded, now)
    await deliveries.note(tx, process, judged.notes, now)
    await deliveries.trip(tx, judged.storms, now)
    return judged


def _able(judged: Judged, consumer: Claimed, version: Version | None, unreadable: Mapping[int, str]) -> bool:
    """Whether the consumer may be judged; if not, what nobody has judged is held or discarded."""
    reason = consumer.hold
    if not reason and consumer.version in unreadable:
        reason = f"error: {unreadable[consumer.version]}"
    if not reason and (version is None or not isinstance(version.spec.schedule, AssetSchedule)):
        reason = "unscheduled"
    if reason:
        discards = reason == "pause" and version is not None and version.spec.while_paused == "discard"
        unwanted = consumer.meanwhile if discards else set[int]()
        judged.hold(consumer, reason, besides=unwanted)
        judged.settled += [Settled(consumer.dag, event, "discarded", PAUSED, consumer.pause) for event in unwanted]
    return not reason


async def _filter(
    tx: Connection, able: Sequence[Claimed], schedules: Mapping[int, AssetSchedule]
) -> dict[tuple[int, int], str | Exception]:
    """Of (dag, event), those that a filter does not accept, with the reason, or with the error that it ended in.

    Each payload is read once, however many consumers ask.
    """
    asked: dict[int, tuple[tuple[int, Filter], ...]] = {}
    asking: set[int] = set()
    for consumer in able:
        filters = schedules[consumer.dag].filters
        wanted = {asset: ((consumer.dag, f),) for asset, f in filters.items()}
        for p in consumer.pending if wanted else ():
            if p.asset in wanted:
                asked[p.event_id] = asked.get(p.event_id, ()) + wanted[p.asset]
        about_source = {asset for asset, f in filters.items() if asks_source(f)}
        asking.update(p.event_id for p in (consumer.pending if about_source else ()) if p.asset in about_source)
    unwanted: dict[tuple[int, int], str | Exception] = {}
    sources = await deliveries.sources(tx, asking)
    async for event, payload in deliveries.payloads(tx, asked):
        for dag, accepts in asked[event]:
            if reason := _unwanted(accepts, payload, sources.get(event)):
                unwanted[dag, event] = reason
    return unwanted


def _unwanted(wanted: Filter, payload: Any, source: Mapping[str, Any] | None) -> str | Exception:
    """Why a filter does not accept a payload; "" if it does."""
    try:
        return judge_payload(wanted, payload, source).reason
    except Exception as error:
        return error


def _sort(
    judged: Judged, consumer: Claimed, schedule: AssetSchedule, unwanted: Mapping[tuple[int, int], str | Exception]
) -> Gathering | None:
    """Sort what nobody has judged. A consumer that gathers is returned once all of it was read."""
    gathers = schedule.policy != "each" or consumer.joining is not None
    try:
        settled, pending = _wanted(consumer, schedule, unwanted)
        judgement = None if gathers else judge_each(schedule, pending)
    except Exception as error:
        judged.fail(consumer, error)
        return None
    judged.settled += settled
    if judgement is None:
        complete = len(consumer.pending) <= consumer.limit
        if complete and schedule.policy != "latest" and (schedule.policy == "all" or consumer.joining is not None):
            return Gathering(consumer, schedule, pending)
        judged.wanted += [(consumer.dag, p.event_id) for p in pending]
        if complete:
            return Gathering(consumer, schedule)
        judged.notes.append(Note(consumer.dag, judge_at=AT_ONCE))
        judged.again[consumer.dag] = 0
        return None
    groups = _within(judged, consumer, judgement.groups)
    if groups:
        explanation = dumps(judgement.explanation)
        judged.consumptions.append(
            Consumption(consumer.dag, consumer.version, groups, explanation, frozenset(consumer.released))
        )
    consumed = {group.start_event for group in groups}
    judged.wanted += [(consumer.dag, p.event_id) for p in pending if p.event_id not in consumed]
    return None


def _within(judged: Judged, consumer: Claimed, groups: Sequence[Group]) -> Sequence[Group]:
    """The runs that may be made in this minute; if that is not all of them, there is a storm. What a person released or
    joined is made in any case, and what is judged and not made is held when the breaker trips.
    """
    if consumer.allowance is None or consumer.joining is not None:
        return groups
    free = [g for g in groups if g.start_event not in consumer.released]
    over = frozenset(g.start_event for g in free[consumer.allowance :])
    if not over:
        return groups
    judged.storms.append(Storm(consumer.dag, dumps({"event": min(over), "runs": len(groups) - len(over)})))
    return [g for g in groups if g.start_event not in over]


def _wanted(
    consumer: Claimed, schedule: AssetSchedule, unwanted: Mapping[tuple[int, int], str | Exception]
) -> tuple[list[Settled], list[Pending]]:
    """What is held or filtered, and what is not."""
    named = set(assets_of(schedule.condition))
    settled, pending = [], []
    for p in consumer.pending:
        reason = unwanted.get((consumer.dag, p.event_id))
        if p.asset not in named:
            settled.append(Settled(consumer.dag, p.event_id, "held", "unscheduled"))
        elif isinstance(reason, Exception):
            text = f"error: its filter failed: {type(reason).__name__}: {message_of(reason)}"
            settled.append(Settled(consumer.dag, p.event_id, "held", text))
        elif reason is not None:
            settled.append(Settled(consumer.dag, p.event_id, "filtered", reason))
        else:
            pending.append(p)
    return settled, pending


# Consumers that gather ----------------------------------------------------------------------------------------------


async def _gather(tx: Connection, judged: Judged, gathering: Sequence[Gathering], now: datetime | None) -> None:
    """Survey what waits for the consumers, and judge it. Who is being given its history waits for the rest of it, but
    for a join, which is of what was there when it was asked for. What came too late for the latest is no part of any.
    """
    if not gathering:
        return
    count_to = max(COUNTED, *((g.schedule.max_size or 0) + 1 for g in gathering))
    surveyed = await deliveries.survey(tx, [g.consumer.dag for g in gathering], count_to, now)
    ready = []
    for g in gathering:
        if g.consumer.joining is not None or not surveyed[g.consumer.dag].catching_up:
            ready.append(g)
        else:
            judged.wanted += [(g.consumer.dag, p.event_id) for p in g.fresh]
    resumed = await interventions.read(tx, [j for g in ready if (j := g.consumer.joining) is not None])
    await _give_way(tx, [g for g in ready if g.schedule.policy == "latest"], surveyed, now)
    for g in ready:
        found = surveyed[g.consumer.dag]
        situation = Situation(
            found.now,
            with_fresh(found.waiting, g.fresh, found.now),
            tuple(p.event_id for p in g.fresh),
            found.room,
            found.cap,
            None if g.consumer.joining is None else resumed[g.consumer.joining],
        )
        judgement = _judge(judged, g, situation)
        if _takes_everything(judgement) and any(w.count >= count_to for w in found.waiting.values()):
            exact = await deliveries.survey(tx, [g.consumer.dag], None, now)
            situation = replace(situation, waiting=with_fresh(exact[g.consumer.dag].waiting, g.fresh, found.now))
            judgement = _judge(judged, g, situation)
        if judgement is not None and judgement.in_parts:
            await _consume_parts(tx, judged, g, situation)
        elif judgement is not None:
            _consume(judged, g, judgement, found.now)


def _judge(judged: Judged, g: Gathering, situation: Situation) -> Judgement | None:
    try:
        return judge_gathered(g.schedule, situation)
    except Exception as error:
        judged.fail(g.consumer, error)
        return None


def _takes_everything(judgement: Judgement | None) -> bool:
    return judgement is not None and any(group.others for group in judgement.groups)


async def _give_way(
    tx: Connection, latest: Sequence[Gathering], surveyed: Mapping[int, Surveyed], now: datetime | None
) -> None:
    """What waits of an asset of which a newer event is in a run already came too late: it is superseded by that one."""
    asset = {(g.consumer.dag, w.last): a for g in latest for a, w in surveyed[g.consumer.dag].waiting.items()}
    overtaking = await deliveries.overtaking(tx, list(asset))
    for late in overtaking:
        del surveyed[late[0]].waiting[asset[late]]
    await deliveries.supersede(tx, [(dag, newer) for (dag, _), newer in overtaking.items()], now)


def _consume(judged: Judged, g: Gathering, judgement: Judgement, now: datetime) -> None:
    """The run of what waits, or the note that it goes on waiting."""
    consumer = g.consumer
    explanation = dumps(judgement.explanation)
    groups = _within(judged, consumer, judgement.groups)
    if len(groups) < len(judgement.groups):
        judged.wanted += [(consumer.dag, p.event_id) for p in g.fresh]
        return
    joined = consumer.joining is not None
    if judgement.groups:
        asked_for = frozenset(group.start_event for group in groups) if joined else ()
        judged.consumptions.append(Consumption(consumer.dag, consumer.version, groups, explanation, asked_for))
    judged.superseded += [(consumer.dag, event) for event in judgement.superseded.values()]
    if not judgement.groups:
        judged.wanted += [(consumer.dag, p.event_id) for p in g.fresh]
    judge_at = WHEN_A_RUN_ENDED if judgement.for_room else judgement.due
    if not judgement.groups or joined:
        judged.notes.append(Note(consumer.dag, None if judgement.groups else explanation, judge_at, joined))
    if judgement.due is not None:
        judged.again[consumer.dag] = (judgement.due - now).total_seconds()


async def _consume_parts(tx: Connection, judged: Judged, g: Gathering, situation: Situation) -> None:
    """Runs of `max_size` events each, as many as one batch may hold."""
    consumer, size = g.consumer, g.schedule.max_size or 1
    oldest = await deliveries.oldest(tx, consumer.dag, max(size, deliveries.PENDING_PER_CONSUMER // size * size))
    found = parts(g.schedule, oldest, situation.waiting, situation.now)
    allowed = _within(judged, consumer, [group for group, _ in found.groups])
    for group, explanation in (made for made in found.groups if made[0] in allowed):
        judged.consumptions.append(Consumption(consumer.dag, consumer.version, [group], dumps(explanation)))
    judged.notes.append(Note(consumer.dag, dumps(found.rest) if found.rest else None, found.due))
    if found.due is not None:
        judged.again[consumer.dag] = (found.due - situation.now).total_seconds()
