"""What a task sees of events: those that started its run, those of its inlets, and those it is about to make."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, overload

from onceflow.model.errors import InputError
from onceflow.model.limits import check_extra, check_key
from onceflow.model.serialize import decode, dumps, encode
from onceflow.model.times import from_rfc3339
from onceflow.sdk import keys
from onceflow.sdk.asset import Asset


@dataclass(frozen=True)
class AssetEvent:
    """The durable record of a change. `key` identifies it on its asset, if anything does; `source` says who told."""

    id: int
    asset: Asset
    extra: Any
    key: str | None
    created_at: datetime
    source: dict[str, Any] = field(default_factory=dict)

    @property
    def source_dag_id(self) -> str | None:
        """The DAG of the task that made the event, if a task did."""
        return self.source.get("dag_id")

    @property
    def source_task_id(self) -> str | None:
        return self.source.get("task_id")

    @property
    def source_run_id(self) -> str | None:
        return self.source.get("run_id")

    @property
    def source_map_index(self) -> int | None:
        return self.source.get("map_index")

    @property
    def timestamp(self) -> datetime:
        return self.created_at

    @property
    def name(self) -> str:
        return self.asset.name

    @property
    def uri(self) -> str:
        return self.asset.uri

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> AssetEvent:
        """An event as the channel gives it."""
        at = given["created_at"]
        return cls(
            id=given["id"],
            asset=Asset(given["asset"], given.get("uri") or given["asset"]),
            extra=_decoded(given.get("extra")),
            key=given.get("key"),
            created_at=at if isinstance(at, datetime) else from_rfc3339(at),
            source=given.get("source") or {},
        )


def _decoded(value: Any) -> Any:
    """The value as it was; a payload from elsewhere that only looks like one of our tagged forms stays as it is."""
    try:
        return decode(value)
    except InputError:
        return value


class TriggeringEvents(Mapping[Any, list[AssetEvent]]):
    """The events of this run by asset, in the order of their commit; read when first looked at."""

    def __init__(self, fetch: Callable[[], list[dict[str, Any]]]) -> None:
        self._fetch = fetch
        self._found: dict[Asset, list[AssetEvent]] | None = None

    @property
    def _events(self) -> dict[Asset, list[AssetEvent]]:
        if self._found is None:
            self._found = {}
            for given in self._fetch():
                event = AssetEvent.of(given)
                self._found.setdefault(event.asset, []).append(event)
        return self._found

    def __getitem__(self, asset: Asset | str) -> list[AssetEvent]:
        for known, events in self._events.items():
            if known == asset or (isinstance(asset, str) and asset in (known.name, known.uri)):
                return events
        raise KeyError(asset)

    def __iter__(self) -> Iterator[Asset]:
        return iter(self._events)

    def __len__(self) -> int:
        return len(self._events)

    def __repr__(self) -> str:
        return repr(self._events)


class InletEvents(Mapping[Any, "EventHistory"]):
    """The events of the task's inlets, by asset; read when looked at."""

    def __init__(self, inlets: Sequence[Any], fetch: Callable[[str, int | None], list[dict[str, Any]]]) -> None:
        self._assets = [inlet for inlet in inlets if isinstance(inlet, Asset)]
        self._fetch = fetch

    def __getitem__(self, asset: Asset | str | int) -> EventHistory:
        found = self._assets[asset] if isinstance(asset, int) else _find(asset, self._assets, "inlet")
        return EventHistory(found.name, self._fetch)

    def __iter__(self) -> Iterator[Asset]:
        return iter(self._assets)

    def __len__(self) -> int:
        return len(self._assets)


class EventHistory(Sequence[AssetEvent]):
    """An asset's events, oldest first. `[-1]` and `[-n:]` read only the newest."""

    def __init__(self, asset: str, fetch: Callable[[str, int | None], list[dict[str, Any]]]) -> None:
        self._asset = asset
        self._fetch = fetch

    def newest(self, limit: int | None) -> list[AssetEvent]:
        """The newest events, oldest of them first; None: all."""
        return [AssetEvent.of(given) for given in self._fetch(self._asset, limit)]

    @overload
    def __getitem__(self, index: int) -> AssetEvent: ...
    @overload
    def __getitem__(self, index: slice) -> list[AssetEvent]: ...
    def __getitem__(self, index: Any) -> Any:
        first = index.start if isinstance(index, slice) else index
        return self.newest(-first if isinstance(first, int) and first < 0 else None)[index]

    def __len__(self) -> int:
        return len(self.newest(None))


@dataclass
class OutletEvent:
    """The event an outlet will get when the task succeeds; several, if `add` is called."""

    asset: Asset
    extra: Any = field(default_factory=dict)
    added: list[tuple[Any, str | None]] = field(default_factory=list)

    def add(self, extra: Any = None, *, key: str | None = None) -> None:
        """Make an event of its own; `extra` of this object goes into each. Raises InputError if it is not JSON."""
        if key is not None:
            check_key(key, f"key of outlet {self.asset.name!r}")
        self.added.append(({} if extra is None else extra, key))

    def events(self) -> Iterator[dict[str, Any]]:
        """The events as `Result.events` has them."""
        for extra, key in self.added or [({}, None)]:
            both = {**self.extra, **extra} if isinstance(self.extra, dict) and isinstance(extra, dict) else extra
            value = self.extra if not self.added else both
            where = f"extra of outlet {self.asset.name!r}"
            check_extra(dumps(value, where), where)
            yield {"asset": self.asset.name, "extra": encode(value, where), "key": self._key(key, value)}

    def _key(self, given: str | None, payload: Any) -> str | None:
        """The event's key, as far as it takes the user's code to know it."""
        if given is not None or not callable(self.asset.key):
            return given
        key = keys.call(self.asset.key, payload, f"outlet {self.asset.name!r}")
        check_key(key, f"key of outlet {self.asset.name!r}")
        return key


class OutletEvents(Mapping[Any, OutletEvent]):
    """What the task says about its outlets: `outlet_events[asset].extra["rows"] = 5`."""

    def __init__(self, outlets: Sequence[Asset]) -> None:
        self._events = {asset: OutletEvent(asset) for asset in outlets}

    def __getitem__(self, asset: Asset | str) -> OutletEvent:
        return self._events[_find(asset, list(self._events), "outlet")]

    def __iter__(self) -> Iterator[Asset]:
        return iter(self._events)

    def __len__(self) -> int:
        return len(self._events)

    def all(self) -> list[dict[str, Any]]:
        """Every event to be recorded when the task succeeds."""
        return [event for outlet in self._events.values() for event in outlet.events()]


def _find(wanted: Asset | str, assets: Sequence[Asset], what: str) -> Asset:
    for asset in assets:
        if asset == wanted or wanted in (asset.name, asset.uri):
            return asset
    name = wanted.name if isinstance(wanted, Asset) else wanted
    known = ", ".join(asset.name for asset in assets) or "none"
    raise KeyError(f"{name!r} is no {what} of this task; its {what}s are: {known}")
