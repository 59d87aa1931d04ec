"""The shape of a DAG: order, neighbours, what is refused, what branches skip."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_strategies import a_dag, dags

from onceflow.model.dagspec import DagSpec, TaskSpec
from onceflow.model.errors import DagError, InputError
from onceflow.model.upstream import Graph, skipped_by, skipped_by_short_circuit


def chain(text: str) -> Graph:
    """A graph from lines like `a >> b >> c`; names that begin with `d_` are teardowns, with `s_` setups."""
    upstream: dict[str, list[str]] = {}
    for line in text.split(","):
        names = line.split(">>")
        for before, name in zip([None, *names], names, strict=False):
            ups = upstream.setdefault(name.strip(), [])
            if before is not None:
                ups.append(before.strip())
    tasks = [
        TaskSpec(t, tuple(ups), is_teardown=t.startswith("d_"), is_setup=t.startswith("s_"))
        for t, ups in upstream.items()
    ]
    return Graph(a_dag(*tasks))


def test_neighbours_and_ends() -> None:
    graph = chain("a >> b >> d, a >> c >> d, e")
    assert graph.upstream == {"a": (), "b": ("a",), "d": ("b", "c"), "c": ("a",), "e": ()}
    assert graph.downstream == {"a": ("b", "c"), "b": ("d",), "c": ("d",), "d": (), "e": ()}
    assert graph.roots == ("a", "e")
    assert graph.leaves == ("d", "e")
    assert graph.below("a") == {"b", "c", "d"}
    assert graph.above("d") == {"a", "b", "c"}
    assert graph.below("d") == set()


def test_an_edge_given_twice_is_one() -> None:
    graph = Graph(a_dag(TaskSpec("a"), TaskSpec("b", ("a", "a"))))
    assert graph.upstream["b"] == ("a",)
    assert graph.downstream["a"] == ("b",)


def test_an_empty_dag_is_a_graph() -> None:
    graph = Graph(a_dag())
    assert graph.order == graph.roots == graph.leaves == ()


@given(dags())
def test_the_order_puts_every_task_after_its_upstream(dag: DagSpec) -> None:
    graph = Graph(dag)
    assert sorted(graph.order) == sorted(t.task_id for t in dag.tasks)
    place = {t: n for n, t in enumerate(graph.order)}
    assert all(place[up] < place[t] for t, ups in graph.upstream.items() for up in ups)


@given(dags(), st.data())
def test_an_edge_back_makes_a_cycle_which_is_named(dag: DagSpec, data: st.DataObject) -> None:
    graph = Graph(dag)
    last = data.draw(st.sampled_from([t.task_id for t in dag.tasks]))
    first = data.draw(st.sampled_from(sorted(graph.above(last) | {last})))
    tasks = [
        TaskSpec(t.task_id, (*t.upstream, last)) if t.task_id == first else TaskSpec(t.task_id, t.upstream)
        for t in dag.tasks
    ]
    with pytest.raises(DagError, match="has a cycle: ") as refused:
        Graph(a_dag(*tasks))
    path = refused.value.message.split("has a cycle: ")[1].split(" >> ")
    assert path[0] == path[-1]
    assert len(set(path)) == len(path) - 1
    upstream = {t.task_id: t.upstream for t in tasks}
    assert all(one in upstream[other] for one, other in pairwise(path))


def test_a_cycle_is_shown_in_the_direction_of_the_edges_with_its_place() -> None:
    tasks = [
        TaskSpec("before", where="d.py:2"),
        TaskSpec("a", ("c", "before"), where="d.py:3"),
        TaskSpec("b", ("a",), where="d.py:4"),
        TaskSpec("c", ("b",), where="d.py:5"),
        TaskSpec("after", ("c",), where="d.py:6"),
    ]
    with pytest.raises(DagError) as refused:
        Graph(a_dag(*tasks))
    assert refused.value.message == "DAG 'd' has a cycle: a >> b >> c >> a"
    assert refused.value.where == "d.py:3"
    assert refused.value.remedy


def test_a_task_after_itself_is_a_cycle() -> None:
    with pytest.raises(DagError, match="cycle: a >> a"):
        Graph(a_dag(TaskSpec("a", ("a",))))


def test_an_unknown_upstream_is_refused() -> None:
    with pytest.raises(DagError, match="task 'a' comes after 'b', which is no task of DAG 'd'") as refused:
        Graph(a_dag(TaskSpec("a", ("b",), where="d.py:7")))
    assert refused.value.where == "d.py:7"


def test_a_task_id_given_twice_is_refused_with_both_places() -> None:
    with pytest.raises(DagError, match=r"two tasks named 'a' \(first at d.py:3\)") as refused:
        Graph(a_dag(TaskSpec("a", where="d.py:3"), TaskSpec("a", where="d.py:9")))
    assert refused.value.where == "d.py:9"


def test_equal_tasks_are_two_all_the_same() -> None:
    with pytest.raises(DagError, match="two tasks named 'a'"):
        Graph(a_dag(TaskSpec("a"), TaskSpec("a")))


# --- whose state decides the run's --------------------------------------------------------------------------------


def deciders(text: str, fail: str = "") -> set[str]:
    graph = chain(text)
    tasks = [
        TaskSpec(t.task_id, t.upstream, is_teardown=t.is_teardown, on_failure_fail_dagrun=t.task_id in fail.split())
        for t in graph.tasks.values()
    ]
    return set(Graph(a_dag(*tasks)).deciders)


@pytest.mark.parametrize(
    ("text", "fail", "expected"),
    [
        ("a >> b", "", {"b"}),
        ("a >> b, a >> c", "", {"b", "c"}),
        ("a >> d_x", "", {"a"}),
        ("a >> d_x", "d_x", {"d_x"}),
        ("a >> b >> d_x, a >> d_x", "", {"b"}),
        ("a >> d_x >> b", "", {"b", "a"}),  # as Airflow has it: a's only downstream does not count
        ("a >> d_x >> d_y", "", {"a"}),
        ("a >> d_x >> d_y", "d_y", {"a", "d_y"}),
        ("a >> d_x, a >> d_y", "d_y", {"d_y"}),
        ("d_x >> d_y", "", {"d_y"}),
    ],
)
def test_deciders(text: str, fail: str, expected: set[str]) -> None:
    assert deciders(text, fail) == expected


# --- what a branch and a short circuit skip -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "chosen", "skipped"),
    [
        ("x >> a, x >> b, x >> c", ["a"], {"b", "c"}),
        ("x >> a, x >> b, x >> c", ["a", "c"], {"b"}),
        ("x >> a, x >> b", [], {"a", "b"}),
        ("x >> a, x >> b", ["a", "b"], set()),
        ("x >> a >> join, x >> join", ["a"], set()),  # join is below the chosen branch
        ("x >> a >> join, x >> join", ["join"], {"a"}),
        ("x >> a >> b >> join, x >> join, x >> c", ["a"], {"c"}),
        ("x >> a >> b, x >> c >> d", ["a"], {"c"}),  # d follows c by its own rule
        ("x >> a >> b, x >> c", ["b"], {"a", "c"}),  # a task further down may be chosen
        ("y >> x, x >> a", ["y"], set()),  # below y there is everything
        ("x", [], set()),
    ],
)
def test_skipped_by_branch(text: str, chosen: list[str], skipped: set[str]) -> None:
    assert skipped_by(chain(text), "x", chosen) == skipped


def test_an_unknown_choice_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="branch 'x' chose 'nope'") as refused:
        skipped_by(chain("x >> a, x >> b"), "x", ["a", "nope"])
    assert refused.value.remedy == "it can choose: a, b"


@pytest.mark.parametrize(
    ("text", "ignoring", "respecting"),
    [
        ("x >> a >> b, x >> c", {"a", "b", "c"}, {"a", "c"}),
        ("x >> a >> d_z, x >> d_z", {"a"}, {"a"}),
        ("y >> x >> a", {"a"}, {"a"}),
        ("x", set(), set()),
    ],
)
def test_skipped_by_short_circuit(text: str, ignoring: set[str], respecting: set[str]) -> None:
    graph = chain(text)
    assert skipped_by_short_circuit(graph, "x", ignore_rules=True) == ignoring
    assert skipped_by_short_circuit(graph, "x", ignore_rules=False) == respecting


# --- which setups a task waits for --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "gates"),
    [
        ("s_a >> b", {}),  # directly above: b's own rule sees it
        ("s_a >> b >> c", {"c": ("s_a",)}),
        ("s_a >> b >> c >> d_a, s_a >> d_a", {"c": ("s_a",)}),
        ("s_a >> b >> c >> d_a >> e, s_a >> d_a", {"c": ("s_a",)}),  # e is after the teardown
        ("s_a >> b >> d_a, s_a >> d_a, b >> c", {}),  # c is not between setup and teardown
        ("s_a >> b >> d_x", {}),  # a teardown has its own rule for setups
        ("s_a >> s_b >> c, c >> d", {"c": ("s_a",), "d": ("s_a", "s_b")}),
    ],
)
def test_setup_gates(text: str, gates: dict[str, tuple[str, ...]]) -> None:
    assert chain(text).gates == gates
