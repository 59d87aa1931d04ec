"""Filters on payloads and sources: `orders.when("status", "==", "paid")`, or several comparisons joined.

    DAG("ship", schedule=orders.when(Filter("status", "==", "paid") & ~Filter("country", "in", ["US", "CA"])))

They are data, not code: they are stored with the DAG and judged by the schedulers, without a process of the DAG's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from onceflow.model import event_filter
from onceflow.model.errors import DagError
from onceflow.sdk.where import here

Operator = Literal["==", "!=", "<", "<=", ">", ">=", "in", "not in", "contains", "starts with", "ends with", "exists"]
Scalar = str | int | float | bool | None


class Filter:
    """A comparison of a field of the payload with a value; `&`, `|` and `~` combine filters.

    field:    the field's dotted path, such as "order.status"; a number in it is an index of a list
    operator: ==, !=, <, <=, >, >=, in, not in, contains, starts with, ends with, exists
    value:    a text, a number, True, False or None; a list of them for `in` and `not in`; none for `exists`

    A field that the payload lacks, or whose type has no such comparison, is not accepted, by the opposite either.
    """

    def __init__(self, field: str, operator: Operator, value: Scalar | Sequence[Scalar] = None) -> None:
        self.data = event_filter.comparison(field, operator, value, here())

    @classmethod
    def source(cls, field: str, operator: Operator, value: Scalar | Sequence[Scalar] = None) -> Filter:
        """A comparison of a field of the event's source: who told it. Such as `~Filter.source("lane", "exists")`.

        `kind` is "watcher", "task", "cli" or "api"; the others are those of `event.source`.
        """
        return cls._of(["source", event_filter.comparison(field, operator, value, here())])

    @classmethod
    def _of(cls, data: event_filter.Filter) -> Filter:
        made = cls.__new__(cls)
        made.data = event_filter.check_depth(data, here())
        return made

    def __and__(self, other: Filter) -> Filter:
        return self._of(event_filter.both(self.data, _checked(other).data))

    def __or__(self, other: Filter) -> Filter:
        return self._of(event_filter.either(self.data, _checked(other).data))

    def __invert__(self) -> Filter:
        return self._of(["not", self.data])

    def __bool__(self) -> bool:
        raise DagError("a filter has no truth of its own", where=here(), remedy="join filters by &, | and ~")

    def __repr__(self) -> str:
        return f"Filter({event_filter.to_text(self.data)})"


def as_filter(field: Filter | str, operator: Any, value: Any) -> Filter:
    """What `when` was given: a filter, or the three parts of a comparison. Raises DagError."""
    if not isinstance(field, Filter):
        return Filter(field, operator, value)
    if operator is not None or value is not None:
        remedy = 'give one filter, or field, operator and value: when("status", "==", "paid")'
        raise DagError(f"when() got {field!r} and more", where=here(), remedy=remedy)
    return field


def _checked(other: Any) -> Filter:
    if not isinstance(other, Filter):
        raise DagError(f"{other!r} is no filter", where=here(), remedy='join filters, such as Filter("a", "==", 1)')
    return other
