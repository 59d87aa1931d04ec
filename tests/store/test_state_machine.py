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
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, TypeVar

import asyncpg
from ground import SOURCE, Scheduler, change, dag, declare, finish, healthy, let_lapse, report
from hypothesis import note, settings, strategies
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from programs import (
    ACTIONS,
    DECLARED,
    STRICT,
    Chance,
    Killed,
    Mortal,
    Open,
    Sighting,
    action,
    consumer,
    sightings,
)
from reference import MOST_LOSSES, PENDING, Consumer, Event, Reference

from onceflow.model.change import Change
from onceflow.model.dagspec import AssetSchedule
from onceflow.model.errors import UnreachableError
from onceflow.model.states import TaskState
from onceflow.scheduler.judge_consumers import judge_consumers
from onceflow.scheduler.start_runs import start_startable
from onceflow.store import dags, deliveries, events, history, interventions, lanes, quarantine, storms, tasks
from onceflow.store.database import Database, is_transient
from onceflow.store.interventions import Scope
from onceflow.store.versions import Versions

Value = TypeVar("Value")

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
WORKER = uuid.UUID(int=8)
CONSUMERS = ("one", "two", "three")
SCHEDULERS = 3
SEEDS = strategies.integers(0, 2**32 - 1)
OPEN = (*PENDING, "pause", "storm", "quarantine", "inactive", "unscheduled")
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
        select json_agg(y.event_id order by y.event_id) as events from (
          select y.event_id from delivery y where y.run_id = r.id
          union all select m.event_id from run_member m where m.run_id = r.id) y) m
      where r.dag_id = d.id) r on true
"""


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
        self.names = {name: (name, "") for name in CONSUMERS}
        """By the name of its file, a consumer's own and the one it had before."""
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
            await declare(self.database, *DECLARED)
            try:
                yield
            finally:
                await self.admin.close()

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        return self.loop.run(work)

    @property
    def locked(self) -> set[str]:
        return set().union(*(o.held for o in self.judging.values()))

    @initialize(seed=SEEDS)
    def begin(self, seed: int) -> None:
        chance = Chance(seed)
        for file in CONSUMERS:
            self.declare_consumer(file, *consumer(chance))

    @rule(seed=SEEDS)
    def step(self, seed: int) -> None:
        chance = Chance(seed)
        possible = [a for a in ACTIONS if a.when(self)]
        [chosen] = chance.choices(possible, [a.weight for a in possible])
        note(chosen.name)
        getattr(self, chosen.name)(chance)

    def some(self, chance: Chance, when: Callable[[Consumer], Any]) -> str:
        """The name of a consumer that is so."""
        return chance.choice([n for n, c in self.free() if when(c)])

    def any(self, when: Callable[[Consumer], Any]) -> bool:
        """Whether a consumer is so that nobody has locked."""
        return any(when(c) for _, c in self.free())

    def discardable(self, consumer: Consumer) -> list[int]:
        """What is open for it, but for what a source may be about to mend."""
        touched = {a.event_id for a in self.telling.answers} if self.telling else set()
        return [e for e in consumer.those(*OPEN) if e not in touched]

    def free(self) -> list[tuple[str, Consumer]]:
        locked = self.locked
        return [(n, c) for n, c in self.reference.consumers.items() if n not in locked]

    # Authors and operators -------------------------------------------------------------------------------------------

    @action(3, lambda self: self.telling is None and self.any(lambda _: True))
    def author(self, chance: Chance) -> None:
        """Edit or rename a consumer; or take it out of its file. One that was is put back, in a moment or later."""
        name = self.some(chance, lambda _: True)
        [file] = [f for f, (current, _) in self.names.items() if current == name]
        how, known = chance.choice(["edit", "edit", "remove", "rename"]), self.reference.consumers[name]
        if not known.active:
            self.put_back(file, known, at_once=chance.random() < 0.5)
        elif how == "edit":
            self.declare_consumer(file, *consumer(chance))
        elif how == "rename":
            self.names[file] = (file if name != file else f"{file} again", name)
            self.declare_consumer(file, known.schedule, known.cap, known.while_paused, known.rate, renamed=True)
        else:
            self.run(declare(self.database, path=f"{file}.py"))
            known.active = False

    def put_back(self, file: str, known: Consumer, *, at_once: bool) -> None:
        if not at_once:
            self.run(let_lapse(self.database))
            for consumer in self.reference.consumers.values():
                consumer.missed.clear()
        self.declare_consumer(file, known.schedule, known.cap, known.while_paused, known.rate)
        self.run(self._catch_up())
        self.reference.catch_up(known)

    async def _catch_up(self) -> None:
        while found := await history.find(self.database, 10):
            for asset, subscriber in found:
                await history.catch_up(self.database, asset, subscriber)

    def declare_consumer(
        self,
        file: str,
        schedule: AssetSchedule,
        cap: int,
        while_paused: str,
        rate: int | None,
        *,
        renamed: bool = False,
    ) -> None:
        name, before = self.names[file]
        limits = {"max_active_runs": cap, "while_paused": while_paused, "max_runs_per_minute": rate}
        spec = dag(name, schedule, file=f"{file}.py", previous_id=before, **limits)
        self.run(declare(self.database, *DECLARED, spec))
        self.reference.declare(name, schedule, cap, while_paused, rate, before if renamed else "")
        self.ids = dict(self.run(self._sql("select id, dag_id from dag")))

    @action(2, lambda self: self.any(lambda c: not c.paused))
    def pause(self, chance: Chance) -> None:
        self.do_pause(self.some(chance, lambda c: not c.paused))

    def do_pause(self, name: str) -> None:
        self.run(dags.pause(self.database, name, by=SOURCE, now=self.now))
        self.reference.pause(name, self.now)

    @action(4, lambda self: self.any(lambda c: c.paused))
    def resume(self, chance: Chance) -> None:
        pending: dags.OnResume = chance.choice(["each", "each", "join", "join", "discard"])
        self.do_resume(self.some(chance, lambda c: c.paused), pending)

    def do_resume(self, name: str, pending: dags.OnResume) -> None:
        self.run(dags.unpause(self.database, name, pending, by=SOURCE))
        self.reference.unpause(name, pending)

    @action(4, lambda self: self.any(lambda c: c.storm))
    def end_storm(self, chance: Chance) -> None:
        name = self.some(chance, lambda c: c.storm)
        how: storms.How = chance.choice(["each", "each", "join", "join", "discard"])
        self.run(storms.release(self.database, name, how, by=SOURCE, now=self.now))
        self.reference.release(name, how)

    @action(2, lambda self: self.any(lambda c: c.those("storm")))
    def release_by_hand(self, chance: Chance) -> None:
        """Some of what a storm holds, which goes on for the others."""
        name = self.some(chance, lambda c: c.those("storm"))
        held = self.reference.consumers[name].those("storm")
        chosen = chance.sample(held, chance.randint(1, len(held)))
        self.run(interventions.release(self.database, Scope(name, chosen), by=SOURCE))
        self.reference.release(name, "each", chosen)

    @action(2, lambda self: self.any(self.discardable))
    def discard_by_hand(self, chance: Chance) -> None:
        name = self.some(chance, self.discardable)
        chosen = chance.choice(self.discardable(self.reference.consumers[name]))
        self.run(interventions.discard(self.database, Scope(name, [chosen]), by=SOURCE))
        self.reference.discard(name, [chosen])

    @action(1, lambda self: self.any(lambda c: c.active and c.runs))
    def run_again(self, chance: Chance) -> None:
        name = self.some(chance, lambda c: c.active and c.runs)
        run, original = chance.choice(self.run(self._numbered(name)))
        [(run_id,)] = self.run(self._sql("select run_id from run where id = $1", run))
        self.run(lanes.rerun(self.database, name, run_id, by=SOURCE))
        self.reference.run_again(name, original)

    @action(3)
    def clock_steps(self, chance: Chance) -> None:
        self.now += timedelta(seconds=chance.choice([0.5, 4, 9, 10, 26, 61, -3]))

    # Sources ---------------------------------------------------------------------------------------------------------

    @action(6)
    def emit(self, chance: Chance) -> None:
        """Tell of changes; or begin to, and leave the transaction open."""
        told = sightings(chance, 4)
        taken = self.telling.held if self.telling else set()
        changes = [change(a, k, json.dumps({"value": v})) for a, k, v in told if a not in taken]
        if changes and self.telling is None and chance.random() < 0.3:
            self.telling = self.run(self._begin({c.asset for c in changes}))
            self.telling.changes, self.telling.now = changes, self.now
            self.telling.answers = self.run(events.record(self.telling.tx, changes, SOURCE, now=self.now))  # type: ignore[arg-type]
        elif changes:
            self._stored(changes, self.run(events.record(self.database, changes, SOURCE, now=self.now)), self.now)

    def tell(self, told: list[Sighting]) -> None:
        changes = [change(a, k, json.dumps({"value": v})) for a, k, v in told]
        self._stored(changes, self.run(events.record(self.database, changes, SOURCE, now=self.now)), self.now)

    @action(2, lambda self: not self.judging and self.telling is None and self.any(lambda c: not c.paused))
    def join(self, chance: Chance) -> None:
        """One run is asked for of what a pause held; more comes before it is made, or even another pause."""
        name = self.some(chance, lambda c: not c.paused)
        self.do_pause(name)
        self.tell(sightings(chance, 4))
        self.settle()
        self.do_resume(name, "join")
        self.tell(sightings(chance, 4))
        if chance.random() < 0.4:
            self.do_pause(name)
            self.settle()
            self.do_resume(name, "each")
        self.settle()

    @action(2, lambda self: not self.judging and self.telling is None)
    def mend_late(self, chance: Chance) -> None:
        """A bad payload is mended after a later change of its asset was judged."""
        self.tell([(STRICT, None, -1)])
        self.tell([(STRICT, None, 3), *sightings(chance, 2)])
        self.settle()
        self.mend(chance)
        self.settle()

    @action(5, lambda self: not self.judging and self.telling is None)
    def go_on(self, chance: Chance) -> None:
        """What is usual: changes come in, time goes by, schedulers judge, runs end, a bad payload is mended."""
        for _ in range(chance.randint(2, 4)):
            self.tell(sightings(chance, 2))
            if chance.random() < 0.7:
                self.now += timedelta(seconds=chance.choice([4, 6, 9, 10]))
            self.settle()
            if self.reference.quarantined and chance.random() < 0.5:
                self.mend(chance)
            if self._are("running") and chance.random() < 0.4:
                self.work_off()

    @action(5, lambda self: self.telling is not None)
    def source_ends(self, chance: Chance) -> None:
        """What was not answered is sent again under the same sightings by and by."""
        assert self.telling is not None
        telling, self.telling = self.telling, None
        fate = chance.choice(["commit", "commit", "roll back", "cut"])
        self.run(self._end(telling, fate))
        if fate == "commit":
            self._stored(telling.changes, telling.answers, telling.now)
        else:
            self.sent.append(telling.changes)

    @action(3, lambda self: self.reference.quarantined and self.telling is None)
    def mend(self, chance: Chance) -> None:
        """A person corrects the payload of a quarantined event; or lets it go on as it is."""
        event = chance.choice(sorted(self.reference.quarantined))
        value = chance.choice([None, 0, 2, 4])
        extra = None if value is None else {"value": value}
        self.run(quarantine.release(self.database, event, extra=extra, as_it_is=value is None, by=SOURCE))
        self.reference.mend(event, self.reference.events[event].value if value is None else value)

    @action(1, lambda self: self.sent and self.telling is None)
    def send_again(self, chance: Chance) -> None:
        changes = chance.choice(self.sent)
        self._stored(changes, self.run(events.record(self.database, changes, SOURCE, now=self.now)), self.now)

    def _stored(self, changes: list[Change], answers: list[events.Recorded], at: datetime) -> None:
        mended = set()
        for told, answer in zip(changes, answers, strict=True):
            known = self.reference.events.get(answer.event_id)
            value = json.loads(told.extra)["value"]
            bad = told.asset == STRICT and value < 0
            assert (answer.status == "stored") == (known is None), (told, answer)
            if told.key is not None:
                assert self.reference.keys.get((told.asset, told.key)) in (None, answer.event_id)
                assert known is None or (told.asset, told.key) in self.reference.keys
            if known is None:
                self.reference.store(Event(answer.event_id, told.asset, at, value), told.key, bad=bad)
            elif answer.event_id in self.reference.quarantined and not bad:
                assert answer.status == "released", (told, answer)
                self.reference.mend(answer.event_id, value)
                mended.add(answer.event_id)
            else:
                assert (answer.status == "released") == (answer.event_id in mended and not bad), (told, answer)
        if changes not in self.sent:
            self.sent.append(changes)

    # Schedulers ------------------------------------------------------------------------------------------------------

    @action(1, lambda self: not self.judging and self.any(lambda c: c.those("waiting")))
    def scheduler_looks(self, chance: Chance) -> None:
        """Perhaps a window has ended, or there is room."""
        self.scheduler_locks(chance)

    @action(5, lambda self: len(self.judging) < SCHEDULERS and self.any(lambda c: c.those("new")))
    def scheduler_locks(self, _: Chance) -> None:
        """One reads what there is to judge, locks it, and stands."""
        free = min(set(range(SCHEDULERS)) - self.judging.keys())
        found, opened = self.run(self._find()), self.run(self._begin(set()))
        self.run(self._claim(opened, found))
        if opened.claimed:
            self.judging[free] = opened
        else:
            self.run(self._end(opened, "roll back"))

    @action(8, lambda self: self.judging)
    def scheduler_ends(self, chance: Chance) -> None:
        """It goes on to judge and to start, and commits; or it ends before one of its statements, or before COMMIT."""
        number, lives = chance.choice(sorted(self.judging)), chance.randint(0, 12)
        fate = chance.choice(["commit", "commit", "commit", "roll back", "cut"])
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

    @action(1, lambda self: self._are("queued"))
    def start(self, _: Chance) -> None:
        """A scheduler starts what may start; consumers that others have locked it leaves."""
        self.run(self.schedulers[0].start.run_once())
        self._started(set(self.reference.consumers))

    async def _find(self) -> list[int]:
        found = await deliveries.find_consumers(self.database, 64, 0, self.now)
        new = {name for name, c in self.reference.consumers.items() if c.those("new")}
        assert new <= {self.ids[i] for i in found}, "a consumer with new events is not found"
        return found

    async def _claim(self, opened: Open, found: list[int]) -> None:
        locked = self.locked
        opened.claimed = await deliveries.claim(opened.tx, found, now=self.now)
        opened.held = {self.ids[c.dag] for c in opened.claimed}
        assert opened.held == {self.ids[i] for i in found} - locked
        for c in opened.claimed:
            name = self.ids[c.dag]
            known = self.reference.consumers[name]
            opened.read[name], opened.caught[name] = [p.event_id for p in c.pending], known.caught()
            assert opened.read[name] == known.unread() and c.allowance == known.allowance(self.now)

    async def _judge(self, number: int, opened: Open) -> None:
        opened.now = self.now
        judged = await judge_consumers(opened.tx, uuid.uuid4(), opened.claimed, self.versions[number], opened.now)
        if judged.consumptions:
            await start_startable(opened.tx, self.versions[number], [c.dag for c in judged.consumptions])

    def _judged(self, opened: Open) -> None:
        allowances = {self.ids[c.dag]: c.allowance for c in opened.claimed}
        for name, read in opened.read.items():
            before = len(self.reference.consumers[name].runs)
            self.reference.judge(name, read, opened.now, allowances[name], opened.caught[name])
            if len(self.reference.consumers[name].runs) > before:
                self.reference.start(name)

    def _started(self, names: set[str]) -> None:
        for name in names - self.locked:
            self.reference.start(name)

    # Workers ---------------------------------------------------------------------------------------------------------

    def _are(self, state: str) -> bool:
        return any(c.count(state) for c in self.reference.consumers.values())

    @action(4, lambda self: self._are("running"))
    def work(self, chance: Chance) -> None:
        """A worker takes tasks and ends them, tells it twice; or vanishes, and tells of it too late, perhaps again."""
        how = chance.choice(["success", "failed", "lost", "lost until it fails"])
        limit, again = (1000, MOST_LOSSES) if how == "lost until it fails" else (chance.randint(1, 4), 1)
        for _ in range(again):
            self.run(self._work(limit, how.split()[0]))

    @action(2, lambda self: not self.judging and self.telling is None and self._are("running"))
    def work_off(self, _: Chance | None = None) -> None:
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
    def settle(self, _: Chance | None = None) -> None:
        """Schedulers go on until they find nothing more; then nothing more is to be done."""
        self.run(self._settle())

    async def _settle(self) -> None:
        turn = 0
        while found := await self._find():
            opened = await self._begin(set())
            await self._claim(opened, found)
            await self._judge(turn % SCHEDULERS, opened)
            await self._end(opened, "commit")
            self._judged(opened)
            turn += 1
            assert turn < 50, f"schedulers find something to do for ever: {opened.claimed}"
        while await self.schedulers[2].start.run_once():
            pass
        self._started(set(self.reference.consumers))
        for name in self.reference.consumers:
            before = self._expected(name)
            self.reference.judge(name, (), self.now, self.reference.consumers[name].allowance(self.now))
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
