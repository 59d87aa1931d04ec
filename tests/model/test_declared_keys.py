"""A declared key: the same values give the same key, whoever reports them; what identifies nothing is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.model import key as keys
from onceflow.model.errors import InputError
from onceflow.model.key import Key, check_path, compound, from_result, read

ORDER = {"order": {"id": 42, "lines": [{"sku": "a/b"}, {"sku": "c"}]}, "region": "eu", "deleted": True, "total": 1.5}


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (("order.id",), "42"),
        (("region",), "eu"),
        (("deleted",), "true"),
        (("order.lines.1.sku",), "c"),
        (("region", "order.id"), "eu/42"),
        (("region", "order.lines.0.sku"), "eu/a%2Fb"),
        (("order.lines.0.sku",), "a/b"),
    ],
)
def test_fields_give_keys(paths: tuple[str, ...], expected: str) -> None:
    assert read(Key(paths), ORDER) == expected


def test_a_number_is_its_text_in_whatever_form_it_comes() -> None:
    """airflow #53615-like: a webhook says "42", a poller 42, a JSON writer without whole numbers 42.0: one change."""
    texts = ('{"id": 42}', '{"id": "42"}', '{"id": 42.0}', '{"id": 4.2e1}')
    assert {read(Key(("id",)), json.loads(text)) for text in texts} == {"42"}
    assert read(Key(("id",)), {"id": -0.0}) == "0"
    assert read(Key(("id",)), {"id": 2**70}) == str(2**70)


@pytest.mark.parametrize(
    ("payload", "path", "says"),
    [
        ({"idd": 1, "total": 2}, "id", r"no field 'id'; it has idd, total"),
        ({"order": {"no": 1}}, "order.id", r"no field 'order.id' \(no 'id' in 'order'\); 'order' has no"),
        ({"order": 7}, "order.id", "'order' is 7"),
        ({}, "id", "it is an empty object"),
        (None, "id", "it is null"),
        ([1], "1", "it is a list of 1"),
        ({"id": None}, "id", "field 'id' of the payload is null, which identifies nothing"),
        ({"id": 0.5}, "id", "is the fraction 0.5"),
        ({"id": 1e300}, "id", "is the fraction 1e"),
        ({"id": float("inf")}, "id", "is the fraction inf"),
        ({"id": {}}, "id", "is an object"),
        ({"id": ["a"]}, "id", "is a list of 1"),
        ({"id": 10**5000}, "id", "thousands of digits"),
    ],
)
def test_what_identifies_nothing_is_refused(payload: Any, path: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as refused:
        read(Key((path,)), payload, "line 3")
    assert refused.value.where == "line 3"
    assert refused.value.remedy


@given(st.lists(st.text(), min_size=2, max_size=4), st.lists(st.text(), min_size=2, max_size=4))
def test_no_two_compounds_are_the_same_key(one: list[str], other: list[str]) -> None:
    assert (compound(one) == compound(other)) == (one == other)


def test_a_function_may_return_a_field_or_several() -> None:
    assert from_result(7, "key()") == "7"
    assert from_result(("eu", 7), "key()") == "eu/7" == read(Key(("a", "b")), {"a": "eu", "b": "7"})
    for refused in (None, [], {}, ("eu", None), object()):
        with pytest.raises(InputError, match="identifies nothing"):
            from_result(refused, "key()")


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", 7, None, "a\0", "a\ud800"])
def test_paths_that_name_no_field(path: Any) -> None:
    assert check_path(path)


def test_paths_that_do() -> None:
    assert [check_path(p) for p in ("id", "order.id", "lines.0.sku", "größe", "a b")] == [""] * 5


def test_long_payloads_do_not_make_long_messages() -> None:
    with pytest.raises(InputError) as refused:
        read(Key(("id",)), {f"field {n} {'x' * 100}": n for n in range(100)})
    assert len(str(refused.value)) < 700
    assert keys.SHOWN == 8
