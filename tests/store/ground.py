"""What the store's tests stand on: files registered by the real code, schedulers that are real services, and a gate.

A gate makes an interleaving certain: it is a trigger that stops a session whose application name begins with "gated"
at a chosen statement, until the test opens it.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import asyncpg

from onceflow.config import Settings
from onceflow.model.change import Change
from onceflow.model.dagspec import (
    AssetSchedule,
    AssetSpec,
    DagSpec,
    FileSpec,
    NoSchedule,
    Policy,
    Schedule,
    TaskSpec,
)
from onceflow.model.states import Outcome, TaskState
from onceflow.queries.verify import verify
from onceflow.runtime.role import Role
from onceflow.runtime.wakeups import Wakeups
from onceflow.scheduler.advance_runs import AdvanceRuns
from onceflow.scheduler.create_asset_runs import CreateAssetRuns
from onceflow.scheduler.start_runs import StartRuns
from onceflow.store import events, files, tasks
from onceflow.store.database import Database, session_options
from onceflow.store.tasks import ClaimedTask, Report
from onceflow.store.versions import Versions
from support import eventually

Value = TypeVar("Value")

SOURCE = {"kind": "test"}
GATE = 0x6761_7465


def each(*names: str) -> AssetSchedule:
    """One run per event of any of the assets."""
    parts = [["asset", n] for n in names]
    return AssetSchedule(parts[0] if len(parts) == 1 else ["or", parts], "each")


def one_of(*names: str, policy: Policy = "all", **how: Any) -> AssetSchedule:
    """Any of the assets, consumed by a policy."""
    parts = [["asset", n] for n in names]
    return AssetSchedule(parts[0] if len(parts) == 1 else ["or", parts], policy, **how)


def together(*names: str) -> AssetSchedule:
    """One run when all of the assets have an event; it takes all that is pending."""
    return AssetSchedule(["and", [["asset", n] for n in names]], "all")


def dag(dag_id: str, schedule: Schedule | None = None, *ids: TaskSpec | str, file: str = "", **more: Any) -> DagSpec:
    """A DAG of tasks, given as specs or ids; without any, one task called "work"."""
    specs = tuple(t if isinstance(t, TaskSpec) else TaskSpec(t) for t in ids or ("work",))
    where = f"{file or dag_id + '.py'}:1"
    return DagSpec(dag_id, schedule or NoSchedule(), specs, file or f"{dag_id}.py", where=where, **more)


def change(asset: str, key: str | None = None, extra: str = "{}", sighting: uuid.UUID | None = None) -> Change:
    return Change(asset, extra, key, sighting or uuid.uuid4())


async def declare(
    database: Database, *declared: DagSpec | AssetSpec | str, path: str = "", paused: bool = False
) -> bool:
    """Register a file with these DAGs and assets (specs, or names); its path is that of the first DAG."""
    dags = tuple(d for d in declared if isinstance(d, DagSpec))
    where = path or (dags[0].file if dags else "assets.py")
    assets = tuple(
        AssetSpec(d, where=f"{where}:1") if isinstance(d, str) else d for d in declared if not isinstance(d, DagSpec)
    )
    file = await files.add(database, where)
    source_hash = uuid.uuid4().hex
    spec = FileSpec(where, source_hash, dags, assets)
    return await files.register(database, file, spec, b"code", paused=paused, parse_seconds=0.0)


async def record(database: Database, *changes: Change | str) -> list[events.Recorded]:
    """Record changes, or one of these assets each, in one transaction."""
    return await events.record(database, [change(c) if isinstance(c, str) else c for c in changes], SOURCE)


def role(database: Database, kind: str = "scheduler") -> Role:
    """A role that may take over at once."""
    settings = Settings(database_url=database.url)
    return Role(kind, uuid.uuid4(), settings, database, Wakeups(), steady_since=float("-inf"))


class Scheduler:
    """A scheduler's services, run by hand."""

    def __init__(self, database: Database) -> None:
        self.role = role(database)
        versions = Versions()
        self.judge = CreateAssetRuns(self.role, versions)
        self.start = StartRuns(self.role, versions)
        self.advance = AdvanceRuns(self.role, versions)

    async def settle(self) -> None:
        """Do all there is to do, alone."""
        while [s for s in (self.judge, self.start, self.advance) if await s.run_once()]:
            pass


async def claim_tasks(database: Database, worker: uuid.UUID, limit: int = 100) -> dict[str, ClaimedTask]:
    """Claim queued tasks; by task id, of which there should be one each."""
    return {t.task_id: t for t in await tasks.claim(database, worker, limit, 60.0)}


def report(
    task: ClaimedTask, state: TaskState = TaskState.SUCCESS, outcome: Outcome | None = None, **more: Any
) -> Report:
    """How an attempt ended; the outcome is named like the state if it is not given."""
    return Report(task.id, task.attempt, task.token, state, outcome or Outcome(state.value), **more)


async def finish(
    database: Database, worker: uuid.UUID, *reports: Report, assets: dict[str, int] | None = None
) -> list[tasks.FinishStatus]:
    return await tasks.finish(database, worker, reports, assets or {})


async def rows(database: Database, text: str, *args: object) -> list[tuple[Any, ...]]:
    """The rows of a statement that only a test needs, as tuples."""
    async with database._acquire() as raw:
        return [tuple(row) for row in await raw.fetch(text, *args)]


async def members(database: Database, dag_id: str = "d") -> list[list[int]]:
    """The events of each run of a DAG, in the order of the runs."""
    found = await rows(
        database,
        "select array_agg(y.event_id order by y.event_id) from run r join dag d on d.id = r.dag_id "
        "join delivery y on y.run_id = r.id where d.dag_id = $1 group by r.id, r.ordinal order by r.ordinal",
        dag_id,
    )
    return [events for (events,) in found]


async def healthy(database: Database) -> dict[str, Any]:
    """Nothing of the promise is broken; what `verify` counted."""
    result = await verify(database)
    assert result["ok"], json.dumps(result["violations"], indent=1, default=str)
    return result


@asynccontextmanager
async def connected(url: str, name: str = "test", *, lease_seconds: float = 120.0) -> AsyncIterator[Any]:
    """A plain connection with the settings of a hot role; its timeouts are long unless a lease is given."""
    connection = await asyncpg.connect(url, **session_options(name, lease_seconds, "none", hot=True))
    try:
        yield connection
    finally:
        connection.terminate()


@asynccontextmanager
async def pool(url: str, name: str = "test", *, size: int = 4, lease_seconds: float = 120.0) -> AsyncIterator[Database]:
    """A pool like a role's, with long timeouts unless a lease is given."""
    async with await Database.connect(url, max_size=size, kind=name, lease_seconds=lease_seconds) as database:
        yield database


async def let_lapse(database: Database) -> None:
    """What no file defines any more has been away for longer than a moment."""
    async with database._acquire() as raw:
        await raw.execute("update subscription set ended_at = ended_at - interval '61 s' where lapsed")


class Gate:
    """Stops "gated" sessions at a statement. Closed from the beginning."""

    def __init__(self, keeper: Any) -> None:
        self._keeper = keeper

    @classmethod
    @asynccontextmanager
    async def at(cls, url: str, table: str, operation: str = "update", when: str = "before") -> AsyncIterator[Gate]:
        """A gate before (or after) every statement that does the operation on the table.

        Who stands there stays, though its client may be gone: the server would notice within its check interval.
        """
        async with connected(url, "keeper") as keeper:
            await keeper.execute(
                f"""
                create or replace function gate() returns trigger language plpgsql as $$
                begin
                  if current_setting('application_name') like 'gated%' then
                    perform set_config('client_connection_check_interval', '0', true);
                    perform pg_advisory_xact_lock_shared({GATE});
                  end if;
                  return null;
                end $$;
                create trigger a_gate {when} {operation} on {table} for each statement execute function gate();
                """
            )
            await keeper.execute(f"select pg_advisory_lock({GATE})")
            yield cls(keeper)

    @classmethod
    @asynccontextmanager
    async def in_reading(cls, url: str, table: str) -> AsyncIterator[Gate]:
        """A gate inside statements that read the table: their snapshot is taken, and no row is locked yet."""
        async with connected(url, "keeper") as keeper:
            await keeper.execute(
                f"""
                create function pass_gate() returns boolean language plpgsql as $$
                begin
                  if current_setting('application_name') like 'gated%' then
                    perform pg_advisory_xact_lock_shared({GATE});
                  end if;
                  return true;
                end $$;
                alter table {table} enable row level security;
                alter table {table} force row level security;
                create policy a_gate on {table} using (pass_gate());
                """
            )
            await keeper.execute(f"select pg_advisory_lock({GATE})")
            yield cls(keeper)

    @classmethod
    @asynccontextmanager
    async def at_commit(cls, url: str, table: str) -> AsyncIterator[Gate]:
        """A gate in the COMMIT of transactions that inserted into the table."""
        async with cls.at(url, table, "insert") as gate:
            await gate._keeper.execute(
                f"""
                drop trigger a_gate on {table};
                create constraint trigger a_gate after insert on {table} deferrable initially deferred
                for each row execute function gate();
                """
            )
            yield gate

    async def reached(self) -> None:
        """A session stands at the gate."""
        await waits(self._keeper, "gated", "advisory")

    async def waits(self, name: str, *, twice: bool = False) -> None:
        """Somebody else waits meanwhile; `twice`: two of that name."""
        await waits(self._keeper, name, at_least=2 if twice else 1)

    async def end_session(self) -> None:
        """The server ends the session that stands at the gate."""
        await self._keeper.fetch(
            "select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'advisory' "
            "and datname = current_database() and starts_with(application_name, 'gated')"
        )

    async def open(self) -> None:
        await self._keeper.execute(f"select pg_advisory_unlock({GATE})")


async def waits(sql: Any, name: str, event: str | None = None, at_least: int = 1) -> None:
    """Sessions whose application name begins with `name` wait for a lock (of that kind, if given)."""
    await eventually(
        lambda: sql.fetchval(
            "select count(*) >= $3 from pg_stat_activity where datname = current_database() "
            "and starts_with(application_name, $1) and wait_event_type = 'Lock' "
            "and ($2::text is null or wait_event = $2)",
            name,
            event,
            at_least,
        ),
        why=f"a session {name!r} that waits",
    )


async def together_all(*work: Awaitable[Value]) -> list[Value]:
    """Everything at once; the first error ends it."""
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(_run(w)) for w in work]
    return [t.result() for t in running]


async def _run(work: Awaitable[Value]) -> Value:
    return await work


async def without_result(work: Awaitable[Any]) -> None:
    """The work, for a group of tasks of which each has another result."""
    await work


async def until_quiet(step: Callable[[], Awaitable[bool]], finished: asyncio.Event, quiet: int = 3) -> int:
    """Repeat a step until it has nothing to do several times after `finished`; how often it did something."""
    did = idle = 0
    while idle < quiet:
        over = finished.is_set()
        if await step():
            did, idle = did + 1, 0
        elif over:
            idle += 1
    return did


async def deadlocks(sql: Any) -> int:
    """How many deadlocks the server counted in this database."""
    await sql.execute("select pg_stat_force_next_flush()")
    return await sql.fetchval("select deadlocks from pg_stat_database where datname = current_database()")


def column(rows: Sequence[Any], name: str) -> list[Any]:
    return [r[name] for r in rows]
