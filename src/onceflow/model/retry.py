"""Whether and when a failed task is tried again. Only its own failures count here, never a lost worker."""

from __future__ import annotations

from onceflow.model.dagspec import TaskSpec

LONGEST = 24 * 3600.0  # seconds; Airflow has the same bound on a computed back-off


def may_retry(task: TaskSpec, failures: int) -> bool:
    """True while the task's code has failed no more often than it has retries."""
    return failures <= task.retries


def delay(task: TaskSpec, failures: int) -> float:
    """Seconds to wait after the task's code failed for the `failures`-th time (1 = the first time).

    Without back-off (factor 0 or 1): `retry_delay`. With it: `retry_delay * factor ** (failures - 1)`, at most
    `max_retry_delay` and at most a day. That is Airflow's formula (`TaskInstance.next_retry_datetime`; True there means
    a factor of 2) without its jitter, which adds up to as much again.
    """
    factor = task.retry_exponential_backoff
    if factor <= 0 or factor == 1:
        return task.retry_delay
    longest = LONGEST if task.max_retry_delay is None else min(LONGEST, task.max_retry_delay)
    try:
        return min(task.retry_delay * factor ** max(0, failures - 1), longest)
    except OverflowError:
        return longest
