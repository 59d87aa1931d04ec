"""Retries with back-off, a branch, a short circuit, a time limit, trigger rules, setup and teardown."""

from __future__ import annotations

from datetime import timedelta

from onceflow import DAG, EmptyOperator, FailTask, SkipTask, setup, task, teardown


@setup
def reserve() -> str:
    """Get something that must be given back."""
    return "room 5"


@teardown
def release(what: str) -> None:
    """Give it back, whatever happened in between."""
    print(f"released {what}")


@task(retries=3, retry_delay=timedelta(seconds=1), retry_exponential_backoff=True, execution_timeout=30)
def flaky(ti=None) -> int:
    """Fails at the first try."""
    if ti.try_number == 1:
        raise ConnectionError("the other side is not there yet")
    return ti.try_number


@task.branch
def choose(tries: int) -> str:
    """Go on with one of two."""
    return "many" if tries > 2 else "few"


@task
def few(params=None) -> None:
    """Does its work, unless the run's parameters say otherwise."""
    if params["skip"]:
        raise SkipTask("asked to")
    if params["fail"]:
        raise FailTask("asked to; no retry would help")


with DAG("decisions", schedule=None, params={"skip": False, "fail": False}, tags=["example"]):
    room = reserve()
    chosen = choose(flaky())
    join = EmptyOperator(task_id="join", trigger_rule="none_failed_min_one_success")
    room >> chosen >> [few(), EmptyOperator(task_id="many")] >> join >> release(room).as_teardown(setups=room)
