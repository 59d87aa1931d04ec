"""What makes two sightings the same change, and the limits of what they may carry."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.model.change import (
    Change,
    identified,
    key_hash,
    message_hash,
    sighting_hash,
)
from onceflow.model.errors import InputError
from onceflow.model.key import Key
from onceflow.model.limits import EXTRA_LIMIT, KEY_LIMIT, XCOM_LIMIT, check_extra, check_key, check_xcom
from onceflow.model.message import MessageId

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


MESSAGE = MessageId("kafka://prod/orders/3", 42)
BY_ID = Key(("id",))
BY_CODE = Key(function="orders.by_id", file="orders.py")


def told(key: str | None = None, extra: str = '{"id": 7}', **more: Any) -> Change:
    return Change("orders", extra, key, SIGHTING, **more)


@pytest.mark.parametrize(
    ("change", "declared", "expected"),
    [
        (told("own", message=MESSAGE, fallback="request"), (BY_ID,), key_hash("own")),
        (told("own"), (BY_CODE,), key_hash("own")),
        (told(message=MESSAGE, fallback="request"), (None, BY_ID), key_hash("7")),
        (told(extra='{"id": 7, "sha": "x"}'), (Key(("sha",)), BY_CODE), key_hash("x")),
        (told(message=MESSAGE, fallback="request"), (None, None), message_hash(MESSAGE)),
        (told(fallback="request"), (), key_hash("request")),
        (told(), (), sighting_hash(SIGHTING)),
    ],
)
def test_the_first_rule_that_applies_identifies_a_change(change: Change, declared: Any, expected: uuid.UUID) -> None:
    """A key it carries, the watcher's, the asset's, the broker's id, the request's key, the sighting."""
    assert identified(change, *declared).hash == expected


def test_a_key_function_is_not_called_by_us() -> None:
    with pytest.raises(InputError, match=r"the function orders.by_id, which is code of orders.py") as refused:
        identified(told(fallback="request", message=MESSAGE), None, BY_CODE)
    assert "--key" in refused.value.remedy


@pytest.mark.parametrize(
    ("extra", "says"),
    [('{"no": 7}', "it has no"), ('{"id": ""}', "the key is empty"), (f'{{"id": "{"x" * 2000}"}}', "limit is 1024")],
)
def test_a_payload_that_gives_no_key_is_refused_with_its_place(extra: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as refused:
        identified(told(extra=extra), BY_ID)
    assert refused.value.where == "asset 'orders' with key=id"


def test_a_message_counts_in_its_source_and_epoch() -> None:
    """airflow #64205: the same offset again is the same change; of another partition or life of the topic it is not."""
    assert str(message_hash(MESSAGE)) == "3345324c-ec87-5605-a409-f9693cbabc5a"
    same = MessageId("kafka://prod/orders/3", "42")
    others = [MessageId("kafka://prod/orders/4", 42), MessageId(MESSAGE.source, 43), MessageId(MESSAGE.source, 42, 1)]
    assert message_hash(same) == message_hash(MESSAGE)
    assert message_hash(MESSAGE) not in {message_hash(m) for m in others} | {key_hash("42")}
    assert MessageId.of(others[2].as_dict()) == others[2]


@pytest.mark.parametrize("message", [MessageId("", 1), MessageId("s", ""), MessageId("s", True), MessageId("s", 1.5)])
def test_a_message_without_source_or_id_is_refused(message: MessageId) -> None:
    with pytest.raises(InputError, match="the message's"):
        message.check("event")
