"""`onceflow dags`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from onceflow.cli.options import JsonValue, Moment, reason_option
from onceflow.cli.output import Column, output_option, print_json, print_json_list, show, table, tell_paused, when
from onceflow.cli.session import connected, run, wake, who
from onceflow.queries.dags import DagFilter, list_dags, no_such_dag, show_dag, stream_errors, stream_warnings
from onceflow.queries.rows import Row
from onceflow.store.database import Database

if TYPE_CHECKING:
    from onceflow.store.dags import OnResume
    from onceflow.store.storms import How


@click.group()
def dags() -> None:
    """DAGs: pipelines of tasks with a schedule."""


def _status(row: Row) -> str:
    if not row["active"]:
        return "removed"
    state = "paused" if row["paused"] else "active"
    state += ", storm" if row["storm_at"] else ""
    return f"{state}, file broken" if row["broken"] else state


COLUMNS = (
    Column("DAG", "dag_id"),
    Column("STATUS", _status),
    Column("SCHEDULE", "schedule_text"),
    Column("QUEUED", "queued"),
    Column("RUNNING", "running"),
    Column("WAITING EVENTS", "open_deliveries"),
    Column("HELD", "held"),
    Column("LAG (S)", "lag"),
    Column("LAST RUN (UTC)", when("last_run_at")),
    Column("LAST STATE", "last_run_state"),
    Column("FILE", "file"),
)


@dags.command("list")
@click.option("--like", metavar="TEXT", help="Only DAGs whose dag_id contains this.")
@click.option("--active/--removed", default=None, help="Only DAGs that have a file, or have none any more.")
@click.option("--paused/--unpaused", default=None, help="Only paused DAGs, or only others.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@click.option(
    "--check",
    "budget",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Exit with 1 if an event has waited longer than that for one of them.",
)
@output_option
def list_command(
    *, like: str | None, active: bool | None, paused: bool | None, limit: int | None, budget: float | None, output: str
) -> None:
    """List DAGs with what is going on in them. LAG: for how long the oldest open event has waited."""

    async def work() -> list[Row]:
        async with connected() as database:
            found = await list_dags(database, DagFilter(like=like, active=active, paused=paused), limit=limit)
        if output == "json":
            print_json_list(found.rows)
        else:
            table(found.rows, COLUMNS, "no DAGs; `onceflow dags errors` lists files that cannot be read")
        return [row for row in found.rows if budget is not None and (row["lag"] or 0) > budget]

    late = run(work())
    for row in late:
        message = f"{row['dag_id']}: an event has waited for {row['lag']:.0f} s; `onceflow why-not {row['dag_id']}`"
        click.echo(message, err=True)
    if late:
        raise SystemExit(1)


@dags.command("show")
@click.argument("dag_id")
@output_option
def show_command(dag_id: str, output: str) -> None:
    """Show a DAG: its tasks, what it consumes, its last judgement."""

    async def work() -> Row:
        async with connected() as database:
            return await show_dag(database, dag_id)

    shown = run(work())
    if output == "json":
        print_json(shown)
        return
    table([shown], COLUMNS)
    if shown["description"]:
        click.echo(f"\n{shown['description']}")
    if shown["failure"]:
        click.echo(f"\nfile broken, the last good version stays: {shown['failure'].get('message', '')}")
    if shown["storm_at"]:
        click.echo(f"\nin a storm since {shown['storm_at']}: {shown['held']} events are held; `onceflow dags release`")
        if shown["release_rate"]:
            click.echo(f"released slowly, {shown['release_rate']:g} a minute")
    for warning in shown["warnings"]:
        click.echo(f"warning: {warning}")
    click.echo("")
    table(
        shown["tasks"],
        (Column("TASK", "task_id"), Column("KIND", "operator"), Column("AFTER", "upstream")),
        "no tasks",
    )


@dags.command("trigger")
@click.argument("dag_id")
@click.option("--conf", type=JsonValue(object_only=True), help="The run's configuration, a JSON object.")
@click.option("--logical-date", type=Moment(), help="The run's logical date; none if not given.")
@output_option
def trigger_command(dag_id: str, conf: dict[str, Any] | None, logical_date: datetime | None, output: str) -> None:
    """Start a run by hand."""
    from onceflow.store.runs import create_manual

    async def work() -> None:
        async with connected() as database:
            made = await create_manual(database, dag_id, conf=conf, logical_date=logical_date, by=who())
            if made is None:
                raise await no_such_dag(database, dag_id)
            await wake(database, "run", "dag")
        if output == "json":
            print_json({"dag_id": dag_id, "run_id": made.run_id, "state": "queued", "paused": made.paused})
            return
        click.echo(made.run_id)
        if made.paused:
            tell_paused(dag_id)

    run(work())


def _switch(dag_id: str, change: Callable[[Database], Awaitable[Any]], output: str, *, joins: bool = False) -> None:
    async def work() -> None:
        async with connected() as database:
            changed = await change(database)
            if changed is None:
                raise await no_such_dag(database, dag_id)
            await wake(database, "delivery", "run", "dag")
        if output == "json":
            print_json(asdict(changed))
            return
        click.echo(f"{dag_id} is {'paused' if changed.paused else 'unpaused'}")
        if changed.while_paused == "discard":
            click.echo("events that come now are discarded, as the DAG says (while_paused)")
        if changed.released:
            joined = ", for one run of all of them as soon as the condition holds" if joins else ""
            click.echo(f"{changed.released} events are pending again{joined}")
        if changed.in_storm:
            click.echo(f"it is in a storm, which holds its events: `onceflow dags release {dag_id}` lets them go on")
        if changed.discarded:
            click.echo(f"{changed.discarded} events were discarded")
        if not changed.active:
            click.echo("note: no DAG file defines it any more", err=True)

    run(work())


@dags.command("pause")
@click.argument("dag_id")
@reason_option
@output_option
def pause_command(dag_id: str, reason: str | None, output: str) -> None:
    """Pause a DAG: queued runs do not start, and its events are held for it, or discarded if the DAG says so."""
    from onceflow.store.dags import pause

    _switch(dag_id, lambda database: pause(database, dag_id, by=who(), reason=reason), output)


@dags.command("unpause")
@click.argument("dag_id")
@click.option(
    "--pending",
    type=click.Choice(["each", "join", "discard"]),
    default="each",
    help="What becomes of the events that wait: judged as ever (each), one run of all (join), or discarded.",
)
@reason_option
@output_option
def unpause_command(dag_id: str, pending: OnResume, reason: str | None, output: str) -> None:
    """Let a paused DAG run again, with the events that were held for it."""
    from onceflow.store.dags import unpause

    _switch(
        dag_id,
        lambda database: unpause(database, dag_id, pending, by=who(), reason=reason),
        output,
        joins=pending == "join",
    )


@dags.command("release")
@click.argument("dag_id")
@click.option("--each", "how", flag_value="each", help="They are judged as ever.")
@click.option("--merged", "how", flag_value="join", help="All of them into one run.")
@click.option("--discard", "how", flag_value="discard", help="They start nothing.")
@click.option("--slowly", "rate", type=float, metavar="RATE", help="So many a minute, in their order.")
@reason_option
@output_option
def release_command(dag_id: str, how: How | None, rate: float | None, reason: str | None, output: str) -> None:
    """Let a DAG consume again after a storm, and say what becomes of the events held by it, or as a loop.

    With --slowly, what comes meanwhile is held and follows in its turn.
    """
    from onceflow.store.storms import release

    if (how is None) == (rate is None):
        raise click.UsageError("say how: one of --each, --merged, --slowly RATE, --discard")
    chosen: How = how or "slowly"

    async def work() -> Row:
        async with connected() as database:
            ended = await release(database, dag_id, chosen, rate=rate, by=who(), reason=reason)
            if ended is None:
                raise await no_such_dag(database, dag_id)
            await wake(database, "delivery", "release")
        return asdict(ended)

    row = run(work())
    if output == "json":
        print_json(row)
        return
    words = {"each": "pending again", "join": "pending again, for one run", "discard": "discarded"}
    done = f"released, {rate:g} a minute" if rate is not None else words[chosen]
    click.echo(f"{row['deliveries']} events are {done}")
    if row["paused"]:
        click.echo("note: the DAG is paused", err=True)


ERROR_COLUMNS = (
    Column("FILE", "path"),
    Column("WHERE", lambda row: row["failure"].get("where") or row["path"]),
    Column("ERROR", lambda row: row["failure"].get("message", "")),
    Column("REMEDY", lambda row: row["failure"].get("remedy", "")),
    Column("DAGS KEPT", "dags"),
)


@dags.command("errors")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@output_option
def errors_command(limit: int | None, output: str) -> None:
    """List DAG files that cannot be read, with the place and what to do. Exit code 0 in any case."""

    async def work() -> None:
        async with connected(patient=True) as database:
            await show(stream_errors(database, limit), ERROR_COLUMNS, output, "every DAG file could be read")

    run(work())


WARNING_COLUMNS = (Column("FILE", "path"), Column("WARNING", "warning"))


@dags.command("warnings")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@output_option
def warnings_command(limit: int | None, output: str) -> None:
    """List what DAG files declare that is no error and may surprise, such as a watcher that may tell a change twice."""

    async def work() -> None:
        async with connected(patient=True) as database:
            await show(stream_warnings(database, limit), WARNING_COLUMNS, output, "no DAG file has a warning")

    run(work())
