"""`onceflow events`."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import click

from onceflow.cli.options import Moment
from onceflow.cli.output import Column, limit_option, output_option, show_newest, when
from onceflow.cli.session import connected, run
from onceflow.queries.events import EventFilter, stream_events
from onceflow.queries.rows import Row


@click.group()
def events() -> None:
    """Events: the recorded changes of assets, and what became of them."""


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
)


@events.command("list")
@click.option("--asset", help="Only this asset, by name or URI.")
@click.option("--key", help="Only this key.")
@click.option("--source", metavar="KIND", help="Only events that came in this way: task, watcher, cli, api.")
@click.option("--source-dag", metavar="DAG_ID", help="Only events of this DAG's tasks.")
@click.option("--dag", metavar="DAG_ID", help="Only events delivered to this DAG.")
@click.option(
    "--disposition",
    type=click.Choice(
        ["open", "pending", "held", "started", "joined", "filtered", "superseded", "discarded"],
    ),
    help="Only events with such a delivery (open: pending or held).",
)
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
        since=since,
        until=until,
    )

    async def work() -> None:
        async with connected() as database:
            await show_newest(
                lambda newest, count: stream_events(database, chosen, newest=newest, limit=count),
                COLUMNS,
                output,
                limit,
                "no events",
            )

    run(work())
