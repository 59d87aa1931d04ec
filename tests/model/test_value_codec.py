"""Values survive the way through JSON exactly, or are refused with the place named."""

from __future__ import annotations

import enum
import json
from collections import namedtuple
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import pendulum
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.model.errors import InputError
from onceflow.model.serialize import MAX_DEPTH, TAG, decode, dumps, encode, loads

BERLIN = ZoneInfo("Europe/Berlin")
Point = namedtuple("Point", "x y")


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
hashable = (
    plain
    | st.binary()
    | st.dates()
    | st.timedeltas()
    | st.datetimes(timezones=st.none() | st.just(UTC))
    | st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=st.timezones(), allow_imaginary=False)
)
values = st.recursive(
    hashable,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.just(TAG), inner)
        | st.sets(hashable)
        | st.frozensets(hashable)
    ),
    max_leaves=20,
)


def same(one: object, other: object) -> bool:
    """Equal, and of the same types all the way down (1 == 1.0 == True would hide a loss)."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(v, other[k]) for k, v in one.items())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other and repr(one) == repr(other) if isinstance(one, float) else one == other


@given(values)
def test_every_value_comes_back_exactly(value: object) -> None:
    text = dumps(value)
    assert text.isascii()
    assert same(loads(text), value)
    assert same(decode(json.loads(json.dumps(encode(value)))), value)


@given(values)
def test_the_same_value_gives_the_same_text(value: object) -> None:
    assert dumps(loads(dumps(value))) == dumps(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        ({"b": 1, "a": [True, 1.5, "é\0"]}, '{"b":1,"a":[true,1.5,"\\u00e9\\u0000"]}'),
        ((1,), '{"$onceflow":"tuple","value":[1]}'),
        ({2, 1}, '{"$onceflow":"set","value":[1,2]}'),
        (b"\xff", '{"$onceflow":"bytes","value":"/w=="}'),
        (date(2026, 1, 31), '{"$onceflow":"date","value":"2026-01-31"}'),
        (timedelta(days=-1, microseconds=1), '{"$onceflow":"timedelta","value":-86399999999}'),
        (datetime(2026, 1, 31, 9, tzinfo=UTC), '{"$onceflow":"datetime","value":"2026-01-31T09:00:00+00:00"}'),
        ({"$onceflow": "tuple"}, '{"$onceflow":"dict","value":{"$onceflow":"tuple"}}'),
    ],
)
def test_the_form_on_disk(value: object, text: str) -> None:
    """Stored values must stay readable, so the form is pinned here."""
    assert dumps(value) == text
    assert loads(text) == value


@pytest.mark.parametrize("fold", [0, 1])
def test_a_time_in_a_repeated_hour_keeps_its_pass_and_its_zone(fold: int) -> None:
    time = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=fold)
    back = loads(dumps(time))
    assert back.tzinfo is BERLIN
    assert back.fold == fold
    assert back.astimezone(UTC) == time.astimezone(UTC)


def test_a_naive_time_stays_naive_and_an_offset_stays_an_offset() -> None:
    assert loads(dumps(datetime(2026, 1, 1))).tzinfo is None
    east = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert loads(dumps(east)).utcoffset() == timedelta(hours=5, minutes=30)


def test_a_time_whose_zone_rules_changed_keeps_its_instant() -> None:
    stored = {TAG: "datetime", "value": "2026-01-01T12:00:00+03:00", "zone": "Europe/Berlin"}
    assert decode(stored) == datetime(2026, 1, 1, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "back"),
    [
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        ({Colour.RED: Level.HIGH}, {"red": 3}),
        (Point(1, 2), (1, 2)),
        (pendulum.datetime(2026, 1, 1, tz="Europe/Berlin"), datetime(2026, 1, 1, tzinfo=BERLIN)),
        (pendulum.duration(days=2, seconds=-5, microseconds=7), timedelta(days=2, seconds=-5, microseconds=7)),
        (pendulum.duration(hours=-30), timedelta(hours=-30)),
        (pendulum.date(2026, 1, 1), date(2026, 1, 1)),
    ],
)
def test_a_subclass_comes_back_as_its_base(value: object, back: object) -> None:
    assert same(loads(dumps(value)), back)


@pytest.mark.parametrize(
    ("value", "path", "says"),
    [
        (float("nan"), "value", "nan has no JSON form"),
        ({"a": [1, float("inf")]}, "value['a'][1]", "inf has no JSON form"),
        ({"a": {1: 2}}, "value['a']", "key 1 is a int"),
        ({"a": ({"b": Decimal(1)},)}, "value['a'][0]['b']", "a decimal.Decimal has no JSON form"),
        (object(), "value", "a object has no JSON form"),
        ([10**4400], "value[0]", "more than 4,000 digits"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_place(value: object, path: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        dumps(value)
    assert refused.value.where == path
    assert says in refused.value.message
    assert refused.value.remedy


def test_where_names_the_argument() -> None:
    with pytest.raises(InputError, match=r"return value of 'load'\['x'\]: a complex has no JSON form"):
        dumps({"x": 1j}, "return value of 'load'")


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(InputError, match="levels deep"):
        dumps(loop)


def test_depth_has_one_limit_both_ways() -> None:
    deep: object = 1
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    assert loads(dumps(deep)) == deep
    with pytest.raises(InputError, match="levels deep"):
        dumps([deep])
    with pytest.raises(InputError, match="levels deep"):
        loads(json.dumps([deep]))
    with pytest.raises(InputError):
        loads("[" * 100_000 + "]" * 100_000)


@pytest.mark.parametrize("text", ["", "{", "NaN", "[Infinity]", "-Infinity", "'a'", '{"a":1}x', b"\xff", "1" * 5000])
def test_what_is_no_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(InputError, match="not valid JSON"):
        loads(text, "--extra")


@pytest.mark.parametrize(
    "stored",
    [
        {TAG: "complex", "value": [1, 2]},
        {TAG: ["set"], "value": []},
        {TAG: "tuple"},
        {TAG: "tuple", "value": "ab"},
        {TAG: "set", "value": [[1]]},
        {TAG: "dict", "value": 1},
        {TAG: "bytes", "value": "?"},
        {TAG: "bytes", "value": None},
        {TAG: "date", "value": "yesterday"},
        {TAG: "datetime", "value": None},
        {TAG: "datetime", "value": "2026-01-01T00:00:00+00:00", "zone": "Mars/Base"},
        {TAG: "timedelta", "value": 10**30},
    ],
)
def test_a_tag_that_is_not_ours_is_refused(stored: dict[str, object]) -> None:
    with pytest.raises(InputError, match="is not one of ours"):
        decode(stored)


@given(st.recursive(plain, lambda x: st.lists(x) | st.dictionaries(st.text(), x), max_leaves=10))
def test_plain_json_is_stored_as_it_is(value: object) -> None:
    assert encode(value) == value
