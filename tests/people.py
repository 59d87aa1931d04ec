"""A small world of rows for tests of what people see: DAGs, events, runs, attempts, made by the schema's functions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from typing import Any

import asyncpg

from onceflow.model.asset_expr import assets_of
from onceflow.model.dagspec import AssetSchedule, DagSpec, NoSchedule, TaskSpec
from onceflow.model.spec_json import spec_hash, to_json
from onceflow.scheduler.judge_consumers import judge_consumers
from onceflow.store import deliveries
from onceflow.store.database import Database
from onceflow.store.emit import change, emit
from onceflow.store.versions import Versions

PROCESS = uuid.UUID(int=1)


class World:
    """Rows in a test's database; `sql` is for what no function does."""

    def __init__(self, database: Database, connection: Any) -> None:
        self.database = database
        self.sql = connection

    @classmethod
    async def open(cls, database: Database) -> World:
        return cls(database, await asyncpg.connect(database.url))

    async def close(self) -> None:
        await self.sql.close()

    async def asset(self, name: str, uri: str = "") -> int:
        return await self.sql.fetchval(
            "insert into asset as a (name, uri) values ($1, $2) "
            "on conflict (name) do update set name = a.name returning id",
            name,
            uri,
        )

    async def dag(self, dag_id: str, condition: list[Any] | None = None, **options: Any) -> int:
        """A DAG with one task; `condition` makes it a consumer. Options: DagSpec's, AssetSchedule's, `paused`."""
        policy, paused = options.pop("policy", "each"), options.pop("paused", False)
        how = {name: options.pop(name) for name in ("quiet", "max_wait", "max_size", "filters") if name in options}
        schedule = AssetSchedule(condition, policy, **how) if condition else NoSchedule()
        spec = DagSpec(dag_id, schedule, (TaskSpec("work"),), f"{dag_id}.py", **options)
        kind = f"asset:{policy}" if condition else "none"
        file = await self.sql.fetchval(
            "insert into dag_file (path, parsed_at) values ($1, clock_timestamp()) returning id", f"{dag_id}.py"
        )
        pk = await self.sql.fetchval(
            "insert into dag (dag_id, file_id, paused, schedule_kind, max_active_runs) "
            "values ($1, $2, $3, $4, $5) returning id",
            *(dag_id, file, paused, kind, spec.max_active_runs),
        )
        version = await self.sql.fetchval(
            "insert into dag_version (dag_id, number, spec_hash, spec) values ($1, 1, $2, $3) returning id",
            *(pk, spec_hash(spec), json.dumps(to_json(spec))),
        )
        await self.sql.execute("update dag set version_id = $2 where id = $1", pk, version)
        for name in assets_of(condition) if condition else ():
            await self.subscribe(await self.asset(name), pk)
        return pk

    async def subscribe(self, asset: int, dag: int) -> None:
        async with self.sql.transaction():
            seq = await self.sql.fetchval(
                "update asset set subscribers = subscribers || $2::bigint where id = $1 returning seq", asset, dag
            )
            await self.sql.execute("insert into subscription values ($1, $2, $3)", asset, dag, seq + 1)

    async def emit(self, asset: str, key: str | None = None, extra: Any = None) -> int:
        [answer] = await emit(self.database, [change(asset, key, extra)], {"kind": "test"})
        return answer.event_id

    async def judge(self, dag_id: str) -> list[int]:
        """What a scheduler does: judge what is pending for a DAG, and make its runs. Their primary keys."""
        dag = await self.sql.fetchval("select id from dag where dag_id = $1", dag_id)
        before = await self.sql.fetchval("select coalesce(max(id), 0) from run")
        async with self.database.transaction() as tx:
            await judge_consumers(tx, PROCESS, await deliveries.claim(tx, [dag]), Versions())
        rows = await self.sql.fetch("select id from run where id > $1 and dag_id = $2 order by id", before, dag)
        return [r["id"] for r in rows]

    async def start(self, run: int) -> int:
        """Start a run, with a first attempt of its task; the task's primary key."""
        token = uuid.uuid4()
        await self.sql.execute(
            "update run r set state = 'running', started_at = clock_timestamp(), version_id = d.version_id "
            "from dag d where d.id = r.dag_id and r.id = $1",
            run,
        )
        task = await self.sql.fetchval(
            "insert into task (run_id, task_no, task_id, state, attempt, owner, token, lease_until, started_at) "
            "values ($1, 0, 'work', 'running', 1, $2, $3, clock_timestamp(), clock_timestamp()) returning id",
            *(run, PROCESS, token),
        )
        await self.sql.execute(
            "insert into attempt (task_id, number, token, worker) values ($1, 1, $2, $3)", task, token, PROCESS
        )
        return task

    async def finish(self, run: int) -> None:
        """End a started run with success."""
        await self.sql.execute(
            "update attempt a set outcome = 'success', finished_at = clock_timestamp(), exit_code = 0 "
            "from task t where t.id = a.task_id and t.run_id = $1",
            run,
        )
        await self.sql.execute(
            "update task set state = 'success', owner = null, lease_until = null, finished_at = clock_timestamp() "
            "where run_id = $1",
            run,
        )
        await self.sql.execute("update run set state = 'success', finished_at = clock_timestamp() where id = $1", run)


def onceflow(
    url: str, *arguments: str, given: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the real command against a database."""
    env = os.environ | {"ONCEFLOW_DATABASE_URL": url} | environment
    return subprocess.run(
        [sys.executable, "-m", "onceflow.cli.main", *arguments],
        input=given,
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )


def listed(url: str, *arguments: str) -> Any:
    """What a command says with `-o json`; it has to succeed."""
    done = onceflow(url, *arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
