"""Which tasks of a run may go, which will not, and when the run is over.

`plan` looks only at the shape of the DAG and at the tasks' states, and decides everything that can be decided: tasks
come in topological order, so what it decides for one is known when it comes to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from onceflow.model.dagspec import DagSpec, TaskSpec
from onceflow.model.errors import DagError, InputError
from onceflow.model.states import FINISHED, RunState, TaskState
from onceflow.model.trigger_rules import READY, RULES, Decision, Tally, always, setup_gate, tally

WAITING = TaskState.WAITING


class Step(NamedTuple):
    """What is needed to decide about one task."""

    task_id: str
    upstream: tuple[str, ...]
    rule: Callable[[Tally], Decision]
    gate: tuple[str, ...]  # setup tasks further up that must have succeeded
    setups: tuple[str, ...]  # those of its direct upstream tasks that are setups


class Graph:
    """The shape of a DAG, with all that `plan` needs worked out once. Raises DagError if the shape is no DAG.

    upstream, downstream  direct neighbours of each task, in the order in which they were declared
    order                 every task after all of its upstream tasks
    roots, leaves         tasks without upstream, without downstream
    deciders              tasks whose state decides the run's: leaves, not counting teardowns unless they say so
    """

    def __init__(self, dag: DagSpec) -> None:
        self.tasks = _by_id(dag)
        self.upstream = {t.task_id: tuple(dict.fromkeys(t.upstream)) for t in dag.tasks}
        self.downstream = _reversed(dag, self.upstream)
        self.order = _topological(dag, self.upstream, self.downstream)
        self.roots = tuple(t for t, ups in self.upstream.items() if not ups)
        self.leaves = tuple(t for t, downs in self.downstream.items() if not downs)
        self.setups = frozenset(t.task_id for t in dag.tasks if t.is_setup)
        self.deciders = tuple(t for t in self.tasks if _decides(self, t)) or self.leaves
        self.gates = _setup_gates(self)
        self.steps = tuple(_step(self, t) for t in self.order)

    def below(self, task_id: str) -> set[str]:
        """All descendants of a task, itself not included."""
        return _reach(self.downstream, task_id)

    def above(self, task_id: str) -> set[str]:
        """All ancestors of a task, itself not included."""
        return _reach(self.upstream, task_id)


def plan(graph: Graph, states: Mapping[str, TaskState]) -> dict[str, TaskState]:
    """What becomes of the waiting tasks now: READY, SKIPPED or UPSTREAM_FAILED; those still undecided are left out.

    A task that is missing in `states` is taken to be waiting.
    """
    decided: dict[str, TaskState] = {}
    known = dict.fromkeys(graph.order, WAITING)
    known.update(states)
    for step in graph.steps:
        if known[step.task_id] == WAITING:
            decision = _decide(step, known)
            if decision is not None:
                decided[step.task_id] = known[step.task_id] = decision
    return decided


def run_state(graph: Graph, states: Mapping[str, TaskState]) -> RunState | None:
    """The run's final state, or None while a task has not ended. The deciders decide: one failure fails the run.

    A run without tasks has succeeded.
    """
    for task_id in graph.order:
        if states.get(task_id, WAITING) not in FINISHED:
            return None
    bad = (TaskState.FAILED, TaskState.UPSTREAM_FAILED)
    return RunState.FAILED if any(states[t] in bad for t in graph.deciders) else RunState.SUCCESS


def skipped_by(graph: Graph, task_id: str, chosen: Collection[str]) -> set[str]:
    """The tasks that a branch skips: its direct downstream tasks neither chosen nor below a chosen one.

    What follows those is left to its own trigger rules. An unknown choice raises InputError.
    """
    unknown = [c for c in chosen if c not in graph.tasks]
    if unknown:
        allowed = ", ".join(graph.downstream[task_id]) or "none, it has no downstream task"
        message = f"branch {task_id!r} chose {unknown[0]!r}, which is no task of this DAG"
        raise InputError(message, where=graph.tasks[task_id].where, remedy=f"it can choose: {allowed}")
    kept = set(chosen).union(*(graph.below(c) for c in chosen))
    return set(graph.downstream[task_id]) - kept


def skipped_by_short_circuit(graph: Graph, task_id: str, ignore_rules: bool) -> set[str]:
    """The tasks that a short circuit skips: everything below it, or with rules respected only what is directly below.

    Teardowns are never among them: what was set up is torn down.
    """
    below = graph.below(task_id) if ignore_rules else graph.downstream[task_id]
    return {t for t in below if not graph.tasks[t].is_teardown}


def _decide(step: Step, known: Mapping[str, TaskState]) -> Decision:
    if not step.upstream or step.rule is always:
        return READY
    ended = [known[t] for t in step.upstream if known[t] in FINISHED]
    passed: Decision = READY
    if step.gate:
        passed = setup_gate(tally(len(step.gate), [known[t] for t in step.gate if known[t] in FINISHED]))
        if passed not in (READY, None):
            return passed
    if not ended:
        return None
    decision = step.rule(tally(len(step.upstream), ended, [known[t] for t in step.setups]))
    return None if passed is None and decision is READY else decision


def _step(graph: Graph, task_id: str) -> Step:
    upstream = graph.upstream[task_id]
    setups = tuple(t for t in upstream if t in graph.setups) if graph.setups else ()
    return Step(task_id, upstream, RULES[graph.tasks[task_id].trigger_rule], graph.gates.get(task_id, ()), setups)


def _by_id(dag: DagSpec) -> dict[str, TaskSpec]:
    tasks: dict[str, TaskSpec] = {}
    for task in dag.tasks:
        other = tasks.setdefault(task.task_id, task)
        if other is not task:
            first = f" (first at {other.where})" if other.where else ""
            message = f"DAG {dag.dag_id!r} has two tasks named {task.task_id!r}{first}"
            raise DagError(message, where=task.where or dag.where, remedy="give one of them another task_id")
    return tasks


def _reversed(dag: DagSpec, upstream: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    downstream: dict[str, list[str]] = {t: [] for t in upstream}
    for task in dag.tasks:
        for up in upstream[task.task_id]:
            if up not in downstream:
                message = f"task {task.task_id!r} comes after {up!r}, which is no task of DAG {dag.dag_id!r}"
                raise DagError(message, where=task.where or dag.where, remedy="define that task, or remove the edge")
            downstream[up].append(task.task_id)
    return {t: tuple(downs) for t, downs in downstream.items()}


def _topological(
    dag: DagSpec, upstream: Mapping[str, tuple[str, ...]], downstream: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    missing = {t: len(ups) for t, ups in upstream.items()}
    order = [t for t, n in missing.items() if n == 0]
    for task_id in order:  # grows while it is read
        for down in downstream[task_id]:
            missing[down] -= 1
            if missing[down] == 0:
                order.append(down)
    if len(order) < len(upstream):
        cycle = _cycle(upstream, {t for t, n in missing.items() if n})
        where = next(t.where for t in dag.tasks if t.task_id == cycle[0]) or dag.where
        message = f"DAG {dag.dag_id!r} has a cycle: {' >> '.join([*cycle, cycle[0]])}"
        raise DagError(message, where=where, remedy="remove one of these edges")
    return tuple(order)


def _cycle(upstream: Mapping[str, tuple[str, ...]], stuck: set[str]) -> list[str]:
    """One cycle among the tasks that no order reaches, in the direction of the edges, from its first declared task."""
    path: dict[str, None] = {}
    at = next(t for t in upstream if t in stuck)
    while at not in path:
        path[at] = None
        at = next(up for up in upstream[at] if up in stuck)
    backwards = list(path)
    cycle = backwards[backwards.index(at) :][::-1]
    first = next(i for t in upstream for i, c in enumerate(cycle) if c == t)
    return cycle[first:] + cycle[:first]


def _reach(neighbours: Mapping[str, Iterable[str]], start: str) -> set[str]:
    seen: set[str] = set()
    todo = list(neighbours[start])
    while todo:
        task_id = todo.pop()
        if task_id not in seen:
            seen.add(task_id)
            todo.extend(neighbours[task_id])
    return seen


def _decides(graph: Graph, task_id: str) -> bool:
    """A leaf, looking through teardowns that do not count; such a teardown itself decides nothing."""

    def counts(t: str) -> bool:
        return not graph.tasks[t].is_teardown or graph.tasks[t].on_failure_fail_dagrun

    return counts(task_id) and not any(counts(down) for down in graph.downstream[task_id])


def _setup_gates(graph: Graph) -> dict[str, tuple[str, ...]]:
    """For each task the setup tasks further up than its direct upstream that it lies in the scope of.

    A setup's scope is what lies between it and its teardowns, or everything below it if it has none.
    """
    gates: dict[str, list[str]] = {}
    for setup in (t for t in graph.order if t in graph.setups):
        teardowns = [d for d in graph.downstream[setup] if graph.tasks[d].is_teardown]
        scope = graph.below(setup)
        if teardowns:
            scope &= set().union(*(graph.above(t) for t in teardowns))
        for task_id in scope.difference(graph.downstream[setup]):
            if not graph.tasks[task_id].is_teardown:
                gates.setdefault(task_id, []).append(setup)
    return {t: tuple(setups) for t, setups in gates.items()}
