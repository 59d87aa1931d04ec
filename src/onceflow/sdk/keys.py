"""`key=` of assets and watchers: what in a payload identifies a change.

    Asset("orders", key="order.id")                 a field of the payload, by its dotted path
    Asset("orders", key=["region", "order.id"])     several fields together
    Asset("orders", key=lambda payload: ...)        a function of the payload: text, a number, or a tuple of such

Fields are data and are read wherever a change comes in. A function is called where DAG code runs, in the process of the
trigger or the task: an emit by API or command has to bring its key along then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onceflow.model import key as model
from onceflow.model.errors import DagError, InputError
from onceflow.model.key import Key, check_path
from onceflow.model.text import message_of

KeyArg = str | Sequence[str] | Callable[[Any], object]

REMEDY = 'give the dotted path of a field (key="order.id"), a list of paths, or a function of the payload'


def declared(key: KeyArg | None, owner: str, where: str) -> Key | None:
    """The key that was declared for `owner`, None if none was. Raises DagError if it is none of the three forms."""
    if key is None:
        return None
    if callable(key):
        return _by_function(key, owner, where)
    paths = (key,) if isinstance(key, str) else key
    if not isinstance(paths, (list, tuple)) or not paths or key == "":
        raise DagError(f"{owner} has the key {key!r}", where=where, remedy=REMEDY)
    for path in paths:
        if problem := check_path(path):
            raise DagError(f"{owner} has the key {key!r}: {problem}", where=where, remedy=REMEDY)
    if len(set(paths)) < len(paths):
        raise DagError(f"{owner} has the key {key!r}: a path is named twice", where=where, remedy="name each once")
    return Key(paths=tuple(paths))


def _by_function(key: Callable[..., Any], owner: str, where: str) -> Key:
    from inspect import iscoroutinefunction

    if iscoroutinefunction(key):
        remedy = "use a plain function: a key is found in the payload, without waiting for anything"
        raise DagError(f"the key of {owner} is a coroutine function", where=where, remedy=remedy)
    named: Any = key if hasattr(key, "__qualname__") else type(key)
    return Key(function=f"{named.__module__}.{named.__qualname__}")


def call(function: Callable[[Any], object], payload: Any, owner: str) -> str:
    """The key that a function gives for a payload. Raises InputError when it fails or gives nothing of use."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    what = f"what the key function {name} of {owner} gives"
    try:
        result = function(payload)
    except (Exception, SystemExit) as error:
        remedy = "it has to give a key for every payload; let the change bring its own key where it cannot"
        message = f"the key function {name} of {owner} failed: {type(error).__name__}: {message_of(error)}"
        raise InputError(message, where=owner, remedy=remedy) from error
    return model.from_result(result, what, owner)
