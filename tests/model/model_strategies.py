"""Random conditions, DAGs and runs for the property tests."""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import strategies as st

from onceflow.model.dagspec import Condition, DagSpec, NoSchedule, TaskSpec
from onceflow.model.states import TaskState, TriggerRule
from onceflow.model.upstream import Graph, plan

ASSETS = ["a", "b", "c", "d", "e"]
OUTCOMES = [TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED, TaskState.REMOVED]


def conditions(assets: list[str] = ASSETS, ops: tuple[str, ...] = ("and", "or")) -> st.SearchStrategy[Condition]:
    leaf = st.sampled_from(assets).map(lambda name: ["asset", name])
    return st.recursive(
        leaf,
        lambda inner: st.tuples(st.sampled_from(ops), st.lists(inner, min_size=1, max_size=4)).map(list),
        max_leaves=8,
    )


def a_dag(*tasks: TaskSpec) -> DagSpec:
    return DagSpec("d", NoSchedule(), tasks, "d.py", where="d.py:1")


@st.composite
def dags(draw: st.DrawFn, max_size: int = 9, setups: bool = True) -> DagSpec:
    """A DAG with random edges and rules; tasks are declared in an order that says nothing about the edges."""
    size = draw(st.integers(1, max_size))
    tasks = []
    for n in range(size):
        upstream = draw(st.lists(st.integers(0, n - 1), unique=True, max_size=4)) if n else []
        kind = draw(st.sampled_from(["plain", "plain", "plain", "setup", "teardown"])) if setups else "plain"
        task = TaskSpec(
            task_id=f"t{n}",
            upstream=tuple(f"t{u}" for u in upstream),
            trigger_rule=draw(st.sampled_from(list(TriggerRule))),
            is_setup=kind == "setup",
            is_teardown=kind == "teardown",
            on_failure_fail_dagrun=draw(st.booleans()),
        )
        tasks.append(task)
    return a_dag(*draw(st.permutations(tasks)))


def play(
    graph: Graph, outcome: Callable[[str], TaskState], dice: random.Random, spy: Callable[[dict], None] = lambda _: None
) -> dict[str, TaskState]:
    """Run the DAG as a scheduler would, tasks ending one by one in random order; the states when nothing moves."""
    states = dict.fromkeys(graph.order, TaskState.WAITING)
    while True:
        states |= plan(graph, states)
        spy(states)
        ready = [t for t, s in states.items() if s == TaskState.READY]
        if not ready:
            return states
        task_id = dice.choice(ready)
        states[task_id] = outcome(task_id)
