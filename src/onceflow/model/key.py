"""How a payload identifies its change: the key that an asset or a watcher declares, and what it gives for a payload.

    Key(paths=("order.id",))           a field of the payload, by its dotted path: "42"
    Key(paths=("region", "order.id"))  several together: "eu/42"
    Key(function="orders.by_id")       user code, which only guests can call; what it returns is read like a field

The same values have to give the same key at every entrance, so a value counts by its text: the number 42, the text "42"
and 42.0 of a JSON writer that knows no whole numbers are one. `true` and `false` count as these words. What has no one
text is refused: other fractions, null, lists and objects. Parts of a compound key are joined by `/`, with `%` and `/`
inside a part written as `%25` and `%2F`, so that no two compounds are the same key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onceflow.model.errors import InputError
from onceflow.model.payload import look_up

EXACT = 2**53
"""Up to here every whole number is a float of its own."""
SHOWN = 8
ALLOWED = "a key is made of text, whole numbers, true and false; name a field that holds one, or give the change a key"


@dataclass(frozen=True)
class Key:
    """A declared key: `paths` of fields, or a `function` by its name, to be found in the DAG file `file`."""

    paths: tuple[str, ...] = ()
    function: str = ""
    file: str = ""

    def __str__(self) -> str:
        return self.function + "()" if self.function else ", ".join(self.paths)


def read(key: Key, payload: Any, where: str = "") -> str:
    """The key that declared paths give for a payload of JSON's own types.

    Raises InputError naming the path, what is there instead, and what is allowed.
    """
    parts = [text_of(_field(payload, path, where), f"field {path!r} of the payload", where) for path in key.paths]
    return compound(parts)


def from_result(result: Any, what: str, where: str = "") -> str:
    """The key that a function's result stands for; a list or tuple is a compound key. Raises InputError."""
    if isinstance(result, (list, tuple)) and result:
        return compound([text_of(part, what, where) for part in result])
    return text_of(result, what, where)


def compound(parts: Sequence[str]) -> str:
    """One key of several texts; a single one is the key itself."""
    if len(parts) == 1:
        return parts[0]
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


def text_of(value: Any, what: str, where: str = "") -> str:
    """The one text of a value, by which it counts in a key. Raises InputError if it has none."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT:
        value = int(value)
    if isinstance(value, int):
        try:
            return int.__repr__(value)
        except ValueError:  # more digits than Python writes
            raise InputError(f"{what} is a number of thousands of digits", where=where, remedy=ALLOWED) from None
    raise InputError(f"{what} is {_kind(value)}, which identifies nothing", where=where, remedy=ALLOWED)


def check_path(path: Any) -> str:
    """What is wrong with a declared path; "" if it names a field: names joined by dots, numbers in lists."""
    if not isinstance(path, str):
        return f"a path is {path!r}"
    if not path or not all(path.split(".")):
        return f"the path {path!r} has an empty name"
    return "" if path.isprintable() else f"the path {path!r} holds characters that cannot be printed"


def _field(payload: Any, path: str, where: str) -> Any:
    found = look_up(payload, path)
    if not found.there:
        message = f"{_missing(path, found.seen, found.name)}; {_there(found.value, found.seen)}"
        raise InputError(message, where=where, remedy=REMEDY)
    return found.value


REMEDY = "send the field, give the change a key of its own, or correct the key that is declared"


def _missing(path: str, seen: str, name: str) -> str:
    return f"the payload has no field {path!r}" + (f" (no {name!r} in {seen!r})" if seen else "")


def _there(found: Any, seen: str) -> str:
    holder = f"{seen!r}" if seen else "it"
    if isinstance(found, Mapping):
        names = [str(name)[:40] for name in list(found)[:SHOWN]]
        more = ", …" if len(found) > SHOWN else ""
        return f"{holder} has {', '.join(names)}{more}" if names else f"{holder} is an empty object"
    return f"{holder} is {_kind(found)}"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    if isinstance(value, float):
        return f"the fraction {value!r}"
    return f"a {type(value).__name__}" if not isinstance(value, (str, int)) else repr(value)[:60]
