"""The states of everything that has a life, in one place. The database's enums carry the same words.

    run      queued ──► running ──► success | failed

    task     waiting ──► ready ──► queued ──► running ──► success | failed | skipped
                │          ▲         ▲           │
                │          │         └── lost ───┤   (its worker vanished; at most LOST_LIMIT times)
                │          └──── up_for_retry ◄──┘   (its code failed; at most `retries` times)
                └──► upstream_failed | skipped | removed    (decided by its trigger rule)

    delivery pending ◄──► held        ──► started | joined | filtered | superseded | discarded      (set once)

`ready` is a task whose rule is met and that waits for a free place under `max_active_tasks`; `queued` is offered to the
executor. An attempt has an outcome of its own (`Outcome`), which says what ended it.
"""

from __future__ import annotations

from enum import StrEnum

LOST_LIMIT = 3


class RunState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"

    @property
    def finished(self) -> bool:
        return self in (RunState.SUCCESS, RunState.FAILED)


class RunType(StrEnum):
    ASSET_TRIGGERED = "asset_triggered"
    SCHEDULED = "scheduled"
    MANUAL = "manual"
    RERUN = "rerun"
    REPLAY = "replay"


class TaskState(StrEnum):
    WAITING = "waiting"
    READY = "ready"
    QUEUED = "queued"
    RUNNING = "running"
    UP_FOR_RETRY = "up_for_retry"
    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"
    UPSTREAM_FAILED = "upstream_failed"
    REMOVED = "removed"

    @property
    def finished(self) -> bool:
        return self in FINISHED

    @property
    def active(self) -> bool:
        """Counts against `max_active_tasks`."""
        return self in (TaskState.QUEUED, TaskState.RUNNING)


FINISHED = frozenset(
    {
        TaskState.SUCCESS,
        TaskState.FAILED,
        TaskState.SKIPPED,
        TaskState.UPSTREAM_FAILED,
        TaskState.REMOVED,
    }
)


class Outcome(StrEnum):
    """What ended an attempt."""

    SUCCESS = "success"
    FAILED = "failed"  # its code raised
    SKIPPED = "skipped"  # its code asked to be skipped
    TIMED_OUT = "timed_out"  # ran longer than execution_timeout
    KILLED = "killed"  # ended by a signal that was not ours
    CRASHED = "crashed"  # ended without a report: exit code instead of a result
    STOPPED = "stopped"  # ended by us: worker shut down, run timed out
    LOST = "lost"  # its worker vanished or was cut off


class Disposition(StrEnum):
    PENDING = "pending"
    HELD = "held"
    STARTED = "started"
    JOINED = "joined"
    FILTERED = "filtered"
    SUPERSEDED = "superseded"
    DISCARDED = "discarded"

    @property
    def open(self) -> bool:
        return self in (Disposition.PENDING, Disposition.HELD)


class TriggerRule(StrEnum):
    """When a task may start, judged on its direct upstream tasks; names and meanings are Airflow's."""

    ALL_SUCCESS = "all_success"
    ALL_FAILED = "all_failed"
    ALL_DONE = "all_done"
    ALL_DONE_MIN_ONE_SUCCESS = "all_done_min_one_success"
    ALL_DONE_SETUP_SUCCESS = "all_done_setup_success"
    ONE_SUCCESS = "one_success"
    ONE_FAILED = "one_failed"
    ONE_DONE = "one_done"
    NONE_FAILED = "none_failed"
    NONE_SKIPPED = "none_skipped"
    NONE_FAILED_MIN_ONE_SUCCESS = "none_failed_min_one_success"
    ALL_SKIPPED = "all_skipped"
    ALWAYS = "always"
