"""Runs played through: everything that can be decided is, nothing gets stuck, the run's state is right."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_strategies import OUTCOMES, a_dag, dags, play

from onceflow.model.dagspec import DagSpec, TaskSpec
from onceflow.model.states import FINISHED, RunState, TaskState, TriggerRule
from onceflow.model.upstream import Graph, plan, run_state

SUCCESS, FAILED, SKIPPED = TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED
WAITING, READY, RUNNING = TaskState.WAITING, TaskState.READY, TaskState.RUNNING
UPSTREAM_FAILED, REMOVED = TaskState.UPSTREAM_FAILED, TaskState.REMOVED


def chain(length: int) -> Graph:
    return Graph(a_dag(*(TaskSpec(f"t{n}", (f"t{n - 1}",) if n else ()) for n in range(length))))


def test_a_chain_goes_one_by_one() -> None:
    graph = chain(3)
    states = dict.fromkeys(graph.order, WAITING)
    for task_id in graph.order:
        assert plan(graph, states) == {task_id: READY}
        assert run_state(graph, states) is None
        states[task_id] = SUCCESS
    assert plan(graph, states) == {}
    assert run_state(graph, states) == RunState.SUCCESS


@pytest.mark.parametrize("state", [READY, TaskState.QUEUED, RUNNING, TaskState.UP_FOR_RETRY])
def test_what_is_under_way_is_left_alone(state: TaskState) -> None:
    assert plan(chain(2), {"t0": state, "t1": WAITING}) == {}


def test_a_failure_goes_down_the_whole_chain_at_once() -> None:
    graph = chain(2_000)
    states = dict.fromkeys(graph.order, WAITING) | {"t0": FAILED}
    decided = plan(graph, states)
    assert decided == dict.fromkeys(graph.order[1:], UPSTREAM_FAILED)
    assert run_state(graph, states | decided) == RunState.FAILED


def test_a_skip_goes_down_the_chain_and_the_run_succeeds() -> None:
    graph = chain(3)
    decided = plan(graph, {"t0": SKIPPED, "t1": WAITING, "t2": WAITING})
    assert decided == {"t1": SKIPPED, "t2": SKIPPED}
    assert run_state(graph, {"t0": SKIPPED} | decided) == RunState.SUCCESS


def test_a_cascade_stops_where_a_rule_runs_all_the_same() -> None:
    tasks = [
        TaskSpec("a"),
        TaskSpec("b", ("a",)),
        TaskSpec("mail", ("b",), TriggerRule.ONE_FAILED),
        TaskSpec("after", ("mail",)),
    ]
    assert plan(Graph(a_dag(*tasks)), {"a": FAILED}) == {"b": UPSTREAM_FAILED, "mail": READY}


def test_a_task_that_is_missing_is_waiting() -> None:
    assert plan(chain(2), {}) == {"t0": READY}
    assert run_state(chain(2), {"t0": SUCCESS}) is None


def test_states_of_unknown_tasks_do_no_harm() -> None:
    states = {"t0": SUCCESS, "gone": RUNNING}
    assert plan(chain(1), states) == {}
    assert run_state(chain(1), states) == RunState.SUCCESS


def test_states_as_plain_text_are_understood() -> None:
    """Rows come from the database as text."""
    assert plan(chain(2), {"t0": "success", "t1": "waiting"}) == {"t1": READY}
    assert run_state(chain(2), {"t0": "success", "t1": "upstream_failed"}) == RunState.FAILED


def test_an_empty_dag_has_succeeded() -> None:
    assert run_state(Graph(a_dag()), {}) == RunState.SUCCESS


def test_only_the_deciders_decide() -> None:
    """A failure that a later task made up for does not fail the run; a teardown's counts only if it says so."""
    mend = TaskSpec("mend", ("work",), TriggerRule.ALL_DONE)
    assert run_state(Graph(a_dag(TaskSpec("work"), mend)), {"work": FAILED, "mend": SUCCESS}) == RunState.SUCCESS
    for fails, expected in ((False, RunState.SUCCESS), (True, RunState.FAILED)):
        down = TaskSpec("down", ("work",), TriggerRule.ALL_DONE_SETUP_SUCCESS, is_teardown=True)
        down = TaskSpec(**{**vars_of(down), "on_failure_fail_dagrun": fails})
        graph = Graph(a_dag(TaskSpec("work"), down))
        assert run_state(graph, {"work": SUCCESS, "down": FAILED}) == expected
        assert run_state(graph, {"work": SUCCESS, "down": RUNNING}) is None


def vars_of(task: TaskSpec) -> dict:
    return {name: getattr(task, name) for name in task.__dataclass_fields__}


# --- setups further up --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setup", "middle", "expected"),
    [
        (SUCCESS, SUCCESS, READY),
        (SUCCESS, RUNNING, None),
        (SUCCESS, FAILED, READY),  # its own rule is all_done
        (FAILED, UPSTREAM_FAILED, UPSTREAM_FAILED),
        (UPSTREAM_FAILED, UPSTREAM_FAILED, UPSTREAM_FAILED),
        (SKIPPED, SKIPPED, SKIPPED),
        (RUNNING, SUCCESS, None),  # after a clear, say
        (REMOVED, SUCCESS, UPSTREAM_FAILED),
        (FAILED, RUNNING, UPSTREAM_FAILED),
    ],
)
def test_a_task_needs_the_setups_it_lies_in_the_scope_of(
    setup: TaskState, middle: TaskState, expected: TaskState | None
) -> None:
    """Whatever its rule says of its direct upstream: without the cluster that the setup makes it cannot work."""
    tasks = [
        TaskSpec("setup", is_setup=True),
        TaskSpec("middle", ("setup",)),
        TaskSpec("work", ("middle",), TriggerRule.ALL_DONE),
        TaskSpec("down", ("work", "setup"), TriggerRule.ALL_DONE_SETUP_SUCCESS, is_teardown=True),
    ]
    states = {"setup": setup, "middle": middle, "work": WAITING, "down": WAITING}
    assert plan(Graph(a_dag(*tasks)), states).get("work") == expected


def test_always_means_always() -> None:
    tasks = [
        TaskSpec("setup", is_setup=True),
        TaskSpec("middle", ("setup",)),
        TaskSpec("work", ("middle",), TriggerRule.ALWAYS),
    ]
    assert plan(Graph(a_dag(*tasks)), {"setup": FAILED, "middle": UPSTREAM_FAILED})["work"] == READY


def test_a_pending_setup_does_not_keep_a_rule_from_giving_up() -> None:
    tasks = [
        TaskSpec("setup", is_setup=True),
        TaskSpec("middle", ("setup",)),
        TaskSpec("work", ("middle",)),
    ]
    assert plan(Graph(a_dag(*tasks)), {"setup": RUNNING, "middle": FAILED})["work"] == UPSTREAM_FAILED


# --- properties ---------------------------------------------------------------------------------------------------

outcomes = st.dictionaries(st.sampled_from([f"t{n}" for n in range(9)]), st.sampled_from(OUTCOMES))


@given(dags(), outcomes, st.integers())
def test_every_run_ends(dag: DagSpec, outcome: dict[str, TaskState], seed: int) -> None:
    """Whatever the shape, the rules, the outcomes and the order in which tasks end."""
    graph = Graph(dag)
    states = play(graph, lambda t: outcome.get(t, SUCCESS), random.Random(seed))
    assert set(states.values()) <= FINISHED
    assert run_state(graph, states) is not None


@given(dags(), outcomes, st.integers())
def test_one_call_decides_all_there_is_to_decide(dag: DagSpec, outcome: dict[str, TaskState], seed: int) -> None:
    graph = Graph(dag)

    def settled(states: dict[str, TaskState]) -> None:
        assert plan(graph, states) == {}

    play(graph, lambda t: outcome.get(t, SUCCESS), random.Random(seed), settled)


@given(dags(), st.lists(st.sampled_from(list(TaskState)), min_size=9, max_size=9))
def test_only_waiting_tasks_are_decided_and_only_three_ways(dag: DagSpec, states: list[TaskState]) -> None:
    known = {f"t{n}": state for n, state in enumerate(states)}
    before = dict(known)
    decided = plan(Graph(dag), known)
    assert known == before
    assert all(known[t] == WAITING for t in decided)
    assert set(decided.values()) <= {READY, SKIPPED, UPSTREAM_FAILED}


@given(dags(), st.integers())
def test_where_all_is_well_a_plain_run_runs_everything(dag: DagSpec, seed: int) -> None:
    plain = a_dag(*(TaskSpec(t.task_id, t.upstream) for t in dag.tasks))
    states = play(Graph(plain), lambda t: SUCCESS, random.Random(seed))
    assert set(states.values()) == {SUCCESS}
    assert run_state(Graph(plain), states) == RunState.SUCCESS


@given(dags(), outcomes, st.integers())
def test_a_run_fails_only_if_a_task_failed(dag: DagSpec, outcome: dict[str, TaskState], seed: int) -> None:
    graph = Graph(dag)
    good = {t: s for t, s in outcome.items() if s != FAILED}
    states = play(graph, lambda t: good.get(t, SUCCESS), random.Random(seed))
    if FAILED not in states.values() and run_state(graph, states) == RunState.FAILED:
        # then a task gave up on something that never came: one_success and the like, after skips and removals
        assert UPSTREAM_FAILED in states.values()
        assert {SKIPPED, REMOVED} & set(states.values())


@given(dags(setups=False), outcomes, st.integers(), st.integers())
def test_with_rules_that_wait_the_order_of_endings_does_not_matter(
    dag: DagSpec, outcome: dict[str, TaskState], one: int, other: int
) -> None:
    """all_success may skip or give up, whichever comes first (as in Airflow); rules that wait for all cannot."""
    patient = [
        TriggerRule.ALL_DONE,
        TriggerRule.ONE_FAILED,
        TriggerRule.NONE_FAILED,
        TriggerRule.ALL_DONE_SETUP_SUCCESS,
    ]
    tasks = [TaskSpec(t.task_id, t.upstream, patient[n % 4]) for n, t in enumerate(dag.tasks)]
    graph = Graph(a_dag(*tasks))
    ends = [play(graph, lambda t: outcome.get(t, SUCCESS), random.Random(seed)) for seed in (one, other)]
    assert ends[0] == ends[1]
