"""`onceflow tasks`."""

from __future__ import annotations

import sys

import click

from onceflow.cli.output import TABLE_LIMIT, Column, limit_option, output_option, show
from onceflow.cli.runs import TASK_COLUMNS
from onceflow.cli.session import connected, run, settings
from onceflow.queries.tasks import list_attempts, stream_tasks

STATES = (
    *("waiting", "ready", "queued", "running", "up_for_retry"),
    *("success", "failed", "skipped", "upstream_failed", "removed"),
)


@click.group()
def tasks() -> None:
    """Tasks of runs, and their attempts' logs."""


@tasks.command("list")
@click.argument("dag_id", required=False)
@click.argument("run_id", required=False)
@click.option("--state", type=click.Choice(STATES), help="Only this state.")
@limit_option
@output_option
def list_command(dag_id: str | None, run_id: str | None, state: str | None, limit: int | None, output: str) -> None:
    """List tasks: of a run, of a DAG, or all."""
    columns = (Column("DAG", "dag_id"), Column("RUN", "run_id"), *TASK_COLUMNS)
    count = limit or (TABLE_LIMIT if output == "table" else None)

    async def work() -> None:
        async with connected(patient=True) as database:
            await show(stream_tasks(database, dag_id, run_id, state, count), columns, output, "no tasks")

    run(work())


@tasks.command("logs")
@click.argument("dag_id")
@click.argument("run_id")
@click.argument("task_id")
@click.option("--attempt", type=click.IntRange(min=1), help="Which attempt; the last if not given.")
@click.option("--map-index", type=int, default=-1, help="Which of a mapped task's instances.")
def logs_command(dag_id: str, run_id: str, task_id: str, attempt: int | None, map_index: int) -> None:
    """Show what an attempt wrote."""
    from onceflow.queries.logs import LocalLogs, choose_attempt

    async def work() -> None:
        async with connected() as database:
            attempts = await list_attempts(database, dag_id, run_id, task_id)
            chosen = await choose_attempt(database, attempts, (dag_id, run_id, task_id), map_index, attempt)
        for block in LocalLogs(settings().home).read(chosen["run_key"], chosen["task_key"], chosen["number"]):
            sys.stdout.buffer.write(block)

    run(work())
