"""The local executor passes what every executor has to."""

from __future__ import annotations

import uuid

import pytest
from executors import ExecutorContract

from onceflow.executors import load
from onceflow.executors.base import Executor
from onceflow.model.dagspec import AssetSpec, DagSpec, FileSpec, NoSchedule, TaskSpec
from onceflow.model.errors import ConfigError
from onceflow.model.states import TaskState
from onceflow.store import files, processes, starts, tasks
from onceflow.store.database import Database
from onceflow.store.tasks import ClaimedTask
from onceflow.store.versions import Versions


class LocalBench:
    """Tasks of one run in a database, and local executors over it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def queue(self, count: int) -> None:
        names = tuple(f"task{i}" for i in range(count))
        dag = DagSpec("bench", NoSchedule(), tuple(TaskSpec(n) for n in names), "bench.py")
        spec = FileSpec("bench.py", uuid.uuid4().hex, (dag,), (AssetSpec("outlet", where="bench.py:1"),))
        file = await files.add(self._database, "bench.py")
        await files.register(self._database, file, spec, b"code", paused=False, parse_seconds=0.0)
        await self._database.fetch("runs/create_manual", "bench", None, None, "{}", None, None)
        async with self._database.transaction() as tx:
            [startable] = await starts.claim_startable(tx, await starts.find_startable(self._database, 10))
            versions = await Versions().read(tx, [startable.version])
            queued = dict.fromkeys(names, TaskState.QUEUED)
            await starts.start(tx, [startable.run], versions[startable.version], queued)

    def worker(self) -> Executor:
        return load("local", self._database, uuid.uuid4(), 60.0)

    async def lose(self, task: ClaimedTask) -> None:
        async with self._database._acquire() as raw:
            owner = await raw.fetchval("select owner from task where id = $1", task.id)
        await processes.release(self._database, [owner])
        assert await tasks.rescue(self._database, take_over=False) == 1

    async def state(self, task: ClaimedTask) -> str:
        async with self._database._acquire() as raw:
            return await raw.fetchval("select state::text from task where id = $1", task.id)

    async def events(self) -> int:
        async with self._database._acquire() as raw:
            return await raw.fetchval("select count(*) from event")


class TestLocalExecutor(ExecutorContract):
    @pytest.fixture
    def bench(self, database: Database) -> LocalBench:
        return LocalBench(database)


async def test_an_unknown_executor_is_refused_with_those_there_are(database: Database):
    with pytest.raises(ConfigError, match=r"no executor 'celery'.*allowed: local"):
        load("celery", database, uuid.uuid4(), 5.0)
