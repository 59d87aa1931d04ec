"""The 13 trigger rules: what a waiting task becomes, given how many of its direct upstream tasks ended how.

    READY             it may run now
    SKIPPED           it will not run, and nothing is wrong
    UPSTREAM_FAILED   it will not run because something before it went wrong
    None              not decided yet: it depends on tasks that have not ended

Names and meanings are Airflow's (its `TriggerRuleDep`, 3.x), early decisions included: an `all_success` task gives up
at the first failure and does not wait for the rest. One thing differs: where Airflow would leave a task undecided for
ever (an upstream task was removed), every rule here decides once all upstream tasks have ended, so no run gets stuck.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from onceflow.model.states import TaskState, TriggerRule

READY = TaskState.READY
SKIPPED = TaskState.SKIPPED
UPSTREAM_FAILED = TaskState.UPSTREAM_FAILED
SUCCESS = TaskState.SUCCESS
FAILED = TaskState.FAILED

Decision = TaskState | None


class Tally(NamedTuple):
    """How many upstream tasks there are and how those that ended did; of the setup tasks among them separately."""

    total: int
    ended: int
    success: int
    failed: int  # upstream_failed included
    upstream_failed: int
    skipped: int
    setups: int
    setups_success: int
    setups_skipped: int

    @property
    def done(self) -> bool:
        return self.ended == self.total


def tally(total: int, ended: list[TaskState], setups: Sequence[TaskState] = ()) -> Tally:
    """Count the states of those of `total` tasks that have ended; `setups` are those of all setup tasks among them."""
    upstream_failed = ended.count(UPSTREAM_FAILED)
    return Tally(
        total,
        len(ended),
        ended.count(SUCCESS),
        ended.count(FAILED) + upstream_failed,
        upstream_failed,
        ended.count(SKIPPED),
        len(setups),
        setups.count(SUCCESS),
        setups.count(SKIPPED),
    )


def all_success(t: Tally) -> Decision:
    if t.failed:
        return UPSTREAM_FAILED
    if t.skipped:
        return SKIPPED
    if t.success == t.total:
        return READY
    return UPSTREAM_FAILED if t.done else None


def all_failed(t: Tally) -> Decision:
    if t.success or t.skipped:
        return SKIPPED
    if t.failed == t.total:
        return READY
    return SKIPPED if t.done else None


def all_done(t: Tally) -> Decision:
    return READY if t.done else None


def all_done_min_one_success(t: Tally) -> Decision:
    """A skipped upstream task does not count as done, so one is enough to skip this one."""
    if t.skipped:
        return SKIPPED
    if not t.done:
        return None
    return READY if t.success else UPSTREAM_FAILED


def all_done_setup_success(t: Tally) -> Decision:
    """The rule of teardowns: they run after everything, unless what they would tear down was never set up."""
    if not t.done:
        return None
    if t.setups and t.setups_skipped == t.setups:
        return SKIPPED
    if t.setups and not t.setups_success:
        return UPSTREAM_FAILED
    return READY


def one_success(t: Tally) -> Decision:
    if t.success:
        return READY
    if not t.done:
        return None
    return SKIPPED if t.skipped == t.total else UPSTREAM_FAILED


def one_failed(t: Tally) -> Decision:
    if t.failed:
        return READY
    return SKIPPED if t.done else None


def one_done(t: Tally) -> Decision:
    """Only a task that ran counts: one that failed or succeeded, not one whose own upstream failed."""
    if t.success or t.failed > t.upstream_failed:
        return READY
    return SKIPPED if t.done else None


def none_failed(t: Tally) -> Decision:
    if t.failed:
        return UPSTREAM_FAILED
    if t.success + t.skipped == t.total:
        return READY
    return UPSTREAM_FAILED if t.done else None


def none_failed_min_one_success(t: Tally) -> Decision:
    if t.skipped == t.total:
        return SKIPPED
    return none_failed(t)


def none_skipped(t: Tally) -> Decision:
    if t.skipped:
        return SKIPPED
    return READY if t.done else None


def all_skipped(t: Tally) -> Decision:
    if t.success or t.failed:
        return SKIPPED
    if t.skipped == t.total:
        return READY
    return SKIPPED if t.done else None


def always(t: Tally) -> Decision:
    return READY


RULES: Mapping[TriggerRule, Callable[[Tally], Decision]] = {
    TriggerRule.ALL_SUCCESS: all_success,
    TriggerRule.ALL_FAILED: all_failed,
    TriggerRule.ALL_DONE: all_done,
    TriggerRule.ALL_DONE_MIN_ONE_SUCCESS: all_done_min_one_success,
    TriggerRule.ALL_DONE_SETUP_SUCCESS: all_done_setup_success,
    TriggerRule.ONE_SUCCESS: one_success,
    TriggerRule.ONE_FAILED: one_failed,
    TriggerRule.ONE_DONE: one_done,
    TriggerRule.NONE_FAILED: none_failed,
    TriggerRule.NONE_SKIPPED: none_skipped,
    TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS: none_failed_min_one_success,
    TriggerRule.ALL_SKIPPED: all_skipped,
    TriggerRule.ALWAYS: always,
}


def setup_gate(t: Tally) -> Decision:
    """Setup tasks further up must all have succeeded: READY lets the task's own rule decide, None waits."""
    return all_success(t)
