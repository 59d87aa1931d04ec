"""Assets: the named things that change, conditions over them, and their watchers.

    orders = Asset("orders", uri="s3://bucket/orders", key="id")
    DAG("report", schedule=orders & Asset("prices"))

An asset is its name. `key` says what of the payload identifies a change: two changes with the same key are one change,
whoever reports them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from math import inf
from typing import Any, Literal, overload

from onceflow.model import event_filter
from onceflow.model.contract import check_schema
from onceflow.model.errors import DagError
from onceflow.sdk.filter import Filter, Operator, Scalar, as_filter
from onceflow.sdk.keys import KeyArg, declared
from onceflow.sdk.match import MatchArg, as_match
from onceflow.sdk.options import LONGEST, Option, convert, optional, whole
from onceflow.sdk.trigger import BaseEventTrigger
from onceflow.sdk.where import here

LIMIT = Option(None, optional(whole(0)))


class AssetExpression:
    """An asset or a condition over assets; `&` means all of them, `|` means any of them."""

    def __and__(self, other: AssetExpression) -> AssetAll:
        return AssetAll(self, other)

    def __or__(self, other: AssetExpression) -> AssetAny:
        return AssetAny(self, other)

    def condition(self) -> list[Any]:
        """The condition as nested lists: ["asset", name] | ["and", [..]] | ["or", [..]]."""
        raise NotImplementedError

    def assets(self) -> Iterator[Asset]:
        """Every asset named, in the order written; one that is named twice comes twice."""
        raise NotImplementedError

    def filters(self) -> Iterator[tuple[str, event_filter.Filter | None]]:
        """The name of every asset named, as often as it is, with the filter that it has there."""
        raise NotImplementedError


class AssetWatcher:
    """Declares that a trigger watches an asset; `name` is unique on the asset.

    Assets whose watchers have the same trigger (class and arguments) and mode share one watcher: it is run once, with
    one cursor, and each of its changes is an event of every asset that it matches.

    key:          what identifies a change in this trigger's payloads, as for Asset; goes before the asset's
    mode:         "single" (default): one triggerer runs it, another takes over at once. "all": every triggerer runs it,
                  so that there is no gap; its changes need a key, and it may keep no cursor.
    match:        which changes are this asset's: a Filter, or a mapping of fields to the value, or list of values, that
                  each has to have: match={"order.region": ["eu", "uk"]}. Default: all.
    keep_cursor:  with other arguments the watcher goes on from the cursor that it had with the old ones. By default it
                  begins anew.
    silent_after: after how long without an observation the watcher counts as silent. By default what the trigger itself
                  promises: a polling one looks once per interval.
    canary:       how often a synthetic change measures the delay from the source to the moment at which a run would be
                  made. It is no event and starts nothing.
    max_events_per_minute: a watcher that tells more is stopped where it is, until a person releases it. 0: any number.
                  By default as the setting of this name says.
    """

    def __init__(
        self,
        name: str,
        trigger: BaseEventTrigger,
        *,
        key: KeyArg | None = None,
        mode: Literal["single", "all"] = "single",
        match: MatchArg | None = None,
        keep_cursor: bool = False,
        silent_after: float | timedelta | None = None,
        canary: float | timedelta | None = None,
        max_events_per_minute: int | None = None,
    ) -> None:
        self.where = here()
        self.name = name
        self.trigger = trigger
        self.key = key
        self.mode = mode
        self.keep_cursor = keep_cursor
        self._check()
        self.declared_key = declared(key, f"watcher {name!r}", self.where)
        self.match = as_match(match, f"match of watcher {name!r}", self.where)
        self.max_events_per_minute: int | None = convert(
            "max_events_per_minute", LIMIT, max_events_per_minute, owner=f"watcher {name!r}", where=self.where
        )
        self.silent_after = _seconds(silent_after, f"silent_after of watcher {name!r}", self.where)
        self.canary = _seconds(canary, f"canary of watcher {name!r}", self.where)

    def _check(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise DagError(
                f"a watcher's name is {self.name!r}", where=self.where, remedy="give a text of at least one letter"
            )
        if not isinstance(self.trigger, BaseEventTrigger):
            kind = self.trigger
            given = kind.__name__ + " (the class)" if isinstance(kind, type) else type(kind).__name__
            raise DagError(
                f"watcher {self.name!r} has the trigger {given}, which is no event trigger",
                where=self.where,
                remedy="pass an instance of a subclass of BaseEventTrigger",
            )
        if self.mode not in ("single", "all"):
            message = f"watcher {self.name!r} has the mode {self.mode!r}"
            raise DagError(
                message, where=self.where, remedy='"single" (one triggerer runs it) or "all" (each one does)'
            )
        if self.keep_cursor and self.mode == "all":
            message = f'watcher {self.name!r} has keep_cursor=True and mode="all", which keeps no cursor'
            raise DagError(message, where=self.where, remedy="leave one of them out")


class Asset(AssetExpression):
    """A named thing that changes: a table, a repository, a topic, a file.

    name:     its identity; taken from `uri` if only that is given
    uri:      where it is; unique among assets
    key:      what identifies a change: the dotted path of a field of the payload ("order.id"), a list of them, or a
              function of the payload; a change that brings a key of its own keeps that; what a watcher tells
              without it is stored, and quarantined until it is mended
    extra:    any JSON object, shown with the asset
    watchers: what notices its changes

    schema:     the JSON Schema (draft 2020-12) that payloads have to keep; an event whose payload breaks it
                is stored, and quarantined until it is mended
    retention:  how long events are kept after they were made; None: as the setting `retention_days` says
    protection: how long a change is known again at least, which may be longer than its event is kept; "forever",
                "high-water" (for ever at next to no cost, for one ordered watcher: see docs/identity.md), or
                a timedelta: a change that is told again later than that may be a new event
    """

    def __init__(
        self,
        name: str = "",
        uri: str = "",
        *,
        group: str = "asset",
        extra: dict[str, Any] | None = None,
        watchers: Iterable[AssetWatcher] = (),
        key: KeyArg | None = None,
        schema: Mapping[str, Any] | None = None,
        retention: timedelta | None = None,
        protection: timedelta | Literal["forever", "high-water"] = "forever",
    ) -> None:
        self.where = here()
        self.name = _text(name or uri, "name", self.where)
        self.uri = _text(uri or name, "uri", self.where)
        self.group = group
        self.extra = dict(extra or {})
        self.watchers = list(watchers)
        self.key = key
        self.schema = schema
        self.retention = retention
        self.protection = protection
        self.declared_key = declared(key, f"asset {self.name!r}", self.where)
        self._check()

    def _check(self) -> None:
        named = (None, "forever", "high-water")
        for name, value, others in (
            ("retention", self.retention, named[:1]),
            ("protection", self.protection, named[1:]),
        ):
            if value not in others and not (isinstance(value, timedelta) and 0 < value.total_seconds() < LONGEST):
                other = " or ".join(map(repr, others))
                remedy = f"give a timedelta of more than nothing and less than {LONGEST} s, or {other}"
                raise DagError(f"asset {self.name!r} has the {name} {value!r}", where=self.where, remedy=remedy)
        if self.schema is not None:
            check_schema(self.schema, f"asset {self.name!r}", self.where)
        for watcher in self.watchers:
            if not isinstance(watcher, AssetWatcher):
                remedy = "wrap each trigger: AssetWatcher(name=..., trigger=...)"
                raise DagError(f"asset {self.name!r} has the watcher {watcher!r}", where=self.where, remedy=remedy)

    @staticmethod
    def ref(*, name: str) -> Asset:
        """Another file's asset, by its name."""
        return Asset(name)

    @overload
    def when(self, field: Filter, /) -> FilteredAsset: ...
    @overload
    def when(self, field: str, operator: Operator, value: Scalar | Sequence[Scalar] = None, /) -> FilteredAsset: ...
    def when(self, field: Filter | str, operator: Any = None, value: Any = None, /) -> FilteredAsset:
        """The asset in a schedule, with only those of its events whose payload passes the filter.

        `orders.when("status", "==", "paid")`, or a Filter; several `when` have to be passed all.
        """
        return FilteredAsset(self, as_filter(field, operator, value))

    def condition(self) -> list[Any]:
        return ["asset", self.name]

    def assets(self) -> Iterator[Asset]:
        yield self

    def filters(self) -> Iterator[tuple[str, event_filter.Filter | None]]:
        yield self.name, None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Asset) and other.name == self.name

    def __hash__(self) -> int:
        return hash(("asset", self.name))

    def __repr__(self) -> str:
        return f"Asset({self.name!r})"


class FilteredAsset(AssetExpression):
    """An asset of a schedule, with those of its events that pass a filter. Made by `asset.when(…)`."""

    def __init__(self, asset: Asset, wanted: Filter) -> None:
        self.asset = asset
        self.wanted = wanted

    @overload
    def when(self, field: Filter, /) -> FilteredAsset: ...
    @overload
    def when(self, field: str, operator: Operator, value: Scalar | Sequence[Scalar] = None, /) -> FilteredAsset: ...
    def when(self, field: Filter | str, operator: Any = None, value: Any = None, /) -> FilteredAsset:
        """A further filter that events have to pass, too."""
        return FilteredAsset(self.asset, self.wanted & as_filter(field, operator, value))

    def condition(self) -> list[Any]:
        return self.asset.condition()

    def assets(self) -> Iterator[Asset]:
        yield self.asset

    def filters(self) -> Iterator[tuple[str, event_filter.Filter | None]]:
        yield self.asset.name, self.wanted.data

    def __repr__(self) -> str:
        return f"{self.asset!r}.when({self.wanted!r})"


class _Several(AssetExpression):
    word = ""

    def __init__(self, *objects: AssetExpression) -> None:
        self.where = here()
        for item in objects:
            if not isinstance(item, AssetExpression):
                remedy = f"{type(self).__name__} takes assets and conditions over assets"
                raise DagError(f"{item!r} is no asset", where=self.where, remedy=remedy)
        if not objects:
            raise DagError(f"{type(self).__name__} of no assets", where=self.where, remedy="name at least one asset")
        self.objects = tuple(
            part for item in objects for part in (item.objects if type(item) is type(self) else [item])
        )

    def condition(self) -> list[Any]:
        parts = [item.condition() for item in self.objects]
        return parts[0] if len(parts) == 1 else [self.word, parts]

    def assets(self) -> Iterator[Asset]:
        for item in self.objects:
            yield from item.assets()

    def filters(self) -> Iterator[tuple[str, event_filter.Filter | None]]:
        for item in self.objects:
            yield from item.filters()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.objects))})"


class AssetAll(_Several):
    """True once each of its parts is true."""

    word = "and"


class AssetAny(_Several):
    """True once any of its parts is true."""

    word = "or"


class Metadata:
    """Yielded by a task: what is known about the change of an outlet.

    Without `key` it adds to the one event of the asset; with a `key` it is an event of its own.
    """

    def __init__(self, asset: Asset, extra: dict[str, Any] | None = None, *, key: str | None = None) -> None:
        self.asset = asset
        self.extra = dict(extra or {})
        self.key = key


def _seconds(value: float | timedelta | None, what: str, where: str) -> float | None:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if seconds is None or (isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < inf):
        return seconds
    raise DagError(f"{what} is {value!r}", where=where, remedy="give seconds, or a timedelta, of more than 0")


def _text(value: Any, what: str, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DagError(f"an asset's {what} is {value!r}", where=where, remedy="give a text of at least one letter")
    if len(value) > 1500:
        raise DagError(f"an asset's {what} has {len(value)} letters", where=where, remedy="at most 1,500 are allowed")
    return value
