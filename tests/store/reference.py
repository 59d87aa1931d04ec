"""What the store promises about consuming, said once more on a page of plain Python, to be compared with the store.

Nothing here is shared with the product but the words of a schedule. A consumer judges what was new to it when it was
locked; nothing it does depends on when it looks, but for windows and on how much room its cap leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from onceflow.model.dagspec import AssetSchedule

IN_A_RUN = ("started", "joined")
PENDING = ("new", "waiting")
MOST_LOSSES = 3


@dataclass(frozen=True)
class Event:
    id: int
    asset: str
    at: datetime
    value: int


@dataclass
class Run:
    start: int
    members: list[int]
    state: str = "queued"
    losses: int = 0


@dataclass
class Consumer:
    """`deliveries`: what became of each event; "new" and "waiting" (judged, but not yet consumed) are both pending.

    `joining`: of these a person asked for one run. `paused_at`: what was recorded later came meanwhile.
    """

    schedule: AssetSchedule
    cap: int
    while_paused: str = "hold"
    active: bool = True
    paused: bool = False
    joining: set[int] = field(default_factory=set)
    paused_at: datetime | None = None
    deliveries: dict[int, str] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)

    def unread(self) -> list[int]:
        """What a scheduler reads: a join first, alone."""
        return [e for e in self.those("new") if not self.joins() or e in self.joining]

    def joins(self) -> bool:
        return self.active and not self.paused and any(e in self.joining for e in self.those(*PENDING))

    def those(self, *states: str) -> list[int]:
        return sorted(e for e, state in self.deliveries.items() if state in states)

    def count(self, *states: str) -> int:
        return sum(r.state in states for r in self.runs)


class Reference:
    """All events and consumers."""

    def __init__(self) -> None:
        self.events: dict[int, Event] = {}
        self.keys: dict[tuple[str, str], int] = {}
        self.consumers: dict[str, Consumer] = {}

    # What people and sources do ------------------------------------------------------------------------------------

    def store(self, event: Event, key: str | None) -> None:
        """A change nobody has told of before: one delivery for each consumer that names its asset now."""
        self.events[event.id] = event
        if key is not None:
            self.keys[event.asset, key] = event.id
        for consumer in self.consumers.values():
            if consumer.active and event.asset in names(consumer.schedule.condition):
                consumer.deliveries[event.id] = "new"

    def declare(self, name: str, schedule: AssetSchedule, cap: int, while_paused: str) -> None:
        """A new or edited consumer: all that is pending is judged anew, and what was held for want of the consumer."""
        known = self.consumers.setdefault(name, Consumer(schedule, cap, while_paused))
        if (known.active, known.schedule, known.cap, known.while_paused) == (True, schedule, cap, while_paused):
            return
        known.active, known.schedule, known.cap, known.while_paused = True, schedule, cap, while_paused
        self._reopen(known, "waiting", "inactive", "unscheduled")

    def pause(self, name: str, now: datetime) -> None:
        self.consumers[name].paused, self.consumers[name].paused_at = True, now

    def unpause(self, name: str, pending: str) -> None:
        """What the pause held is judged as ever, or as it was asked for before; or what is open at all is discarded, or
        is to be one run.
        """
        c = self.consumers[name]
        c.paused = False
        if pending == "each":
            self._reopen(c, "pause")
            return
        waiting = c.those("pause", *PENDING)
        c.deliveries.update(dict.fromkeys(waiting, "discarded" if pending == "discard" else "new"))
        c.joining = set(waiting) if pending == "join" else set()

    def _reopen(self, consumer: Consumer, *states: str) -> None:
        consumer.deliveries.update(dict.fromkeys(consumer.those(*states), "new"))

    # What schedulers do --------------------------------------------------------------------------------------------

    def judge(self, name: str, read: Iterable[int], now: datetime) -> None:
        """Judge a consumer for which these events were new when it was locked."""
        c = self.consumers[name]
        for event in read:
            c.deliveries[event] = self._sort(c, self.events[event])
        if not c.active or c.paused:
            return
        if c.joins():
            self._join(c)
        elif c.schedule.policy == "each":
            for event in c.those("waiting"):
                self._make_run(c, event, [event])
        elif c.schedule.policy == "latest":
            self._judge_latest(c, self._waiting(c))
        elif holds(c.schedule.condition, self._waiting(c)):
            self._judge_together(c, c.those("waiting"), now)

    def _join(self, c: Consumer) -> None:
        c.joining = set()
        waiting = self._waiting(c)
        if c.schedule.policy == "latest":
            self._give_way(c, waiting)
        if holds(c.schedule.condition, waiting):
            members = c.those("waiting")
            self._make_run(c, self._completing(c.schedule.condition, members), members)

    def _waiting(self, c: Consumer) -> dict[str, list[int]]:
        waiting: dict[str, list[int]] = {}
        for event in c.those("waiting"):
            waiting.setdefault(self.events[event].asset, []).append(event)
        return waiting

    def _sort(self, c: Consumer, event: Event) -> str:
        if not c.active:
            return "inactive"
        if c.paused:
            meanwhile = c.paused_at is not None and event.at > c.paused_at
            return "discarded" if c.while_paused == "discard" and meanwhile else "pause"
        if event.asset not in names(c.schedule.condition):
            return "unscheduled"
        wanted = c.schedule.filters.get(event.asset)
        return "filtered" if wanted is not None and event.value < wanted[2] else "waiting"

    def _judge_together(self, c: Consumer, left: list[int], now: datetime) -> None:
        schedule, size = c.schedule, c.schedule.max_size
        while left:
            full = size is not None and len(left) >= size
            if schedule.policy == "window" and not full and self._closes(schedule, left) > now:
                return
            members, left = left[:size], left[size:] if size else []
            self._make_run(c, self._completing(schedule.condition, members), members)

    def _closes(self, schedule: AssetSchedule, left: Sequence[int]) -> datetime:
        """When the window over these events ends: by the first of their assets' first, or the last of their last."""
        firsts: dict[str, datetime] = {}
        lasts: dict[str, datetime] = {}
        for event in (self.events[e] for e in left):
            firsts.setdefault(event.asset, event.at)
            lasts[event.asset] = event.at
        ends = []
        if schedule.max_wait is not None:
            ends.append(min(firsts.values()) + timedelta(seconds=schedule.max_wait))
        if schedule.quiet is not None:
            ends.append(max(lasts.values()) + timedelta(seconds=schedule.quiet))
        return min(ends)

    def _judge_latest(self, c: Consumer, waiting: dict[str, list[int]]) -> None:
        self._give_way(c, waiting)
        if not holds(c.schedule.condition, waiting) or c.count("queued", "running") >= c.cap:
            return
        members = sorted(events.pop() for events in waiting.values())
        for events in waiting.values():
            c.deliveries.update(dict.fromkeys(events, "superseded"))
        self._make_run(c, self._completing(c.schedule.condition, members), members)

    def _give_way(self, c: Consumer, waiting: dict[str, list[int]]) -> None:
        """What waits of an asset of which a newer event is in a run came too late."""
        newest = {self.events[e].asset: e for e in c.those(*IN_A_RUN)}
        for asset in [a for a, events in waiting.items() if events[-1] < newest.get(a, 0)]:
            c.deliveries.update(dict.fromkeys(waiting.pop(asset), "superseded"))

    def _completing(self, condition: list[Any], members: Sequence[int]) -> int:
        """The first event with which the condition holds."""
        present: set[str] = set()
        for event in members:
            present.add(self.events[event].asset)
            if holds(condition, present):
                return event
        raise AssertionError("a run whose condition does not hold")

    def _make_run(self, c: Consumer, start: int, members: list[int]) -> None:
        c.deliveries.update(dict.fromkeys(members, "joined"))
        c.deliveries[start] = "started"
        c.runs.append(Run(start, members))

    def start(self, name: str) -> None:
        """Start queued runs in their order, as many as the cap allows."""
        c = self.consumers[name]
        queued = [r for r in c.runs if r.state == "queued"]
        for run in queued[: max(0, c.cap - c.count("running"))] if c.active and not c.paused else ():
            run.state = "running"


def names(condition: list[Any]) -> set[str]:
    return {condition[1]} if condition[0] == "asset" else set().union(*(names(part) for part in condition[1]))


def holds(condition: list[Any], present: Iterable[str]) -> bool:
    if condition[0] == "asset":
        return condition[1] in present
    return (all if condition[0] == "and" else any)(holds(part, present) for part in condition[1])
