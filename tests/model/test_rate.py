"""What a watcher may tell in a minute."""

from __future__ import annotations

from onceflow.model.storm import Rate


def test_a_minute_begins_with_what_comes_first() -> None:
    rate = Rate(3)
    assert [rate.allows(1, at) for at in (100, 101, 102, 103, 159.9)] == [True, True, True, False, False]
    assert rate.count == 3
    assert rate.allows(1, 160) and rate.count == 1


def test_what_comes_at_once_comes_whole() -> None:
    rate = Rate(3)
    assert rate.allows(2, 0) and rate.allows(500, 1) and not rate.allows(1, 2)
    assert rate.allows(0, 3), "a mere cursor is no event"


def test_without_a_limit_anything_goes() -> None:
    rate = Rate(0)
    assert all(rate.allows(1000, 0) for _ in range(50))
