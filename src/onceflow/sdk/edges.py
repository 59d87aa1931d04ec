"""How tasks are put in order: `>>`, `<<`, `chain`, `cross_downstream`, labels on edges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from onceflow.model.errors import DagError
from onceflow.sdk.where import here

if TYPE_CHECKING:
    from onceflow.sdk.operator import BaseOperator


class Linkable:
    """What may stand on either side of `>>`: a task, a task's result, a task group, a label."""

    def entries(self) -> list[BaseOperator]:
        """The tasks that start when what stands before is done."""
        raise NotImplementedError

    def exits(self) -> list[BaseOperator]:
        """The tasks that must be done before what stands behind starts."""
        raise NotImplementedError

    def set_downstream(self, other: Any, edge_modifier: Label | None = None) -> None:
        """Everything in `other` starts after this."""
        connect(self.exits(), _side(other, "entries"))

    def set_upstream(self, other: Any, edge_modifier: Label | None = None) -> None:
        """This starts after everything in `other`."""
        connect(_side(other, "exits"), self.entries())

    def __rshift__(self, other: Any) -> Any:
        if isinstance(other, Label):
            return other.after(self)
        self.set_downstream(other)
        return other

    def __lshift__(self, other: Any) -> Any:
        if isinstance(other, Label):
            return other.before(self)
        self.set_upstream(other)
        return other

    def __rrshift__(self, other: Any) -> Any:
        self.set_upstream(other)
        return self

    def __rlshift__(self, other: Any) -> Any:
        self.set_downstream(other)
        return self


class Label(Linkable):
    """A word on an edge: `a >> Label("when empty") >> b`."""

    def __init__(self, label: str) -> None:
        self.label = label
        self._left: list[Any] = []
        self._right: list[Any] = []

    def after(self, other: Any) -> Label:
        self._left.append(other)
        return self

    def before(self, other: Any) -> Label:
        self._right.append(other)
        return self

    def set_downstream(self, other: Any, edge_modifier: Label | None = None) -> None:
        connect(_side(self._left, "exits"), _side(other, "entries"))

    def set_upstream(self, other: Any, edge_modifier: Label | None = None) -> None:
        if self._right:
            connect(_side(other, "exits"), _side(self._right, "entries"))
        else:
            self._left.append(other)

    def exits(self) -> list[BaseOperator]:
        return _side(self._left, "exits")

    def entries(self) -> list[BaseOperator]:
        return _side(self._right, "entries")


EdgeModifier = Label


def _side(item: Any, side: str) -> list[BaseOperator]:
    if isinstance(item, Linkable):
        return getattr(item, side)()
    if isinstance(item, (list, tuple, set)):
        return [task for part in item for task in _side(part, side)]
    raise DagError(
        f"{item!r} cannot stand in an order of tasks",
        where=here(),
        remedy="allowed: tasks, results of @task functions, task groups, labels, and lists of these",
    )


def connect(first: Sequence[BaseOperator], then: Sequence[BaseOperator]) -> None:
    """Each of `then` starts after each of `first`; a task without a DAG joins the DAG of the other side."""
    owners = [task.dag for task in (*first, *then) if task.dag is not None]
    if len({id(dag) for dag in owners}) > 1:
        names = " and ".join(sorted({dag.dag_id for dag in owners}))
        raise DagError(f"tasks of different DAGs are put in order: {names}", where=here(), remedy="use one DAG")
    for task in (*first, *then):
        if task.dag is None and owners:
            owners[0].add_task(task)
    for before in first:
        for after in then:
            after.upstream_tasks.setdefault(before)
            before.downstream_tasks.setdefault(after)


def chain(*items: Any) -> None:
    """Put items in order; two neighbouring lists of the same length are joined pair by pair."""
    for before, after in pairwise(items):
        if _is_list(before) and _is_list(after):
            if len(before) != len(after):
                raise DagError(
                    f"chain: neighbouring lists have {len(before)} and {len(after)} items",
                    where=here(),
                    remedy="lists side by side need the same length; cross_downstream joins each with each",
                )
            for left, right in zip(before, after, strict=True):
                connect(_side(left, "exits"), _side(right, "entries"))
        else:
            connect(_side(before, "exits"), _side(after, "entries"))


def chain_linear(*items: Any) -> None:
    """Put items in order; neighbouring lists are joined each with each."""
    for before, after in pairwise(items):
        connect(_side(before, "exits"), _side(after, "entries"))


def cross_downstream(from_tasks: Iterable[Any], to_tasks: Any) -> None:
    """Each of `to_tasks` starts after each of `from_tasks`."""
    connect(_side(list(from_tasks), "exits"), _side(to_tasks, "entries"))


def _is_list(item: Any) -> bool:
    return isinstance(item, (list, tuple))
