"""Values as JSON and back without loss (XComs, extras, arguments, cursors); and, from `spec_json`, DAG specs as JSON.

What JSON has no form for is written as `{"$onceflow": name, "value": ...}`: tuple, set, frozenset, bytes, date,
datetime and timedelta. A dictionary of the user's that has a key `$onceflow` itself is written as such a form too, so
nothing is ambiguous. What cannot be kept is refused with the place named: other classes, keys that are not text, NaN.

A subclass comes back as its base: an IntEnum as int, a named tuple as tuple. A datetime keeps its offset and, if it has
one, the name of its zone.
"""

from __future__ import annotations

import json
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from datetime import date, datetime, timedelta
from math import isfinite
from typing import Any

from onceflow.model.errors import InputError
from onceflow.model.spec_json import (
    dag_spec_from_json,
    failure_from_json,
    file_spec_from_json,
    spec_hash,
    to_json,
)

__all__ = [
    "dag_spec_from_json",
    "decode",
    "dumps",
    "encode",
    "failure_from_json",
    "file_spec_from_json",
    "loads",
    "spec_hash",
    "to_json",
]

TAG = "$onceflow"
MICROSECOND = timedelta(microseconds=1)
MAX_DEPTH = 100
MAX_INT_BITS = 14_000  # Python itself refuses to write or read more than 4,300 digits
ALLOWED = (
    "allowed: None, bool, int, float, str, bytes, list, tuple, set, dict with text keys, date, datetime, timedelta"
)


class _Refused(Exception):
    """Travels up from a value that has no JSON form and collects the path on its way."""

    def __init__(self, message: str, remedy: str = ALLOWED) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.path: list[str] = []


def encode(value: Any, where: str = "value") -> Any:
    """The value in JSON's own types. Raises InputError with the path (`value['a'][0]`) to what cannot be encoded."""
    return _named(_encode, value, where)


def decode(value: Any, where: str = "value") -> Any:
    """The value that was encoded. Raises InputError on a type tag that is not ours."""
    return _named(_decode, value, where)


def dumps(value: Any, where: str = "value") -> str:
    """Encode, and write as compact JSON in ASCII. Raises InputError as `encode` does."""
    return json.dumps(encode(value, where), separators=(",", ":"), allow_nan=False)


def loads(text: str | bytes, where: str = "value") -> Any:
    """Read JSON text, and decode. Raises InputError if it is not JSON, NaN and Infinity included."""
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not valid JSON: {error}", where=where, remedy="give JSON text (RFC 8259)") from error
    return decode(value, where)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _named(function: Callable[[Any, int], Any], value: Any, where: str) -> Any:
    try:
        return function(value, 0)
    except _Refused as refused:
        path = where + "".join(reversed(refused.path))
        raise InputError(refused.message, where=path, remedy=refused.remedy) from None


def _encode(value: Any, depth: int) -> Any:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        if value.bit_length() > MAX_INT_BITS:
            raise _Refused("a number of more than 4,000 digits", "use text")
        return +value  # a plain int, of an IntEnum too
    if isinstance(value, float):
        if not isfinite(value):
            raise _Refused(f"{value} has no JSON form", "use None, or text")
        return float(value)
    if depth > MAX_DEPTH:
        raise _Refused(f"nested more than {MAX_DEPTH} levels deep", "flatten the value; does it contain itself?")
    if isinstance(value, dict):
        return _encode_dict(value, depth)
    if isinstance(value, list):
        return _encode_items(value, depth)
    return _encode_tagged(value, depth)


def _encode_dict(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise _Refused(f"key {key!r} is a {type(key).__name__}, and JSON's keys are text", "use str(key)")
        try:
            result[str.__str__(key)] = _encode(item, depth + 1)
        except _Refused as refused:
            refused.path.append(f"[{key!r}]")
            raise
    return {TAG: "dict", "value": result} if TAG in result else result


def _encode_items(value: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
    result: list[Any] = []
    for index, item in enumerate(value):
        try:
            result.append(_encode(item, depth + 1))
        except _Refused as refused:
            refused.path.append(f"[{index}]")
            raise
    return result


def _encode_tagged(value: Any, depth: int) -> dict[str, Any]:
    if isinstance(value, tuple):
        return {TAG: "tuple", "value": _encode_items(value, depth)}
    if isinstance(value, (set, frozenset)):
        items = _encode_items(list(value), depth)
        kind = "set" if isinstance(value, set) else "frozenset"
        return {TAG: kind, "value": sorted(items, key=lambda item: json.dumps(item, sort_keys=True))}
    if isinstance(value, datetime):
        return _encode_datetime(value)
    if isinstance(value, date):
        return {TAG: "date", "value": value.isoformat()}
    if isinstance(value, timedelta):
        # The base class's own division: a subclass may count days and seconds in its own way (pendulum's does).
        return {TAG: "timedelta", "value": timedelta.__floordiv__(value, MICROSECOND)}
    if isinstance(value, bytes):
        return {TAG: "bytes", "value": b2a_base64(value, newline=False).decode("ascii")}
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    raise _Refused(f"a {name} has no JSON form")


def _encode_datetime(value: datetime) -> dict[str, Any]:
    """With its zone's name, if it has one: the same wall-clock rules on the other side."""
    tagged = {TAG: "datetime", "value": datetime.isoformat(value)}
    zone = getattr(value.tzinfo, "key", None)
    return tagged | {"zone": zone} if zone else tagged


def _decode(value: Any, depth: int) -> Any:
    if isinstance(value, list):
        return _decode_items(value, depth)
    if not isinstance(value, dict):
        return value
    if depth > MAX_DEPTH:
        raise _Refused(f"nested more than {MAX_DEPTH} levels deep", "flatten the value")
    return _decode_tagged(value, depth) if TAG in value else _decode_dict(value, depth)


def _decode_items(value: list[Any], depth: int) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("items must be a list")
    if depth > MAX_DEPTH:
        raise _Refused(f"nested more than {MAX_DEPTH} levels deep", "flatten the value")
    return [_decode(item, depth + 1) for item in value]


def _decode_dict(value: dict[str, Any], depth: int) -> dict[str, Any]:
    return {key: _decode(item, depth + 1) for key, item in value.items()}


def _decode_tagged(tagged: dict[str, Any], depth: int) -> Any:
    kind: Any = tagged[TAG]
    value: Any = tagged.get("value")
    try:
        if kind == "datetime":
            return _decode_datetime(value, tagged.get("zone"))
        if kind == "dict":
            return _decode_dict(value, depth)
        return FROM_TAG[kind](value, depth)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        message = f"{TAG} {kind!r} with the value {str(value)[:60]!r} is not one of ours"
        raise _Refused(message, f"known: {', '.join([*FROM_TAG, 'datetime', 'dict'])}") from error


def _decode_datetime(text: str, zone: str | None) -> datetime:
    time = datetime.fromisoformat(text)
    if zone is None:
        return time
    from zoneinfo import ZoneInfo

    local = time.replace(tzinfo=ZoneInfo(zone))
    # Else it is the second pass through a repeated hour, or the zone's rules have changed since: the instant stays.
    return local if local.utcoffset() == time.utcoffset() else time.astimezone(local.tzinfo)


FROM_TAG: dict[str, Callable[[Any, int], Any]] = {
    "tuple": lambda value, depth: tuple(_decode_items(value, depth)),
    "set": lambda value, depth: set(_decode_items(value, depth)),
    "frozenset": lambda value, depth: frozenset(_decode_items(value, depth)),
    "bytes": lambda value, depth: a2b_base64(value, strict_mode=True),
    "date": lambda value, depth: date.fromisoformat(value),
    "timedelta": lambda value, depth: timedelta(microseconds=value),
}
