"""Cron in a time zone, a task group, a shell command."""

from __future__ import annotations

from datetime import timedelta

from onceflow import DAG, BashOperator, CronTriggerTimetable, EmptyOperator, TaskGroup, task


@task
def check(part: str) -> str:
    """Look at one part."""
    print(f"{part} is fine")
    return part


@task(trigger_rule="all_done")
def summary(ti=None, logical_date=None) -> None:
    """Runs whatever became of the checks."""
    print(f"slot {logical_date}, try {ti.try_number}")


with DAG(
    "nightly",
    schedule=CronTriggerTimetable("30 2 * * *", timezone="Europe/Berlin"),
    dagrun_timeout=timedelta(hours=1),
    tags=["example"],
):
    start = EmptyOperator(task_id="start")
    with TaskGroup("checks") as checks:
        check("disk") >> check("network")
        BashOperator(task_id="uptime", bash_command="uptime || true")
    start >> checks >> summary()
