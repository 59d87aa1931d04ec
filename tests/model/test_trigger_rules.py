"""The 13 rules against every combination of two upstream outcomes; the table is written out, not computed.

Columns: how two upstream tasks stand. s success, f failed, u upstream_failed, k skipped, r removed, w still going.
Cells: R ready, S skipped, U upstream_failed, . undecided. Where Airflow would stay undecided for ever (an upstream
task was removed) the cell is in lower case: u or s.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_strategies import a_dag

from onceflow.model.dagspec import TaskSpec
from onceflow.model.states import FINISHED, TaskState, TriggerRule
from onceflow.model.trigger_rules import RULES, tally
from onceflow.model.upstream import Graph, plan

TABLE = """
                              ss sf su sk sr ff fu fk fr uu uk ur kk kr rr ws wf wu wk wr ww
all_success                    R  U  U  S  u  U  U  U  U  U  U  U  S  S  u  .  U  U  S  .  .
all_failed                     S  S  S  S  S  R  R  S  s  R  S  s  S  S  s  S  .  .  S  .  .
all_done                       R  R  R  R  R  R  R  R  R  R  R  R  R  R  R  .  .  .  .  .  .
all_done_min_one_success       R  R  R  S  R  U  U  S  U  U  S  U  S  S  U  .  .  .  S  .  .
all_done_setup_success         R  R  R  R  R  R  R  R  R  R  R  R  R  R  R  .  .  .  .  .  .
one_success                    R  R  R  R  R  U  U  U  U  U  U  U  S  U  U  R  .  .  .  .  .
one_failed                     S  R  R  S  S  R  R  R  R  R  R  R  S  S  S  .  R  R  .  .  .
one_done                       R  R  R  R  R  R  R  R  R  S  S  S  S  S  S  R  R  .  .  .  .
none_failed                    R  U  U  R  u  U  U  U  U  U  U  U  R  u  u  .  U  U  .  .  .
none_failed_min_one_success    R  U  U  R  u  U  U  U  U  U  U  U  S  u  u  .  U  U  .  .  .
none_skipped                   R  R  R  S  R  R  R  S  R  R  S  R  S  S  R  .  .  .  S  .  .
all_skipped                    S  S  S  S  S  S  S  S  S  S  S  S  R  s  s  S  S  S  .  .  .
always                         R  R  R  R  R  R  R  R  R  R  R  R  R  R  R  R  R  R  R  R  R
"""
STATES = {
    "s": [TaskState.SUCCESS],
    "f": [TaskState.FAILED],
    "u": [TaskState.UPSTREAM_FAILED],
    "k": [TaskState.SKIPPED],
    "r": [TaskState.REMOVED],
    "w": [TaskState.WAITING, TaskState.READY, TaskState.QUEUED, TaskState.RUNNING, TaskState.UP_FOR_RETRY],
}
DECISIONS = {"R": TaskState.READY, "S": TaskState.SKIPPED, "U": TaskState.UPSTREAM_FAILED, ".": None}
HEAD, *ROWS = [line.split() for line in TABLE.strip().splitlines()]


def test_the_table_is_complete() -> None:
    assert {row[0] for row in ROWS} == set(TriggerRule) == set(RULES)
    assert {frozenset(pair) for pair in HEAD} == {frozenset(p) for p in itertools.product(STATES, repeat=2)}


@pytest.mark.parametrize(("rule", "cells"), [(row[0], row[1:]) for row in ROWS], ids=[row[0] for row in ROWS])
def test_rule(rule: str, cells: list[str]) -> None:
    task = TaskSpec("t", ("x", "y"), TriggerRule(rule))
    # x and y hang on a task that never ends, so that nothing else is decided but t
    graph = Graph(a_dag(TaskSpec("hold"), TaskSpec("x", ("hold",)), TaskSpec("y", ("hold",)), task))
    for pair, cell in zip(HEAD, cells, strict=True):
        for one, other in itertools.product(STATES[pair[0]], STATES[pair[1]]):
            for x, y in ((one, other), (other, one)):
                states = {"hold": TaskState.RUNNING, "x": x, "y": y, "t": TaskState.WAITING}
                assert plan(graph, states).get("t") == DECISIONS[cell.upper()], (x, y)


@pytest.mark.parametrize("rule", list(TriggerRule))
def test_a_task_without_upstream_is_ready_whatever_its_rule(rule: TriggerRule) -> None:
    assert plan(Graph(a_dag(TaskSpec("t", (), rule))), {"t": TaskState.WAITING}) == {"t": TaskState.READY}


@given(st.sampled_from(list(TriggerRule)), st.lists(st.sampled_from(sorted(FINISHED)), min_size=1, max_size=6))
def test_every_rule_decides_once_everything_above_has_ended(rule: TriggerRule, ended: list[TaskState]) -> None:
    assert RULES[rule](tally(len(ended), ended)) is not None


@given(
    st.sampled_from(list(TriggerRule)),
    st.lists(st.sampled_from(sorted(FINISHED)), min_size=1, max_size=4),
    st.integers(1, 4),
)
def test_ready_or_skipped_early_is_a_decision_the_rule_may_take(
    rule: TriggerRule, ended: list[TaskState], more: int
) -> None:
    """A decision to run that was taken early stands: no way in which the others end would have forbidden it."""
    early = RULES[rule](tally(len(ended) + more, ended))
    if early is not TaskState.READY:
        return
    for rest in itertools.product(sorted(FINISHED), repeat=min(more, 2)):
        everything = [*ended, *rest, *[TaskState.SUCCESS] * (more - len(rest))]
        assert RULES[rule](tally(len(everything), everything)) is TaskState.READY


def setup(task_id: str, *upstream: str) -> TaskSpec:
    return TaskSpec(task_id, upstream, is_setup=True)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ("sss", "R"),
        ("ssf", "R"),
        ("sff", "R"),
        ("sfs", "R"),
        ("kks", "S"),
        ("kkf", "S"),
        ("kfs", "U"),
        ("ffs", "U"),
        ("fus", "U"),
        ("rrs", "U"),
        ("ssw", "."),
        ("kkw", "."),
        ("ffw", "."),
        ("wss", "."),
    ],
)
def test_a_teardown_runs_after_everything_unless_nothing_was_set_up(states: str, expected: str) -> None:
    """Two setups and a work task above a task with all_done_setup_success: one setup that succeeded is enough."""
    down = TaskSpec("down", ("s1", "s2", "work"), TriggerRule.ALL_DONE_SETUP_SUCCESS, is_teardown=True)
    graph = Graph(a_dag(setup("s1"), setup("s2"), TaskSpec("work"), down))
    known = {t: STATES[s][-1] for t, s in zip(("s1", "s2", "work"), states, strict=True)}
    assert plan(graph, known | {"down": TaskState.WAITING}).get("down") == DECISIONS[expected]
