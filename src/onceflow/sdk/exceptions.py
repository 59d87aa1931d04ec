"""What task code raises to say how it ended, and what it may catch.

    TaskError               base; any other exception fails the attempt just the same
    ├── SkipTask            the task is skipped
    └── FailTask            the task fails now, whatever retries are left
    TaskTimeout             raised inside the task when it ran longer than execution_timeout

Airflow's names (`AirflowException`, `AirflowSkipException`, …) are the same classes.
"""

from __future__ import annotations


class TaskError(Exception):
    """A failure that task code reports."""


class SkipTask(TaskError):
    """Ends the attempt as skipped."""


class FailTask(TaskError):
    """Fails the task without using the retries that are left."""


class TaskTimeout(BaseException):
    """The task ran longer than its `execution_timeout`. `except Exception` does not swallow it."""


AirflowException = TaskError
AirflowSkipException = SkipTask
AirflowFailException = FailTask
AirflowTaskTimeout = TaskTimeout
