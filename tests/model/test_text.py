"""Texts that come from anywhere, made fit to be stored."""

from __future__ import annotations

from typing import Any

import pytest

from onceflow.model.text import MESSAGE_LIMIT, find_unstorable, message_of, shortened, storable


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


def test_what_cannot_be_stored_becomes_escapes() -> None:
    assert storable("a\0b\ud800\udfffc ä 💥") == "a\\x00b\\ud800\\udfffc ä 💥"


def test_long_texts_keep_beginning_and_end() -> None:
    assert shortened("abcdefghij", 10) == "abcdefghij"
    assert shortened("abcdefghijk", 4) == "ab … 7 characters left out … jk"


def test_messages_of_exceptions() -> None:
    assert message_of(ValueError("a\0")) == "a\\x00"
    assert message_of(Unspeakable()) == "(its message cannot be shown: __str__ raised SystemExit)"
    assert len(message_of(ValueError("x" * 10_000_000))) < 2 * MESSAGE_LIMIT


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, {"b": "\0"}]}, ".a[1].b"),
        ({"x\ud800": 1}, ""),
        (["", None, 1.5, "\udfff"], "[3]"),
        ("\0", ""),
        ({"a": ["ä", {"b": "💥"}]}, None),
    ],
)
def test_where_it_is(value: Any, path: str | None) -> None:
    assert find_unstorable(value) == path
