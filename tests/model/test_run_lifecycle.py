"""A run as a state machine: tasks are queued, started, lost, retried, fail, skip others; it always comes to its end."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from model_strategies import dags

from onceflow.model.dagspec import DagSpec
from onceflow.model.retry import may_retry
from onceflow.model.states import FINISHED, TaskState
from onceflow.model.upstream import Graph, plan, run_state, skipped_by, skipped_by_short_circuit

MOVABLE = (TaskState.WAITING, TaskState.READY)


class RunLifecycle(RuleBasedStateMachine):
    """What the scheduler and workers do to one run, in any order; after each step the scheduler looks at it once."""

    @initialize(dag=dags(max_size=7))
    def begin(self, dag: DagSpec) -> None:
        self.graph = Graph(dag)
        self.states = dict.fromkeys(self.graph.order, TaskState.WAITING)
        self.failures = dict.fromkeys(self.graph.order, 0)
        self.ended: dict[str, TaskState] = {}
        self.look()

    def look(self) -> None:
        self.states |= plan(self.graph, self.states)

    def some(self, data: st.DataObject, state: TaskState) -> str | None:
        found = [t for t, s in self.states.items() if s == state]
        return data.draw(st.sampled_from(found)) if found else None

    def move(self, data: st.DataObject, before: TaskState, after: TaskState) -> str | None:
        task_id = self.some(data, before)
        if task_id is not None:
            self.states[task_id] = after
            self.look()
        return task_id

    @rule(data=st.data())
    def queue(self, data: st.DataObject) -> None:
        self.move(data, TaskState.READY, TaskState.QUEUED)

    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        self.move(data, TaskState.QUEUED, TaskState.RUNNING)

    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        self.move(data, TaskState.RUNNING, TaskState.QUEUED)

    @rule(data=st.data(), outcome=st.sampled_from([TaskState.SUCCESS, TaskState.SKIPPED, TaskState.REMOVED]))
    def end(self, data: st.DataObject, outcome: TaskState) -> None:
        self.move(data, TaskState.RUNNING, outcome)

    @rule(data=st.data(), retries=st.integers(0, 2))
    def fail(self, data: st.DataObject, retries: int) -> None:
        task_id = self.some(data, TaskState.RUNNING)
        if task_id is None:
            return
        self.failures[task_id] += 1
        again = may_retry(replace(self.graph.tasks[task_id], retries=retries), self.failures[task_id])
        self.states[task_id] = TaskState.UP_FOR_RETRY if again else TaskState.FAILED
        self.look()

    @rule(data=st.data())
    def try_again(self, data: st.DataObject) -> None:
        self.move(data, TaskState.UP_FOR_RETRY, TaskState.QUEUED)

    @rule(data=st.data(), ignore_rules=st.booleans(), branch=st.booleans())
    def skip_others(self, data: st.DataObject, ignore_rules: bool, branch: bool) -> None:
        """A branch or a short circuit succeeds: what it skips and has not begun is skipped in the same step."""
        task_id = self.some(data, TaskState.RUNNING)
        if task_id is None:
            return
        if branch:
            chosen = data.draw(st.lists(st.sampled_from(self.graph.order), max_size=2))
            skipped = skipped_by(self.graph, task_id, chosen)
            assert skipped.isdisjoint(chosen)
        else:
            skipped = skipped_by_short_circuit(self.graph, task_id, ignore_rules)
        assert skipped <= self.graph.below(task_id)
        self.states[task_id] = TaskState.SUCCESS
        self.states |= {t: TaskState.SKIPPED for t in skipped if self.states[t] in MOVABLE}
        self.look()

    @invariant()
    def one_look_is_enough(self) -> None:
        assert plan(self.graph, self.states) == {}

    @invariant()
    def an_unfinished_run_has_something_to_do(self) -> None:
        """No deadlock: if nothing is ready, queued, running or about to be retried, the run is over."""
        unfinished = {s for s in self.states.values() if s not in FINISHED}
        assert not unfinished or unfinished != {TaskState.WAITING}
        assert (run_state(self.graph, self.states) is None) == bool(unfinished)

    @invariant()
    def what_has_ended_stays_ended(self) -> None:
        for task_id, state in self.ended.items():
            assert self.states[task_id] == state
        self.ended = {t: s for t, s in self.states.items() if s in FINISHED}

    def teardown(self) -> None:
        """Left to itself the run ends."""
        if not hasattr(self, "graph"):
            return
        while run_state(self.graph, self.states) is None:
            going = next(t for t, s in self.states.items() if s not in FINISHED and s != TaskState.WAITING)
            self.states[going] = TaskState.SUCCESS
            self.look()


TestRunLifecycle = RunLifecycle.TestCase
TestRunLifecycle.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
