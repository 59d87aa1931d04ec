"""`onceflow events`."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from typing import Any

import click

from onceflow.cli.options import JsonValue, Moment, reason_option
from onceflow.cli.output import Column, limit_option, output_option, print_json, printable, show_newest, table, when
from onceflow.cli.replay import discard_command, release_command, replay_command
from onceflow.cli.session import check_named, connected, run, wake, who
from onceflow.model.states import Disposition
from onceflow.queries.events import EventFilter, show_event, stream_events
from onceflow.queries.explain import seconds_text, source_text
from onceflow.queries.rows import Row
from onceflow.store.quarantine import Released, release


@click.group()
def events() -> None:
    """Events: the recorded changes of assets, and what became of them."""


for command in (replay_command, discard_command, release_command):
    events.add_command(command)


def _deliveries(row: Row) -> str:
    counts = Counter(d["disposition"] for d in row["deliveries"])
    return ", ".join(f"{n} {disposition}" for disposition, n in counts.items()) or "no consumer"


COLUMNS = (
    Column("ID", "id"),
    Column("ASSET", "asset"),
    Column("SEQ", "seq"),
    Column("KEY", "key"),
    Column("WITNESSES", "witnesses"),
    Column("CREATED (UTC)", when("created_at")),
    Column("SOURCE", lambda row: row["source"].get("kind", "")),
    Column("DELIVERIES", _deliveries),
    Column("FLAW", lambda row: row["flaw"] if row["quarantined"] else ""),
)


@events.command("list")
@click.option("--asset", help="Only this asset, by name or URI.")
@click.option("--key", help="Only this key.")
@click.option("--source", metavar="KIND", help="Only events that came in this way: task, watcher, cli, api.")
@click.option("--source-dag", metavar="DAG_ID", help="Only events of this DAG's tasks.")
@click.option("--dag", metavar="DAG_ID", help="Only events delivered to this DAG.")
@click.option(
    "--disposition",
    type=click.Choice(["open", *(d.value for d in Disposition)]),
    help="Only events with such a delivery (open: pending or held).",
)
@click.option(
    "--quarantined", is_flag=True, help="Only events in quarantine: their payload breaks a schema, or gives no key."
)
@click.option("--held", "disposition", flag_value="held", help="The same as --disposition held.")
@click.option("--since", type=Moment(), help="Created at this time or later.")
@click.option("--until", type=Moment(), help="Created at this time or earlier.")
@limit_option
@output_option
def list_command(
    *,
    asset: str | None,
    key: str | None,
    source: str | None,
    source_dag: str | None,
    dag: str | None,
    disposition: str | None,
    quarantined: bool,
    since: datetime | None,
    until: datetime | None,
    limit: int | None,
    output: str,
) -> None:
    """List events in the order of their commit, with their witnesses and deliveries."""
    chosen = EventFilter(
        asset=asset,
        key=key,
        source=source,
        source_dag=source_dag,
        consumer=dag,
        disposition=disposition,
        quarantined=quarantined or None,
        since=since,
        until=until,
    )

    async def work() -> None:
        async with connected(patient=True) as database:
            await check_named(database, dags=[dag, source_dag], asset=asset)
            await show_newest(
                lambda newest, count: stream_events(database, chosen, newest=newest, limit=count),
                COLUMNS,
                output,
                limit,
                "no events",
            )

    run(work())


@events.command()
@click.argument("event_id", type=int)
@click.option("--extra", type=JsonValue(), help="The payload that it should have had, as JSON.")
@click.option("--as-is", is_flag=True, help="Let it go on with the payload that it has.")
@click.option("--key", help="The key that it should have, where the payload does not give it.")
@reason_option
@output_option
def fix(event_id: int, extra: Any, as_is: bool, key: str | None, reason: str | None, output: str) -> None:
    """Let a quarantined event go on. It keeps its identity and its place; one without a key gets it."""
    if (extra is None) != as_is:
        raise click.UsageError("give either --extra or --as-is")

    async def work() -> Released:
        async with connected() as database:
            done = await release(database, event_id, extra=extra, as_it_is=as_is, key=key, by=who(), reason=reason)
            await wake(database, "delivery")
            return done

    done = run(work())
    if output == "json":
        print_json({"event_id": event_id, "key": done.key, "same_as": done.same_as})
    else:
        click.echo(_fate(event_id, done))


@events.command("recheck")
@click.argument("asset")
@reason_option
@output_option
def recheck_command(asset: str, reason: str | None, output: str) -> None:
    """Judge the quarantined events of ASSET by the key and schema that are declared now; what is right goes on."""
    from onceflow.store.quarantine import Rechecked, recheck

    async def work() -> Rechecked:
        async with connected() as database:
            done = await recheck(database, asset, by=who(), reason=reason)
            await wake(database, "delivery")
            return done

    done = run(work())
    if output == "json":
        goes_on = [{"event_id": e, "key": r.key, "same_as": r.same_as} for e, r in done.released.items()]
        print_json(
            {"asset": asset, "released": goes_on, "left": [{"event_id": e, "flaw": f} for e, f in done.left.items()]}
        )
        return
    for event, released in done.released.items():
        click.echo(_fate(event, released))
    for event, flaw in done.left.items():
        click.echo(f"event {event} stays: {printable(flaw)}")
    if not (done.released or done.left):
        click.echo(f"nothing of {asset} is in quarantine")


def _fate(event: int, done: Released) -> str:
    if done.same_as is None:
        return f"event {event} goes on"
    return f"event {event} is the same change as event {done.same_as} (key {done.key}), and starts nothing"


SIGHTING_COLUMNS = (
    Column("SEEN (UTC)", when("seen_at")),
    Column("BEHIND THE FIRST", lambda row: seconds_text(row["behind_seconds"]) if row["behind_seconds"] else ""),
    Column("BY", lambda row: source_text(row["source"])),
    Column("OTHER PAYLOAD", "differs"),
)
DELIVERY_COLUMNS = (
    Column("DAG", "dag_id"),
    Column("DISPOSITION", "disposition"),
    Column("RUN", "run_id"),
    Column("REASON", "reason"),
)


@events.command("show")
@click.argument("event_id", type=int)
@output_option
def show_command(event_id: int, output: str) -> None:
    """Show an event: who saw it and when, what became of it."""

    async def work() -> Row:
        async with connected() as database:
            return await show_event(database, event_id)

    shown = run(work())
    if output == "json":
        print_json(shown)
        return
    table([shown], COLUMNS)
    click.echo(f"payload: {printable(json.dumps(shown['extra'], ensure_ascii=False))}\n")
    table(shown["sightings"], SIGHTING_COLUMNS)
    click.echo("")
    table(shown["deliveries"], DELIVERY_COLUMNS, "no DAG was subscribed to the asset when it was stored")
