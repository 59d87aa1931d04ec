"""What every executor has to pass, whatever it brings attempts to workers with.

A kind of executor gives a `Bench`: tasks to run, and executors of several workers over them.
"""

from __future__ import annotations

from typing import Protocol
from uuid import uuid4

from onceflow.executors.base import Executor
from onceflow.model.change import Change
from onceflow.model.states import Outcome, TaskState
from onceflow.store.tasks import ClaimedTask, Report


class Bench(Protocol):
    async def queue(self, count: int) -> None:
        """Queue so many tasks."""

    def worker(self) -> Executor:
        """The executor of another worker."""

    async def lose(self, task: ClaimedTask) -> None:
        """Let the attempt's worker vanish: the task is queued again."""

    async def state(self, task: ClaimedTask) -> str:
        """The task's state now."""

    async def events(self) -> int:
        """How many outlet events were recorded."""


def success(task: ClaimedTask, *changes: Change) -> Report:
    return Report(task.id, task.attempt, task.token, TaskState.SUCCESS, Outcome.SUCCESS, 0, changes=changes)


class ExecutorContract:
    """Subclass it with a fixture `bench`."""

    async def test_each_task_goes_to_one_worker(self, bench: Bench):
        await bench.queue(10)
        one, two = bench.worker(), bench.worker()
        claimed = [*await one.claim(4), *await two.claim(4), *await one.claim(4)]
        assert len({t.id for t in claimed}) == len(claimed) == 10
        assert await two.claim(4) == []

    async def test_only_held_attempts_are_renewed(self, bench: Bench):
        await bench.queue(2)
        one, two = bench.worker(), bench.worker()
        [mine], [other] = await one.claim(1), await two.claim(1)
        held = [(mine.id, mine.token), (other.id, other.token), (mine.id, uuid4())]
        assert await one.renew(held) == {mine.id}
        assert await one.renew([]) == set()

    async def test_a_report_is_stored_once_and_answered_again(self, bench: Bench):
        await bench.queue(1)
        worker = bench.worker()
        [task] = await worker.claim(1)
        assert await worker.finish([success(task)]) == ["finished"]
        assert await worker.finish([success(task)]) == ["repeated"]
        assert await bench.state(task) == "success"

    async def test_a_late_report_changes_nothing(self, bench: Bench):
        await bench.queue(1)
        late, prompt = bench.worker(), bench.worker()
        [old] = await late.claim(1)
        await bench.lose(old)
        [new] = await prompt.claim(1)
        assert (new.id, new.attempt) == (old.id, old.attempt + 1)
        assert await late.renew([(old.id, old.token)]) == set()
        change = Change("outlet", "{}", None, uuid4())
        assert await late.finish([success(old, change)]) == ["fenced"]
        assert (await bench.state(new), await bench.events()) == ("running", 0)
        assert await prompt.finish([success(new, change)]) == ["finished"]
        assert (await bench.state(new), await bench.events()) == ("success", 1)

    async def test_a_stopped_attempt_is_queued_again_at_no_cost(self, bench: Bench):
        await bench.queue(1)
        worker = bench.worker()
        [task] = await worker.claim(1)
        stopped = Report(task.id, task.attempt, task.token, TaskState.QUEUED, Outcome.STOPPED, -15)
        assert await worker.finish([stopped]) == ["finished"]
        [again] = await bench.worker().claim(1)
        assert (again.id, again.attempt, again.failures) == (task.id, task.attempt + 1, 0)
