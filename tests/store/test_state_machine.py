"""Random programs of people, sources, schedulers and workers on the real store, compared with a page of plain Python.

Several schedulers are under way at once: one that has locked consumers is left standing while others go on, and ends
as it may: it commits, rolls back, or its session is cut, at any of its statements. A source's transaction stands open,
too.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from inspect import signature
from typing import Any, ClassVar, TypeVar

import asyncpg
from ground import SOURCE, Scheduler, change, dag, declare, finish, healthy, report
from hypothesis import settings, strategies
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from reference import MOST_LOSSES, PENDING, Event, Reference

from onceflow.model.change import Change
from onceflow.model.dagspec import AssetSchedule
from onceflow.model.errors import UnreachableError
from onceflow.model.states import TaskState
from onceflow.scheduler.judge_consumers import judge_consumers
from onceflow.scheduler.start_runs import start_startable
from onceflow.store import dags, deliveries, events, tasks
from onceflow.store.database import Connection, Database, is_transient
from onceflow.store.deliveries import Claimed
from onceflow.store.versions import Versions

Value = TypeVar("Value")

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
WORKER = uuid.UUID(int=8)
ASSETS = ("a", "b", "c")
CONSUMERS = ("one", "two", "three")
SCHEDULERS = 3
LATER = NOON + timedelta(days=3650)

SNAPSHOT = """
    select d.dag_id, y.deliveries, r.runs from dag d
    left join lateral (
      select json_object_agg(y.event_id, case y.disposition when 'held' then y.reason else y.disposition::text end)
        as deliveries
      from delivery y where y.dag_id = d.id) y on true
    left join lateral (
      select json_agg(json_build_array(r.start_event, m.events, r.state) order by r.ordinal) as runs
      from run r cross join lateral (
        select json_agg(y.event_id order by y.event_id) as events from delivery y where y.run_id = r.id) m
      where r.dag_id = d.id) r on true
"""

leaf = strategies.sampled_from(ASSETS).map(lambda name: ["asset", name])
condition = strategies.recursive(
    leaf,
    lambda part: strategies.tuples(
        strategies.sampled_from(["and", "or"]), strategies.lists(part, min_size=2, max_size=3)
    ).map(list),
    max_leaves=4,
)


@strategies.composite
def schedules(draw: strategies.DrawFn) -> AssetSchedule:
    """Any schedule that an author may write; a filter wants values of 2 or more."""
    tree = draw(condition)
    joins = "and" in json.dumps(tree)
    policy = draw(strategies.sampled_from(["all", "window", "latest"] + ([] if joins else ["each", "each"])))
    how: dict[str, Any] = {}
    if policy == "window":
        how = draw(strategies.sampled_from([{"quiet": 10.0}, {"max_wait": 25.0}, {"quiet": 10.0, "max_wait": 25.0}]))
        if not joins:
            how |= draw(strategies.sampled_from([{}, {"max_size": 2}, {"max_size": 3}]))
    wanted = draw(strategies.sets(strategies.sampled_from(ASSETS), max_size=1))
    filters = {name: [">=", "value", 2] for name in wanted if name in json.dumps(tree)}
    return AssetSchedule(tree, policy, filters=filters, **how)


consumers = strategies.tuples(
    schedules(), strategies.integers(1, 3), strategies.sampled_from(["hold", "hold", "discard"])
)
"""A schedule, `max_active_runs`, `while_paused`."""


sightings = strategies.tuples(
    strategies.sampled_from(ASSETS), strategies.sampled_from([None, None, "k1", "k2", "k3"]), strategies.integers(0, 4)
)
"""An asset, a key, the value in the payload."""


class Killed(Exception):
    """The process ends here."""


class Mortal(Connection):
    """A connection of a process that ends before its n-th statement: cleanly, so that it rolls back, or cut off."""

    def __init__(self, raw: Any, lives: int, cut: Any) -> None:
        super().__init__(raw)
        self._lives = lives
        self._cut = cut
        self._pid = raw.get_server_pid()

    async def fetch(self, name: str, *args: Any) -> list[Any]:
        await self._live()
        return await super().fetch(name, *args)

    async def execute(self, name: str, *args: Any) -> str:
        await self._live()
        return await super().execute(name, *args)

    async def _live(self) -> None:
        self._lives -= 1
        if self._lives < 0:
            if self._cut is not None:
                await self._cut(self._pid)
            raise Killed


@dataclass
class Open:
    """A transaction that stands open. `held`: the consumers a scheduler has locked, or the assets of a source."""

    transaction: Any
    tx: Connection
    held: set[str]
    pid: int
    claimed: list[Claimed] = field(default_factory=list)
    read: dict[str, list[int]] = field(default_factory=dict)
    answers: list[events.Recorded] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    now: datetime = NOON


@dataclass(frozen=True)
class Action:
    """A step of a program: how often it is chosen, when it can be, what it is given."""

    name: str
    weight: int
    when: Callable[[Store], Any]
    given: dict[str, strategies.SearchStrategy[Any]]

    def __repr__(self) -> str:
        return self.name


ACTIONS: list[Action] = []
"""Chosen by weight, not as Hypothesis chooses rules: it leaves some out of each program, and little would be done."""


def action(
    weight: int, when: Callable[[Store], Any] = lambda _: True, **given: strategies.SearchStrategy[Any]
) -> Callable[[Value], Value]:
    """Make a method an action; `data` is what it may draw more from."""

    def note(method: Value) -> Value:
        ACTIONS.append(Action(method.__name__, weight, when, given))  # type: ignore[attr-defined]
        return method

    return note


class Store(RuleBasedStateMachine):
    """The store and its reference, taken through the same program."""

    loop: ClassVar[asyncio.Runner]
    new_database: ClassVar[Callable[[], AbstractAsyncContextManager[str]]]

    def __init__(self) -> None:
        super().__init__()
        self.reference = Reference()
        self.now = NOON
        self.judging: dict[int, Open] = {}
        self.telling: Open | None = None
        self.sent: list[list[Change]] = []
        self.ids: dict[int, str] = {}
        self._open = self._opened()
        self.run(self._open.__anext__())

    async def _opened(self) -> AsyncIterator[None]:
        async with (
            Store.new_database() as url,
            await Database.connect(url, max_size=8, lease_seconds=120.0) as self.database,
        ):
            self.admin = await asyncpg.connect(url)
            self.schedulers = [Scheduler(self.database) for _ in range(SCHEDULERS)]
            self.versions = [Versions() for _ in range(SCHEDULERS)]
            await declare(self.database, *ASSETS)
            try:
                yield
            finally:
                await self.admin.close()

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        return self.loop.run(work)

    @property
    def locked(self) -> set[str]:
        return set().union(*(o.held for o in self.judging.values()))

    @initialize(given=strategies.lists(consumers, min_size=2, max_size=3))
    def begin(self, given: list[tuple[AssetSchedule, int, str]]) -> None:
        for name, declared in zip(CONSUMERS, given, strict=False):
            self.declare_consumer(name, *declared)

    @rule(data=strategies.data())
    def step(self, data: strategies.DataObject) -> None:
        possible = [a for a in ACTIONS for _ in range(a.weight if a.when(self) else 0)]
        chosen = data.draw(strategies.sampled_from(possible), label="step")
        given = {name: data.draw(strategy, label=name) for name, strategy in chosen.given.items()}
        method = getattr(self, chosen.name)
        method(**given | ({"data": data} if "data" in signature(method).parameters else {}))

    # Authors and operators -------------------------------------------------------------------------------------------

    @action(
        1,
        lambda self: not self.judging and self.telling is None,
        name=strategies.sampled_from(CONSUMERS),
        declared=consumers,
        how=strategies.sampled_from(["edit", "remove"]),
    )
    def author(self, name: str, declared: tuple[AssetSchedule, int, str], how: str) -> None:
        """Edit a consumer; or take it out of its file, or put it back as it was."""
        known = self.reference.consumers.get(name)
        if how == "edit" or known is None:
            self.declare_consumer(name, *declared)
        elif known.active:
            self.run(declare(self.database, path=f"{name}.py"))
            known.active = False
        else:
            self.declare_consumer(name, known.schedule, known.cap, known.while_paused)

    def declare_consumer(self, name: str, schedule: AssetSchedule, cap: int, while_paused: str) -> None:
        self.run(declare(self.database, *ASSETS, dag(name, schedule, max_active_runs=cap, while_paused=while_paused)))
        self.reference.declare(name, schedule, cap, while_paused)
        self.ids = dict(self.run(self._sql("select id, dag_id from dag")))

    @action(1, lambda self: not self.judging and any(not c.paused for c in self.reference.consumers.values()))
    def pause(self, data: strategies.DataObject) -> None:
        name = data.draw(strategies.sampled_from([n for n, c in self.reference.consumers.items() if not c.paused]))
        self.run(dags.pause(self.database, name, by=SOURCE, now=self.now))
        self.reference.pause(name, self.now)

    @action(
        2,
        lambda self: not self.judging and any(c.paused for c in self.reference.consumers.values()),
        pending=strategies.sampled_from(["each", "each", "join", "discard"]),
    )
    def resume(self, data: strategies.DataObject, pending: dags.OnResume) -> None:
        name = data.draw(strategies.sampled_from([n for n, c in self.reference.consumers.items() if c.paused]))
        self.run(dags.unpause(self.database, name, pending, by=SOURCE))
        self.reference.unpause(name, pending)

    @action(2, seconds=strategies.sampled_from([0.5, 4, 9, 10, 26, -3]))
    def clock_steps(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    # Sources ---------------------------------------------------------------------------------------------------------

    @action(
        4,
        told=strategies.lists(sightings, min_size=1, max_size=4),
        stands=strategies.sampled_from([False, False, True]),
    )
    def emit(self, told: list[tuple[str, str | None, int]], stands: bool) -> None:
        """Tell of changes; or begin to, and leave the transaction open."""
        taken = self.telling.held if self.telling else set()
        changes = [change(a, k, json.dumps({"value": v})) for a, k, v in told if a not in taken]
        if not changes:
            return
        if stands and self.telling is None:
            self.telling = self.run(self._begin({c.asset for c in changes}))
            self.telling.changes, self.telling.now = changes, self.now
            self.telling.answers = self.run(events.record(self.telling.tx, changes, SOURCE, now=self.now))  # type: ignore[arg-type]
        else:
            answers = self.run(events.record(self.database, changes, SOURCE, now=self.now))
            self._stored(changes, answers, self.now)

    @action(
        2,
        lambda self: not self.judging and self.telling is None,
        told=strategies.lists(sightings, min_size=2, max_size=5),
        works=strategies.booleans(),
    )
    def emit_and_settle(self, told: list[tuple[str, str | None, int]], works: bool) -> None:
        """Changes one after the other, each judged before the next; in the end perhaps all that runs ends."""
        for one in told:
            self.emit([one], stands=False)
            self.settle()
        if works:
            self.work_off()

    @action(
        3, lambda self: self.telling is not None, fate=strategies.sampled_from(["commit", "commit", "roll back", "cut"])
    )
    def source_ends(self, fate: str) -> None:
        """What was not answered is sent again under the same sightings by and by."""
        assert self.telling is not None
        telling, self.telling = self.telling, None
        self.run(self._end(telling, fate))
        if fate == "commit":
            self._stored(telling.changes, telling.answers, telling.now)
        else:
            self.sent.append(telling.changes)

    @action(1, lambda self: self.sent and self.telling is None)
    def send_again(self, data: strategies.DataObject) -> None:
        changes = data.draw(strategies.sampled_from(self.sent))
        self._stored(changes, self.run(events.record(self.database, changes, SOURCE, now=self.now)), self.now)

    def _stored(self, changes: list[Change], answers: list[events.Recorded], at: datetime) -> None:
        for told, answer in zip(changes, answers, strict=True):
            known = self.reference.events.get(answer.event_id)
            assert (answer.status == "stored") == (known is None), (told, answer)
            if told.key is not None:
                assert self.reference.keys.get((told.asset, told.key)) in (None, answer.event_id)
                assert known is None or (told.asset, told.key) in self.reference.keys
            if known is None:
                value = json.loads(told.extra)["value"]
                self.reference.store(Event(answer.event_id, told.asset, at, value), told.key)
        if changes not in self.sent:
            self.sent.append(changes)

    # Schedulers ------------------------------------------------------------------------------------------------------

    @action(
        2,
        lambda self: (
            len(self.judging) < SCHEDULERS and any(c.those(*PENDING) for c in self.reference.consumers.values())
        ),
    )
    def scheduler_locks(self) -> None:
        """One reads what there is to judge, locks it, and stands."""
        free = min(set(range(SCHEDULERS)) - self.judging.keys())
        opened = self.run(self._begin(set()))
        self.run(self._claim(opened))
        if opened.claimed:
            self.judging[free] = opened
        else:
            self.run(self._end(opened, "roll back"))

    @action(
        4,
        lambda self: self.judging,
        lives=strategies.integers(0, 12),
        fate=strategies.sampled_from(["commit", "commit", "roll back", "cut"]),
    )
    def scheduler_ends(self, data: strategies.DataObject, lives: int, fate: str) -> None:
        """It goes on to judge and to start, and commits; or it ends before one of its statements, or before COMMIT."""
        number = data.draw(strategies.sampled_from(sorted(self.judging)))
        opened = self.judging.pop(number)
        if fate != "commit":
            opened.tx = Mortal(opened.tx._raw, lives, self._cut if fate == "cut" else None)
        try:
            self.run(self._judge(number, opened))
        except Exception as error:
            assert fate != "commit" and (isinstance(error, Killed) or is_transient(error)), error
        self.run(self._end(opened, fate))
        if fate == "commit":
            self._judged(opened)

    @action(1)
    def start(self) -> None:
        """A scheduler starts what may start; consumers that others have locked it leaves."""
        self.run(self.schedulers[0].start.run_once())
        self._started(set(self.reference.consumers))

    async def _claim(self, opened: Open) -> None:
        found = await deliveries.find_consumers(self.database, 64, 0, self.now)
        new = {name for name, c in self.reference.consumers.items() if c.those("new")}
        assert new <= {self.ids[i] for i in found}, "a consumer with new events is not found"
        locked = self.locked
        opened.claimed = await deliveries.claim(opened.tx, found)
        opened.held = {self.ids[c.dag] for c in opened.claimed}
        assert opened.held == {self.ids[i] for i in found} - locked
        for c in opened.claimed:
            opened.read[self.ids[c.dag]] = [p.event_id for p in c.pending]
            assert opened.read[self.ids[c.dag]] == self.reference.consumers[self.ids[c.dag]].unread()

    async def _judge(self, number: int, opened: Open) -> None:
        opened.now = self.now
        judged = await judge_consumers(opened.tx, uuid.uuid4(), opened.claimed, self.versions[number], opened.now)
        if judged.consumptions:
            await start_startable(opened.tx, self.versions[number], [c.dag for c in judged.consumptions])

    def _judged(self, opened: Open) -> None:
        for name, read in opened.read.items():
            before = len(self.reference.consumers[name].runs)
            self.reference.judge(name, read, opened.now)
            if len(self.reference.consumers[name].runs) > before:
                self.reference.start(name)

    def _started(self, names: set[str]) -> None:
        for name in names - self.locked:
            self.reference.start(name)

    # Workers ---------------------------------------------------------------------------------------------------------

    @action(2, limit=strategies.integers(1, 4), how=strategies.sampled_from(["success", "success", "failed", "lost"]))
    def work(self, limit: int, how: str) -> None:
        """A worker takes tasks and ends them, tells it twice; or vanishes, and tells of it too late."""
        self.run(self._work(limit, how))

    @action(1, lambda self: not self.judging and self.telling is None)
    def work_off(self) -> None:
        """Everything that runs ends, and what waited for that goes on."""
        self.run(self._work(1000, "success"))
        self.settle()

    async def _work(self, limit: int, how: str) -> None:
        claimed = (await tasks.claim(self.database, WORKER, limit, 60.0)) or []
        runs = {r: run for name in self.reference.consumers for r, run in await self._numbered(name)}
        worked = [runs[t.run] for t in claimed]
        waiting = sum(r.state == "running" for c in self.reference.consumers.values() for r in c.runs)
        assert len(claimed) == min(limit, waiting) and all(r.state == "running" for r in worked)
        if not claimed:
            return
        reports = [report(t, TaskState.FAILED if how == "failed" else TaskState.SUCCESS) for t in claimed]
        if how == "lost":
            await tasks.rescue(self.database, take_over=True, now=LATER)
            assert set(await finish(self.database, WORKER, *reports)) == {"fenced"}
        else:
            assert set(await finish(self.database, WORKER, *reports)) == {"finished"}
            assert set(await finish(self.database, WORKER, *reports)) == {"repeated"}
        ended = set()
        for run, task in zip(worked, claimed, strict=True):
            run.losses += how == "lost"
            if how != "lost" or run.losses >= MOST_LOSSES:
                run.state = "failed" if how == "lost" else how
                ended.add(task.dag_id)
        while await self.schedulers[1].advance.run_once():
            pass
        self._started(ended)

    async def _numbered(self, name: str) -> list[tuple[int, Any]]:
        found = await self._sql(
            "select r.id from run r join dag d on d.id = r.dag_id where d.dag_id = $1 order by r.ordinal", name
        )
        return list(zip([i for (i,) in found], self.reference.consumers[name].runs, strict=True))

    # Checks ----------------------------------------------------------------------------------------------------------

    @action(2, lambda self: not self.judging and self.telling is None)
    def settle(self) -> None:
        """Schedulers go on until they find nothing more; then nothing more is to be done."""
        self.run(self._settle())

    async def _settle(self) -> None:
        for turn in range(50):
            opened = await self._begin(set())
            await self._claim(opened)
            if not opened.claimed:
                await self._end(opened, "roll back")
                break
            await self._judge(turn % SCHEDULERS, opened)
            await self._end(opened, "commit")
            self._judged(opened)
        else:
            raise AssertionError("schedulers find something to do for ever")
        while await self.schedulers[2].start.run_once():
            pass
        self._started(set(self.reference.consumers))
        for name in self.reference.consumers:
            before = self._expected(name)
            self.reference.judge(name, (), self.now)
            assert self._expected(name) == before, f"{name} should have been judged once more"

    @invariant()
    def same(self) -> None:
        """The store has exactly what the reference has."""
        seen: dict[str, Any] = {}
        for name, given, runs in self.run(self._sql(SNAPSHOT)):
            made = [tuple(run) for run in json.loads(runs or "[]")]
            seen[name] = ({int(e): s for e, s in json.loads(given or "{}").items()}, made)
        assert seen == {name: self._expected(name) for name in self.reference.consumers}

    def _expected(self, name: str) -> tuple[dict[int, str], list[Any]]:
        c = self.reference.consumers[name]
        given = {e: "pending" if s in PENDING else s for e, s in c.deliveries.items()}
        return given, [(r.start, r.members, r.state) for r in c.runs]

    def teardown(self) -> None:
        try:
            for opened in [*self.judging.values(), *([self.telling] if self.telling else [])]:
                self.run(self._end(opened, "roll back"))
            self.judging, self.telling = {}, None
            self.settle()
            self.same()
            self.run(healthy(self.database))
        finally:
            self.run(self._open.aclose())

    # Transactions ----------------------------------------------------------------------------------------------------

    async def _begin(self, held: set[str]) -> Open:
        transaction = self.database.transaction()
        tx = await transaction.__aenter__()
        return Open(transaction, tx, held, tx._raw.get_server_pid())

    async def _end(self, opened: Open, fate: str) -> None:
        """Commit, roll back, or be cut off (if the transaction was not before)."""
        if fate == "commit":
            await opened.transaction.__aexit__(None, None, None)
            return
        if fate == "cut":
            await self._cut(opened.pid)
        try:
            await opened.transaction.__aexit__(Killed, Killed(), None)
        except Killed:
            return
        except Exception as error:
            if not (is_transient(error) or isinstance(error, UnreachableError)):
                raise

    async def _cut(self, pid: int) -> None:
        """The server ends the session, if it has not, and has let go of its locks."""
        there = "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity where pid = $1"
        await self.admin.fetchval(there, pid)

    async def _sql(self, text: str, *args: Any) -> list[tuple[Any, ...]]:
        async with self.database._acquire() as raw:
            return [tuple(r) for r in await raw.fetch(text, *args)]


def test_random_programs(new_database: Any, programs: settings) -> None:
    """airflow #63507, #54491, #60773, #56050, apache/airflow#56541: whatever the order of steps and crashes."""
    Store.new_database = staticmethod(new_database)
    with asyncio.Runner() as Store.loop:
        run_state_machine_as_test(Store, settings=programs)
