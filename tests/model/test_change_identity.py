"""What makes two sightings the same change, and the limits of what they may carry."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.model.change import (
    EXTRA_LIMIT,
    KEY_LIMIT,
    XCOM_LIMIT,
    Change,
    check_extra,
    check_key,
    check_xcom,
    key_hash,
    sighting_hash,
)
from onceflow.model.errors import InputError

SIGHTING = uuid.UUID("018f2f3e-0000-7000-8000-000000000001")


def test_the_hashes_are_pinned() -> None:
    """Identities outlive their events in the database: another hash would let every known change in again."""
    assert str(key_hash("commit-1")) == "bcee96a3-7249-8692-f373-14371c04c39c"
    assert str(sighting_hash(SIGHTING)) == "fa3dfb70-d665-e269-5bcb-138e8948451e"


@given(st.text(min_size=1), st.text(min_size=1))
def test_equal_keys_and_only_they_have_equal_hashes(one: str, other: str) -> None:
    assert (key_hash(one) == key_hash(other)) == (one == other)


@given(st.uuids())
def test_no_key_can_name_a_sighting(sighting: uuid.UUID) -> None:
    of_sighting = sighting_hash(sighting)
    for key in (str(sighting), sighting.hex, sighting.bytes.decode("latin-1"), "onceflow.sight" + str(sighting)):
        assert key_hash(key) != of_sighting
    assert of_sighting != sighting


def test_a_change_with_a_key_is_the_same_whoever_saw_it() -> None:
    one, other = (Change("a", "{}", "k", uuid.uuid4()) for _ in range(2))
    assert one.hash == other.hash == key_hash("k")


def test_a_change_without_a_key_is_the_same_only_if_sent_again() -> None:
    first, again, another = (Change("a", "{}", None, s) for s in (SIGHTING, SIGHTING, uuid.uuid4()))
    assert first.hash == again.hash == sighting_hash(SIGHTING)
    assert first.hash != another.hash


@pytest.mark.parametrize("key", ["k", "k" * KEY_LIMIT, "é" * (KEY_LIMIT // 2), " ", "a/b c\n"])
def test_keys_within_the_limit_pass(key: str) -> None:
    check_key(key)


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("", "the key is empty"),
        ("k" * (KEY_LIMIT + 1), "has 1025 bytes, the limit is 1024"),
        ("é" * 513, "has 1026 bytes, the limit is 1024"),
        ("a\0b", "NUL"),
        ("\ud800", "not valid Unicode"),
        (7, "the key is a int"),
        (None, "the key is a NoneType"),
    ],
)
def test_other_keys_are_refused_with_limit_and_place(key: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as refused:
        check_key(key, "line 3")
    assert refused.value.where == "line 3"
    assert str(KEY_LIMIT) in refused.value.remedy or "surrogates" in refused.value.remedy
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(("check", "limit"), [(check_extra, EXTRA_LIMIT), (check_xcom, XCOM_LIMIT)])
def test_data_is_measured_in_bytes(check, limit: int) -> None:
    check("x" * limit, "extra")
    check("é" * (limit // 2), "extra")
    for text in ("x" * (limit + 1), "é" * (limit // 2 + 1)):
        with pytest.raises(InputError, match=f"the limit is {limit}") as refused:
            check(text, "event 5")
        assert refused.value.where == "event 5"
