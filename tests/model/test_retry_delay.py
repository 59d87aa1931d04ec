"""Whether and when a failed task is tried again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.model.dagspec import TaskSpec
from onceflow.model.retry import LONGEST, delay, may_retry


@pytest.mark.parametrize(
    ("retries", "failures", "expected"),
    [(0, 1, False), (1, 1, True), (1, 2, False), (3, 3, True), (3, 4, False)],
)
def test_as_many_retries_as_asked_for(retries: int, failures: int, expected: bool) -> None:
    assert may_retry(TaskSpec("t", retries=retries), failures) is expected


def test_without_back_off_the_delay_stays() -> None:
    for factor in (0.0, 1.0):
        task = TaskSpec("t", retry_delay=200_000.0, retry_exponential_backoff=factor, max_retry_delay=5.0)
        assert [delay(task, n) for n in (1, 2, 9)] == [200_000.0] * 3


def test_with_back_off_it_grows_to_its_limit() -> None:
    task = TaskSpec("t", retry_delay=10.0, retry_exponential_backoff=2.0, max_retry_delay=60.0)
    assert [delay(task, n) for n in (1, 2, 3, 4, 5)] == [10.0, 20.0, 40.0, 60.0, 60.0]


def test_without_a_limit_it_ends_at_a_day() -> None:
    task = TaskSpec("t", retry_delay=10.0, retry_exponential_backoff=3.0)
    assert delay(task, 1_000_000) == LONGEST


@given(st.floats(0, 1e6), st.floats(0, 100), st.none() | st.floats(0, 1e6), st.integers(1, 10_000))
def test_a_delay_is_always_a_sane_number(first: float, factor: float, limit: float | None, failures: int) -> None:
    task = TaskSpec("t", retry_delay=first, retry_exponential_backoff=factor, max_retry_delay=limit)
    assert 0 <= delay(task, failures) <= max(first, LONGEST)
    if factor >= 1 and limit is None:
        assert delay(task, failures) <= max(first, delay(task, failures + 1))
