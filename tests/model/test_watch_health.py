"""The health of a watcher, in a word: what does not work is red, and only what is seen to work is healthy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from onceflow.model.watch_health import LATE_SECONDS, UNOWNED_SECONDS, Seen, judge

WELL = Seen(
    active=True, held=True, waiting=False, strikes=0, observed=True, quiet=1.0, unowned_for=0.0, silent_after=60.0
)


@pytest.mark.parametrize(
    ("seen", "state", "health"),
    [
        (WELL, "watching", "healthy"),
        (replace(WELL, observed=False), "starting", "starting"),
        (replace(WELL, observed=False, silent_after=None), "watching", "unproven"),
        (replace(WELL, silent_after=None, quiet=1e6), "watching", "healthy"),
        (replace(WELL, quiet=61.0), "silent", "red"),
        (replace(WELL, quiet=61.0, observed=False), "silent", "red"),
        (replace(WELL, strikes=2), "failing", "red"),
        (replace(WELL, strikes=2, waiting=True, held=False), "backing off", "red"),
        (replace(WELL, waiting=True, held=False), "starting", "starting"),
        (replace(WELL, held=False), "starting", "starting"),
        (replace(WELL, held=False, unowned_for=UNOWNED_SECONDS + 1), "unowned", "red"),
        (replace(WELL, canary_waits=LATE_SECONDS + 1), "late", "red"),
        (replace(WELL, canary_waits=1.0), "watching", "healthy"),
        (replace(WELL, storm={"events": 7, "limit": 5}, held=False), "storm", "red"),
        (replace(WELL, active=False, held=False), "removed", "removed"),
    ],
)
def test_states(seen: Seen, state: str, health: str) -> None:
    """airflow #64617, #32091, kestra#17988."""
    found = judge(seen)
    assert (found.state, found.health) == (state, health)
    assert bool(found.reason) == (health != "healthy")


SEEN = some.builds(
    Seen,
    active=some.booleans(),
    held=some.booleans(),
    waiting=some.booleans(),
    strikes=some.integers(0, 3),
    observed=some.booleans(),
    quiet=some.floats(0, 200),
    unowned_for=some.floats(0, 200),
    silent_after=some.none() | some.floats(1, 100),
    canary_waits=some.none() | some.floats(0, 100),
)


@given(SEEN)
def test_only_what_is_run_and_seen_to_look_is_healthy(seen: Seen) -> None:
    if judge(seen).health == "healthy":
        assert seen.active and seen.held and not seen.strikes and seen.observed
        assert seen.silent_after is None or seen.quiet <= seen.silent_after
