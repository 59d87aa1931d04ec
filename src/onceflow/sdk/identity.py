"""What can be told when a file is parsed about the identity of its changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from types import CodeType

from onceflow.model.dagspec import AssetSpec
from onceflow.model.errors import DagError
from onceflow.sdk.asset import Asset, AssetWatcher
from onceflow.sdk.trigger import BaseEventTrigger, Checkpoint

KEY_WORDS = frozenset({"key", "message_id"})
CURSOR_WORDS = frozenset({"cursor"})


def has_identity(kind: type[BaseEventTrigger]) -> bool:
    """Whether changes reported by this trigger carry a key, a message id or a cursor.

    A class attribute `has_identity` says it outright. Else the trigger's own methods are searched for a call with
    `key=`, `message_id=` or `cursor=`, or for `Checkpoint`; this may say yes too often, never no to a trigger that
    does it plainly.
    """
    declared = getattr(kind, "has_identity", None)
    return bool(declared) if declared is not None else gives_key(kind) or keeps_cursor(kind)


def gives_key(kind: type[BaseEventTrigger]) -> bool:
    """Whether this trigger identifies its changes: by its attribute `has_key`, a call with `key=` or `message_id=`."""
    return kind.has_key if kind.has_key is not None else any(_says(code, KEY_WORDS) for code in _methods(kind))


def keeps_cursor(kind: type[BaseEventTrigger]) -> bool:
    """Whether this trigger stores a cursor: by its attribute `has_cursor`, a call with `cursor=`, or a Checkpoint."""
    if kind.has_cursor is not None:
        return kind.has_cursor
    return any(_says(code, CURSOR_WORDS) or _makes_checkpoint(code) for code in _methods(kind))


def _methods(kind: type) -> Iterator[CodeType]:
    for base in kind.__mro__:
        if base.__module__ == BaseEventTrigger.__module__ or base is object:
            continue
        for member in vars(base).values():
            code = getattr(getattr(member, "__func__", member), "__code__", None)
            if isinstance(code, CodeType):
                yield code


def _says(code: CodeType, words: frozenset[str]) -> bool:
    """Names of keyword arguments in a call are a tuple among the code's constants."""
    for constant in code.co_consts:
        if isinstance(constant, tuple) and words & {c for c in constant if isinstance(c, str)}:
            return True
        if isinstance(constant, CodeType) and _says(constant, words):
            return True
    return False


def _makes_checkpoint(code: CodeType) -> bool:
    inner = any(isinstance(c, CodeType) and _makes_checkpoint(c) for c in code.co_consts)
    return inner or Checkpoint.__name__ in code.co_names


def check_mode_all(watcher: AssetWatcher, asset: Asset) -> None:
    """Raise DagError unless every triggerer may run the watcher at once."""
    kind, name = type(watcher.trigger), f"watcher {watcher.name!r} of asset {asset.name!r}"
    if not (watcher.key or asset.key or gives_key(kind)):
        raise DagError(
            f'{name} has mode="all", and nothing gives its changes a key: each triggerer would make events of its own',
            where=watcher.where,
            remedy='give TriggerEvent(..., key=), declare key= for the watcher or the asset, or use mode="single"',
        )
    if keeps_cursor(kind):
        raise DagError(
            f'{name} has mode="all", and {kind.__qualname__} stores a cursor: several triggerers would overwrite it',
            where=watcher.where,
            remedy='use mode="single"; or, if the trigger can do without, set has_cursor = False on its class',
        )


def mark_outlets(specs: Iterable[AssetSpec], outlets: Iterable[Asset]) -> tuple[AssetSpec, ...]:
    """The specs, with those marked whose events tasks make.

    A task calls the key function that its own outlet has: raises DagError for an outlet that lacks its asset's.
    """
    known = {spec.name: spec for spec in specs}
    for outlet in outlets:
        key = known[outlet.name].key
        if key is not None and key.function and outlet.declared_key is None:
            raise DagError(
                f"outlet {outlet.name!r} lacks the key function {key.function} of its asset",
                where=outlet.where,
                remedy=f"use the asset declared at {known[outlet.name].where}, that very object",
            )
    names = {outlet.name for outlet in outlets}
    return tuple(replace(spec, outlet=spec.name in names) for spec in specs)


def told_too_late(asset: Asset, watcher: AssetWatcher) -> Iterator[str]:
    """What to warn of: the watcher's source may tell of a change again when the asset no longer knows it.

    A protection of the asset counts, and that its events are kept, if the asset itself says for how long.
    """
    horizon = type(watcher.trigger).redelivery_horizon
    if horizon is None or not isinstance(asset.protection, timedelta):
        return
    known = max(asset.protection, asset.retention or timedelta(0))
    if known < horizon:
        when = "at any time" if horizon == timedelta.max else f"{horizon} later"
        yield (
            f"asset {asset.name!r} knows its changes for {known}, and the source of watcher {watcher.name!r} may tell "
            f'of one again {when}: it would be a new event (give a longer protection=, or "forever")'
        )


HIGH_WATER = (
    "a high-water mark knows changes by message ids that one trigger tells in rising order, and by nothing else"
)


def check_ordered(asset: Asset, watcher: AssetWatcher) -> None:
    """Raise DagError for a watcher of a high-water asset whose trigger promises no order, or that has a key."""
    if asset.protection != "high-water":
        return
    owner = f"asset {asset.name!r} with protection='high-water'"
    if not type(watcher.trigger).ordered:
        kind = type(watcher.trigger).__qualname__
        message = f"{owner} has the watcher {watcher.name!r}, whose trigger {kind} says nothing of an order"
        remedy = f"{HIGH_WATER}; if {kind} does so, give it `ordered = True`, else choose another protection"
        raise DagError(message, where=watcher.where, remedy=remedy)
    if watcher.mode == "all":
        remedy = f'{HIGH_WATER}: use mode="single", or choose another protection'
        raise DagError(f'{owner} has a watcher with mode="all"', where=watcher.where, remedy=remedy)
    if watcher.declared_key is not None or asset.declared_key is not None:
        remedy = f"{HIGH_WATER}; leave key= out, or choose another protection"
        raise DagError(f"{owner} declares a key, too", where=watcher.where, remedy=remedy)


def check_sole_entrance(specs: Iterable[AssetSpec]) -> None:
    """Raise DagError for a high-water asset that has not one watcher, or has another entrance in this file."""
    for spec in specs:
        if not spec.high_water:
            continue
        found = [f"{len(spec.watchers)} watchers"] if len(spec.watchers) != 1 else []
        found += ["a task that makes its events"] if spec.outlet else []
        if found:
            message = f"asset {spec.name!r} with protection='high-water' has {' and '.join(found)}"
            remedy = f"{HIGH_WATER}: declare one watcher with the asset, or choose another protection"
            raise DagError(message, where=spec.where, remedy=remedy)
