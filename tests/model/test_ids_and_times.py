"""The names and times that people see."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.model.errors import InputError
from onceflow.model.ids import base32, run_id
from onceflow.model.states import RunType
from onceflow.model.times import as_utc, from_rfc3339, to_rfc3339

AT = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("n", "text"), [(0, "0"), (9, "9"), (18, "j"), (31, "z"), (32, "10"), (1023, "zz"), (2**63 - 1, "7zzzzzzzzzzzz")]
)
def test_base32(n: int, text: str) -> None:
    assert base32(n) == text


@given(st.integers(0, 2**63))
def test_base32_reads_back(n: int) -> None:
    text = base32(n)
    digits = {c: v for v, c in enumerate("0123456789abcdefghjkmnpqrstvwxyz")}
    value = 0
    for c in text:
        value = value * 32 + digits[c]
    assert value == n
    assert text == "0" or text[0] != "0"


def test_base32_has_no_negative_numbers() -> None:
    with pytest.raises(ValueError, match="-1"):
        base32(-1)


@pytest.mark.parametrize("run_type", list(RunType))
def test_run_id(run_type: RunType) -> None:
    assert run_id(run_type, AT, 63) == f"{run_type}__2026-01-31T09:30:00.000000Z_1z"


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_runs_of_one_instant_have_different_ids(one: int, other: int) -> None:
    same = run_id(RunType.MANUAL, AT, one) == run_id(RunType.MANUAL, AT, other)
    assert same == (one == other)


aware = st.datetimes(datetime(1000, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC) | st.timezones())


@given(aware)
def test_a_time_comes_back_to_the_microsecond(time: datetime) -> None:
    text = to_rfc3339(time)
    assert text.endswith("Z")
    assert len(text) == 27
    assert from_rfc3339(text) == time.astimezone(UTC)
    assert from_rfc3339(text).tzinfo is UTC


@given(aware, aware)
def test_text_sorts_as_time_does(one: datetime, other: datetime) -> None:
    one, other = one.astimezone(UTC), other.astimezone(UTC)
    assert (to_rfc3339(one) < to_rfc3339(other)) == (one < other)


def test_naive_is_utc() -> None:
    assert as_utc(datetime(2026, 1, 31, 9, 30)) == AT
    assert to_rfc3339(datetime(2026, 1, 31, 9, 30)) == to_rfc3339(AT)
    assert from_rfc3339("2026-01-31 09:30") == AT


def test_offsets_are_understood() -> None:
    assert from_rfc3339("2026-01-31T10:30:00+01:00") == AT
    assert as_utc(AT.astimezone(timezone(timedelta(hours=-5)))) == AT


@pytest.mark.parametrize("text", ["", "now", "2026-13-01", "31.1.2026", None, 7])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InputError, match="is not a time") as refused:
        from_rfc3339(text, "--since")
    assert refused.value.where == "--since"
    assert "2026-01-31T09:30:00Z" in refused.value.remedy
