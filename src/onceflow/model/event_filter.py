"""Filters: which events of an asset a consumer wants, said as data about their payload, or about who told them.

    [operator, path, value]      a comparison, such as ["==", "order.status", "paid"]
    ["and" | "or", [filter, …]]  several
    ["not", filter]              the opposite
    ["source", filter]           of the event's source: the paths in it are those of `event.source`

A comparison is true, false, or cannot be judged: the payload has no such field, or the field's type has no such
comparison (`>` of a text and a number). What cannot be judged stays so under "not", makes an "and" not true and an "or"
no truer, and in the end the event is not accepted; so an event is let through only by what its payload says.

Types are JSON's: 1 and 1.0 are equal, "1" and 1 are not, true is no number. Null is a value that a field may have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from onceflow.model.errors import DagError
from onceflow.model.payload import Found, look_up
from onceflow.model.text import cut, find_unstorable

Filter = list[Any]

ORDERINGS = ("<", "<=", ">", ">=")
EQUALITIES = ("==", "!=")
MEMBERSHIPS = ("in", "not in")
TEXTUAL = ("starts with", "ends with")
OPERATORS = (*EQUALITIES, *ORDERINGS, *MEMBERSHIPS, "contains", *TEXTUAL, "exists")

MAX_DEPTH = 50
SHOWN = 60
LONGEST_REASON = 500
MOST_BITS = 1024


@dataclass(frozen=True)
class Verdict:
    """Whether an event is accepted, and if not, why in words."""

    accepted: bool
    reason: str = ""


ACCEPTED = Verdict(True)


def judge_payload(wanted: Filter, payload: Any, source: Mapping[str, Any] | None = None) -> Verdict:
    """Judge a payload of JSON's own types. The reason is a sentence that names the comparison and what was found.

    `source`: that of the event, for filters that ask about it.
    """
    truth, why = _judge(wanted, payload, source or {})
    if truth:
        return ACCEPTED
    return Verdict(False, cut(why, LONGEST_REASON))


def to_text(wanted: Filter) -> str:
    """The filter as people write it: `status == "paid" & (total > 100 | vip exists)`."""
    op = wanted[0]
    if op == "not":
        return f"~({to_text(wanted[1])})"
    if op == "source":
        return f"source({to_text(wanted[1])})"
    if op in ("and", "or"):
        parts = [f"({to_text(part)})" if part[0] in ("and", "or") else to_text(part) for part in wanted[1]]
        return (" & " if op == "and" else " | ").join(parts)
    return f"{wanted[1]} exists" if op == "exists" else f"{wanted[1]} {op} {_shown(wanted[2])}"


def asks_source(wanted: Filter) -> bool:
    """Whether the filter asks about the event's source."""
    return wanted[0] == "source" or any(asks_source(part) for part in _parts(wanted))


def both(one: Filter, two: Filter) -> Filter:
    """What is accepted by both."""
    return _joined("and", one, two)


def either(one: Filter, two: Filter) -> Filter:
    """What is accepted by one of them."""
    return _joined("or", one, two)


def comparison(path: Any, operator: Any, value: Any, where: str) -> Filter:
    """A comparison that was checked. Raises DagError naming what is wrong and what is allowed."""
    problem = _path_problem(path)
    if problem:
        raise DagError(problem, where=where, remedy='name a field of the payload by its dotted path: "order.status"')
    if operator not in OPERATORS:
        raise DagError(f"a filter has no operator {operator!r}", where=where, remedy=f"allowed: {', '.join(OPERATORS)}")
    wrong = _value_problem(operator, value)
    if wrong:
        raise DagError(f"the filter on {path!r} compares by {operator!r} with {value!r}", where=where, remedy=wrong)
    return [operator, path, list(value) if operator in MEMBERSHIPS else value]


def check_depth(wanted: Filter, where: str) -> Filter:
    """The filter, unless it is nested too deep. Raises DagError."""
    level, depth = [wanted], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise DagError(f"a filter is nested more than {MAX_DEPTH} levels deep", where=where, remedy="make it flat")
        level = [part for item in level for part in _parts(item)]
    return wanted


def _parts(wanted: Filter) -> Sequence[Filter]:
    if wanted[0] in ("and", "or"):
        return wanted[1]
    return [wanted[1]] if wanted[0] in ("not", "source") else []


def _joined(op: str, one: Filter, two: Filter) -> Filter:
    return [op, [part for item in (one, two) for part in (item[1] if item[0] == op else [item])]]


def _path_problem(path: Any) -> str:
    if not isinstance(path, str):
        return f"a filter's field is {path!r}"
    if "\0" in path:
        return f"a filter's field {path!r} holds a NUL character"
    return "" if path and all(path.split(".")) else f"a filter's field {path!r} has an empty name"


def _value_problem(operator: str, value: Any) -> str:
    """What is allowed instead, "" if the value fits the operator."""
    if operator in MEMBERSHIPS:
        fits = isinstance(value, (list, tuple)) and value and all(_is_plain(item) for item in value)
        return "" if fits else "give a list of texts, numbers, True, False or None"
    if operator in TEXTUAL:
        return "" if _is_text(value) else "give a text"
    if operator in ORDERINGS:
        return "" if _is_text(value) or _is_number(value) else "give a number or a text"
    if operator == "exists":
        return "" if value is None else "give no value"
    return "" if _is_plain(value) else "give a text, a number, True, False or None"


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool) or _is_text(value) or _is_number(value)


def _is_text(value: Any) -> bool:
    """A text that a database can hold."""
    return isinstance(value, str) and find_unstorable(value) is None


def _is_number(value: Any) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and value.bit_length() <= MOST_BITS
    return isinstance(value, float) and isfinite(value)


# Judging -------------------------------------------------------------------------------------------------------------


def _judge(wanted: Filter, payload: Any, source: Mapping[str, Any]) -> tuple[bool | None, str]:
    """The truth, None if it cannot be judged, and why it is not true."""
    op = wanted[0]
    if op == "source":
        truth, why = _judge(wanted[1], source, source)
        return truth, why and f"source({why})"
    if op == "not":
        truth, why = _judge(wanted[1], payload, source)
        return (None, why) if truth is None else (not truth, f"{to_text(wanted)} is not met" if truth else "")
    if op == "and":
        judged = [_judge(part, payload, source) for part in wanted[1]]
        failed = next((j for j in judged if j[0] is False), None) or next((j for j in judged if j[0] is None), None)
        return failed or (True, "")
    if op == "or":
        judged = [_judge(part, payload, source) for part in wanted[1]]
        if any(truth for truth, _ in judged):
            return True, ""
        truth = None if any(t is None for t, _ in judged) else False
        return truth, "; ".join(why for _, why in judged)
    return _compare(op, wanted[1], wanted[2], payload)


def _compare(op: str, path: str, value: Any, payload: Any) -> tuple[bool | None, str]:
    found = look_up(payload, path)
    truth = found.there if op == "exists" else _truth(op, found.value, value) if found.there else None
    if truth:
        return True, ""  # most are: no words are made for nothing
    if not found.there:
        why = _lacking(found)
    else:
        why = f"{path} is {_kind(found.value) if truth is None else _shown(found.value)}"
    return truth, f"{to_text([op, path, value])} {'cannot be judged' if truth is None else 'is not met'}: {why}"


def _lacking(found: Found) -> str:
    holder = found.seen or "the payload"
    if isinstance(found.value, (Mapping, list)):
        return f"{holder} has no field {found.name}"
    return f"{holder} is {_kind(found.value)}, which has no fields"


def _truth(op: str, found: Any, value: Any) -> bool | None:
    match op:
        case "==" | "!=":
            return _equal(found, value) == (op == "==")
        case "in" | "not in":
            return any(_equal(found, item) for item in value) == (op == "in")
        case "contains":
            return _contains(found, value)
        case "starts with" | "ends with":
            return _at_edge(op, found, value)
        case _:
            return _ordered(op, found, value)


def _equal(found: Any, value: Any) -> bool:
    """Equal in JSON's sense. The values of filters are scalars, so a list or object is equal to none of them."""
    if isinstance(found, bool) or isinstance(value, bool):
        return found is value
    return (type(found) is type(value) or (_is_number(found) and _is_number(value))) and bool(found == value)


def _contains(found: Any, value: Any) -> bool | None:
    """A text has the text in it, a list has the item, an object has the name."""
    if isinstance(found, list):
        return any(_equal(item, value) for item in found)
    if isinstance(found, (str, Mapping)) and isinstance(value, str):
        return value in found
    return None


def _at_edge(op: str, found: Any, value: str) -> bool | None:
    if not isinstance(found, str):
        return None
    return found.startswith(value) if op == "starts with" else found.endswith(value)


def _ordered(op: str, found: Any, value: Any) -> bool | None:
    """Numbers by size, texts by their characters' code points."""
    if not ((_is_number(found) and _is_number(value)) or (isinstance(found, str) and isinstance(value, str))):
        return None
    match op:
        case "<":
            return found < value
        case "<=":
            return found <= value
        case ">":
            return found > value
        case _:
            return found >= value


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {bool: "true or false", str: "a text", int: "a number", float: "a number", list: "a list"}
    return kinds.get(type(value), "an object")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace").decode()
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"
