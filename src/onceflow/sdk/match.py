"""`match=` of a watcher: which of its changes are an asset's, as a Filter or, shorter, as fields and their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onceflow.model import event_filter
from onceflow.model.errors import DagError
from onceflow.sdk.filter import Filter, Scalar

MatchArg = Filter | Mapping[str, Scalar | Sequence[Scalar]]


def as_match(given: MatchArg | None, what: str, where: str) -> event_filter.Filter | None:
    """A filter as data; a mapping of fields means that each has the value, or one of the list's. Raises DagError."""
    if given is None:
        return None
    if isinstance(given, Filter):
        if event_filter.asks_source(given.data):
            remedy = "a watcher is the source of all of its changes: compare fields of the payload"
            raise DagError(f"{what} asks about the source", where=where, remedy=remedy)
        return given.data
    if not isinstance(given, Mapping) or not given:
        remedy = 'give a Filter, or a mapping such as {"order.region": ["eu", "uk"]}'
        raise DagError(f"{what} is {given!r}", where=where, remedy=remedy)
    parts = [
        event_filter.comparison(field, "in" if isinstance(value, (list, tuple)) else "==", value, where)
        for field, value in given.items()
    ]
    return parts[0] if len(parts) == 1 else ["and", parts]
