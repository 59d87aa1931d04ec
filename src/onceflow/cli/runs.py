"""`onceflow runs`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from onceflow.cli.options import Moment, downstream_option, reason_option
from onceflow.cli.output import Column, limit_option, output_option, print_json, show_newest, table, tell_paused, when
from onceflow.cli.session import check_named, connected, run, wake, who
from onceflow.queries.rows import collect
from onceflow.queries.runs import RunFilter, not_rerun, show_run, stream_runs
from onceflow.queries.tasks import list_attempts, stream_tasks

if TYPE_CHECKING:
    from onceflow.model.replay import Downstream


@click.group()
def runs() -> None:
    """Runs of DAGs."""


RUN_TYPES = ["asset_triggered", "scheduled", "manual", "rerun", "replay"]


def _error(error: dict[str, str]) -> str:
    return ": ".join(part for part in (error.get("type", ""), error.get("message", "")) if part)


COLUMNS = (
    Column("DAG", "dag_id"),
    Column("RUN", "run_id"),
    Column("STATE", "state"),
    Column("CREATED (UTC)", when("created_at")),
    Column("STARTED", when("started_at")),
    Column("FINISHED", when("finished_at")),
    Column("EVENTS", lambda row: len(row["events"]) if row["events"] or row["run_type"] == "asset_triggered" else ""),
)
TASK_COLUMNS = (
    Column("TASK", lambda row: row["task_id"] + (f"[{row['map_index']}]" if row["map_index"] >= 0 else "")),
    Column("STATE", "state"),
    Column("ATTEMPT", "attempt"),
    Column("OUTCOME", "outcome"),
    Column("STARTED (UTC)", when("started_at")),
    Column("FINISHED", when("finished_at")),
    Column("ERROR", lambda row: _error(row["error"] or {})),
)
ATTEMPT_COLUMNS = (
    TASK_COLUMNS[0],
    Column("ATTEMPT", "number"),
    *TASK_COLUMNS[3:],
)


@runs.command("list")
@click.argument("dag_id", required=False)
@click.option("--state", type=click.Choice(["queued", "running", "success", "failed"]), help="Only this state.")
@click.option("--type", "run_type", type=click.Choice(RUN_TYPES), help="Only this type.")
@click.option("--since", type=Moment(), help="Created at this time or later.")
@click.option("--until", type=Moment(), help="Created at this time or earlier.")
@limit_option
@output_option
def list_command(
    *,
    dag_id: str | None,
    state: str | None,
    run_type: str | None,
    since: datetime | None,
    until: datetime | None,
    limit: int | None,
    output: str,
) -> None:
    """List runs, of all DAGs or of one, in the order of their creation, with the events they consumed."""
    chosen = RunFilter(dag_id=dag_id, state=state, run_type=run_type, since=since, until=until)

    async def work() -> None:
        async with connected(patient=True) as database:
            await check_named(database, dags=[dag_id])
            await show_newest(
                lambda newest, count: stream_runs(database, chosen, newest=newest, limit=count),
                COLUMNS,
                output,
                limit,
                "no runs",
            )

    run(work())


@runs.command("show")
@click.argument("dag_id")
@click.argument("run_id")
@output_option
def show_command(dag_id: str, run_id: str, output: str) -> None:
    """Show a run with its tasks and every attempt."""

    async def work() -> None:
        async with connected() as database:
            shown = await show_run(database, dag_id, run_id)
            tasks = await collect(stream_tasks(database, dag_id, run_id))
            attempts = await list_attempts(database, dag_id, run_id)
        if output == "json":
            print_json(shown | {"tasks": tasks, "attempts": attempts})
            return
        table([shown], COLUMNS)
        if shown["end_reason"]:
            click.echo(f"ended because: {shown['end_reason']}")
        if shown["conf"]:
            click.echo(f"conf: {shown['conf']}")
        if shown["of_run"]:
            click.echo(f"again: {shown['of_run']}")
        if shown["reason"]:
            click.echo(f"reason: {shown['reason']}")
        if shown["downstream"] != "emit":
            click.echo(f"events that it makes: {shown['downstream']}")
        click.echo("")
        table(tasks, TASK_COLUMNS, "no tasks yet: they are made when the run starts")
        last = {(t["task_id"], t["map_index"], t["attempt"]) for t in tasks}
        earlier = [a for a in attempts if (a["task_id"], a["map_index"], a["number"]) not in last]
        if earlier:
            click.echo("\nearlier attempts")
            table(earlier, ATTEMPT_COLUMNS)

    run(work())


@runs.command("rerun")
@click.argument("dag_id")
@click.argument("run_id")
@downstream_option
@reason_option
@output_option
def rerun_command(dag_id: str, run_id: str, downstream: Downstream, reason: str | None, output: str) -> None:
    """Run a run again: with exactly its events, its configuration and logical date, and the DAG's present code."""
    from onceflow.store.lanes import rerun

    async def work() -> None:
        async with connected() as database:
            made = await rerun(database, dag_id, run_id, by=who(), reason=reason, downstream=downstream)
            if made is None:
                raise await not_rerun(database, dag_id, run_id)
            await wake(database, "run", "dag")
            shown = await show_run(database, dag_id, made.run_id)
        if output == "json":
            print_json(shown)
            return
        click.echo(made.run_id)
        if made.paused:
            tell_paused(dag_id)

    run(work())
