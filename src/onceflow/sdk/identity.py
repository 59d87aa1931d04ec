"""Whether a trigger gives its changes an identity, as far as its code tells."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType

from onceflow.sdk.trigger import BaseEventTrigger, Checkpoint

WORDS = frozenset({"key", "cursor"})


def has_identity(kind: type[BaseEventTrigger]) -> bool:
    """Whether changes reported by this trigger carry a key or a cursor.

    A class attribute `has_identity` says it outright. Else the trigger's own methods are searched for a call with
    `key=` or `cursor=`, or for `Checkpoint`; this may say yes too often, never no to a trigger that does it plainly.
    """
    declared = getattr(kind, "has_identity", None)
    if declared is not None:
        return bool(declared)
    return any(_gives_identity(code) for code in _methods(kind))


def _methods(kind: type) -> Iterator[CodeType]:
    for base in kind.__mro__:
        if base.__module__ == BaseEventTrigger.__module__ or base is object:
            continue
        for member in vars(base).values():
            code = getattr(getattr(member, "__func__", member), "__code__", None)
            if isinstance(code, CodeType):
                yield code


def _gives_identity(code: CodeType) -> bool:
    """Names of keyword arguments in a call are a tuple among the code's constants."""
    if Checkpoint.__name__ in code.co_names:
        return True
    for constant in code.co_consts:
        if isinstance(constant, tuple) and WORDS & {c for c in constant if isinstance(c, str)}:
            return True
        if isinstance(constant, CodeType) and _gives_identity(constant):
            return True
    return False
