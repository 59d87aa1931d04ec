"""What the store promises about consuming, said once more on a page of plain Python, to be compared with the store.

Nothing here is shared with the product but the words of a schedule. A consumer judges what was new to it when it was
locked; nothing it does depends on when it looks, but for windows, and on how much room its limits leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from onceflow.model.dagspec import AssetSchedule

IN_A_RUN = ("started", "joined")
PENDING = ("new", "waiting")
MOST_LOSSES = 3
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Event:
    id: int
    asset: str
    at: datetime
    value: int


@dataclass
class Run:
    """`start`: the event that completed the condition; None in a person's lane."""

    start: int | None
    members: list[int]
    state: str = "queued"
    losses: int = 0


@dataclass
class Consumer:
    """`deliveries`: what became of each event; "new" and "waiting" (judged, but not yet consumed) are both pending.

    `rate`: how many runs a minute its events may start before it is in a storm; None: any number. `minute`: when the
    counted minute began. `missed`: what it did not get since it was removed a moment ago. `touched`: what a person
    decided about; of these `released` was let go on, and of `joining` one run was asked for. `paused_at`: what was
    recorded later, and nobody touched, came meanwhile.
    """

    schedule: AssetSchedule
    cap: int
    while_paused: str = "hold"
    rate: int | None = None
    active: bool = True
    paused: bool = False
    storm: bool = False
    minute: datetime | None = None
    made: int = 0
    missed: list[int] = field(default_factory=list)
    joining: set[int] = field(default_factory=set)
    released: set[int] = field(default_factory=set)
    touched: set[int] = field(default_factory=set)
    paused_at: datetime | None = None
    deliveries: dict[int, str] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)

    def unread(self) -> list[int]:
        """What a scheduler reads: a join first, alone; not what it holds in a storm."""
        caught, joins = self.caught(), self.joins()
        return [e for e in self.those("new") if e not in caught and (not joins or e in self.joining)]

    def joins(self) -> bool:
        """Whether there is something of which one run is asked for, and may be made."""
        wanted = self.joining & set(self.those(*PENDING)) - self.caught()
        return self.active and not self.paused and bool(wanted)

    def caught(self) -> set[int]:
        """What a scheduler holds unread in a storm: all but what a person released."""
        return set(self.those("new")) - self.released if self.storm and self.active and not self.paused else set()

    def allowance(self, now: datetime) -> int | None:
        """How many more runs its events may start in this minute."""
        return None if self.rate is None else max(0, self.rate - self._made(now))

    def count_runs(self, number: int, now: datetime) -> None:
        """Runs were made, for the limit of a minute."""
        self.made = self._made(now) + number
        self.minute = self.minute if self._lasts(now) else now

    def _made(self, now: datetime) -> int:
        return self.made if self._lasts(now) else 0

    def _lasts(self, now: datetime) -> bool:
        return self.minute is not None and self.minute > now - MINUTE

    def those(self, *states: str) -> list[int]:
        return sorted(e for e, state in self.deliveries.items() if state in states)

    def count(self, *states: str) -> int:
        return sum(r.state in states for r in self.runs)


class Reference:
    """All events and consumers."""

    def __init__(self) -> None:
        self.events: dict[int, Event] = {}
        self.keys: dict[tuple[str, str], int] = {}
        self.quarantined: set[int] = set()
        self.consumers: dict[str, Consumer] = {}

    # What people and sources do ------------------------------------------------------------------------------------

    def store(self, event: Event, key: str | None, *, bad: bool) -> None:
        """A change nobody has told of before: one delivery for each consumer that names its asset now.

        If its payload is bad nobody gets to see it until it is mended.
        """
        self.events[event.id] = event
        if bad:
            self.quarantined.add(event.id)
        if key is not None:
            self.keys[event.asset, key] = event.id
        for consumer in self.consumers.values():
            if event.asset in names(consumer.schedule.condition):
                consumer.missed.append(event.id)
                if consumer.active:
                    self.catch_up(consumer)

    def catch_up(self, consumer: Consumer) -> None:
        """It gets what it missed."""
        for event in consumer.missed:
            consumer.deliveries[event] = "quarantine" if event in self.quarantined else "new"
        consumer.missed.clear()

    def mend(self, event: int, value: int) -> None:
        """A quarantined event goes on, with this value."""
        self.quarantined.remove(event)
        self.events[event] = replace(self.events[event], value=value)
        for consumer in self.consumers.values():
            if consumer.deliveries.get(event) == "quarantine":
                consumer.deliveries[event] = "new"

    def declare(
        self, name: str, schedule: AssetSchedule, cap: int, while_paused: str, rate: int | None, before: str = ""
    ) -> None:
        """A new, edited or renamed consumer: what is pending is judged anew, and what was held for want of it."""
        if before:
            self.consumers[name] = self.consumers.pop(before)
        known = self.consumers.setdefault(name, Consumer(schedule, cap, while_paused, rate))
        told = (True, schedule, cap, while_paused, rate)
        if (known.active, known.schedule, known.cap, known.while_paused, known.rate) == told and not before:
            return
        known.active, known.schedule, known.cap, known.while_paused, known.rate = told
        self._reopen(known, "waiting", "inactive", "unscheduled")

    def pause(self, name: str, now: datetime) -> None:
        self.consumers[name].paused, self.consumers[name].paused_at = True, now

    def unpause(self, name: str, pending: str) -> None:
        """What the pause held is judged as ever, or as it was asked for before; or what is open at all is discarded, or
        is to be one run.
        """
        c = self.consumers[name]
        c.paused = False
        waiting = c.those("pause") if pending == "each" else c.those("pause", *PENDING)
        c.touched |= set(waiting)
        c.deliveries.update(dict.fromkeys(waiting, "discarded" if pending == "discard" else "new"))
        if pending != "each":
            c.released -= set(waiting)
            c.joining = set(waiting) if pending == "join" else set()

    def release(self, name: str, how: str, events: Sequence[int] | None = None) -> None:
        """What a storm held is judged, each as ever or as one run, or discarded; all of it: the storm ends."""
        c = self.consumers[name]
        held = c.those("storm") if events is None else list(events)
        c.deliveries.update(dict.fromkeys(held, "discarded" if how == "discard" else "new"))
        c.released |= set(held)
        c.touched |= set(held)
        c.joining -= set(held)
        if how == "join" and held:
            c.joining = set(held)
        if events is None:
            c.storm, c.minute, c.made = False, None, 0

    def discard(self, name: str, events: Iterable[int]) -> None:
        """A person ends open deliveries for good."""
        self.consumers[name].deliveries.update(dict.fromkeys(events, "discarded"))

    def run_again(self, name: str, run: Run) -> None:
        """A run of a person's lane: the same members, and no delivery is touched."""
        self.consumers[name].runs.append(Run(None, run.members))

    def _reopen(self, consumer: Consumer, *states: str) -> None:
        consumer.deliveries.update(dict.fromkeys(consumer.those(*states), "new"))

    # What schedulers do --------------------------------------------------------------------------------------------

    def judge(
        self,
        name: str,
        read: Iterable[int],
        now: datetime,
        allowance: int | None = None,
        caught: Iterable[int] = (),
    ) -> None:
        """Judge a consumer for which these events were new when it was locked, and that may make so many more runs."""
        c = self.consumers[name]
        c.deliveries.update(dict.fromkeys(caught, "storm"))
        joins = c.joins()
        for event in read:
            c.deliveries[event] = self._sort(c, self.events[event])
        if not c.active or c.paused:
            return
        if joins:
            self._join(c, now)
            return
        if c.schedule.policy == "latest":
            self._give_way(c)
        free = c.released & set(read)
        groups = self._groups(c, now)
        over = [g for g in groups if g[0] not in free][allowance:] if allowance is not None else []
        made = [g for g in groups if g not in over]
        for start, members in made:
            if c.schedule.policy == "latest":
                self._supersede(c, members)
            self._make_run(c, start, members)
        counted = made if c.schedule.policy != "each" else [g for g in made if g[0] not in free]
        if made:
            c.count_runs(len(counted), now)
        if over:
            c.storm = True
            c.deliveries.update(dict.fromkeys(c.those("waiting"), "storm"))

    def _groups(self, c: Consumer, now: datetime) -> list[tuple[int, list[int]]]:
        """The runs that what waits is good for: the event that starts each, and its members."""
        waiting = self._waiting(c)
        if c.schedule.policy == "each":
            return [(event, [event]) for event in c.those("waiting")]
        if not holds(c.schedule.condition, waiting):
            return []
        if c.schedule.policy != "latest":
            return list(self._together(c, c.those("waiting"), now))
        if c.count("queued", "running") >= c.cap:
            return []
        members = sorted(events[-1] for events in waiting.values())
        return [(self._completing(c.schedule.condition, members), members)]

    def _join(self, c: Consumer, now: datetime) -> None:
        c.joining = set()
        if c.schedule.policy == "latest":
            self._give_way(c)
        if holds(c.schedule.condition, self._waiting(c)):
            members = c.those("waiting")
            self._make_run(c, self._completing(c.schedule.condition, members), members)
            c.count_runs(0, now)

    def _waiting(self, c: Consumer) -> dict[str, list[int]]:
        waiting: dict[str, list[int]] = {}
        for event in c.those("waiting"):
            waiting.setdefault(self.events[event].asset, []).append(event)
        return waiting

    def _sort(self, c: Consumer, event: Event) -> str:
        if not c.active:
            return "inactive"
        if c.paused:
            meanwhile = c.paused_at is not None and event.at > c.paused_at and event.id not in c.touched
            return "discarded" if c.while_paused == "discard" and meanwhile else "pause"
        if event.asset not in names(c.schedule.condition):
            return "unscheduled"
        wanted = c.schedule.filters.get(event.asset)
        return "filtered" if wanted is not None and event.value < wanted[2] else "waiting"

    def _together(self, c: Consumer, left: list[int], now: datetime) -> Iterator[tuple[int, list[int]]]:
        schedule, size = c.schedule, c.schedule.max_size
        while left:
            full = size is not None and len(left) >= size
            if schedule.policy == "window" and not full and self._closes(schedule, left) > now:
                return
            members, left = left[:size], left[size:] if size else []
            yield self._completing(schedule.condition, members), members

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

    def _give_way(self, c: Consumer) -> None:
        """What waits of an asset of which a newer event is in a run came too late."""
        newest = {self.events[e].asset: e for e in c.those(*IN_A_RUN)}
        for asset, events in self._waiting(c).items():
            if events[-1] < newest.get(asset, 0):
                c.deliveries.update(dict.fromkeys(events, "superseded"))

    def _supersede(self, c: Consumer, members: list[int]) -> None:
        for events in self._waiting(c).values():
            c.deliveries.update(dict.fromkeys([e for e in events if e not in members], "superseded"))

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
