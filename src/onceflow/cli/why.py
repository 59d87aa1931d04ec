"""`onceflow why`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from typing import Any

import click

from onceflow.cli.options import Moment
from onceflow.cli.output import output_option, print_json, printable
from onceflow.cli.session import connected, run
from onceflow.queries.explain import history_text, sighting_text
from onceflow.queries.why import why_event, why_run
from onceflow.queries.why_not import why_not as why_not_run
from onceflow.store.database import Database

HISTORY, WITNESSES = 20, 10


@click.group()
def why() -> None:
    """Explain, from what was stored when it was decided."""


@why.command("run")
@click.argument("dag_id")
@click.argument("run_id")
@output_option
def run_command(dag_id: str, run_id: str, output: str) -> None:
    """Explain why a run was made, and by which events."""

    def details(told: dict[str, Any]) -> Iterator[str]:
        for event in told["events"]:
            key = f", key {event['key']}" if event["key"] else ""
            seen = f", {event['witnesses']} witnesses" if event["witnesses"] > 1 else ""
            yield f"event {event['id']} {event['disposition']}: {event['asset']}{key}{seen}, from {event['because']}"

    _explain(
        lambda database: why_run(database, dag_id, run_id),
        lambda told: f"run {run_id} of DAG {dag_id}: {told['run']['state']}",
        details,
        output,
    )


@why.command("event")
@click.argument("event_id", type=int)
@output_option
def event_command(event_id: int, output: str) -> None:
    """Explain what became of an event: per consumer a run, or what it waits for."""

    def details(told: dict[str, Any]) -> Iterator[str]:
        yield from (f"seen again {sighting_text(witness)}" for witness in told["witnesses"][:WITNESSES])
        yield from (f"DAG {delivery['dag_id']}: {delivery['because']}" for delivery in told["deliveries"])
        yield from (f"DAG {other['dag_id']} {other['because']}" for other in told["not_subscribed"])
        yield from (f"DAG {beside['dag_id']}, beside: {beside['because']}" for beside in told["runs_beside"])

    _explain(
        lambda database: why_event(database, event_id),
        lambda told: f"event {event_id} of asset {told['event']['asset']}",
        details,
        output,
    )


@click.command("why-not")
@click.argument("dag_id")
@click.option("--since", type=Moment(), help="Since when (default: since the DAG's last run was made).")
@output_option
def why_not(dag_id: str, since: datetime | None, output: str) -> None:
    """Explain why a DAG has had no run, or no more, from what was stored when it was decided."""

    _explain(
        lambda database: why_not_run(database, dag_id, since),
        lambda told: f"DAG {dag_id}, {told['dag']['schedule_text']}, since {told['since']}",
        lambda told: (f"{entry['at']}: {history_text(entry)}" for entry in told["history"][:HISTORY]),
        output,
    )


def _explain(
    ask: Callable[[Database], Awaitable[dict[str, Any]]],
    heading: Callable[[dict[str, Any]], str],
    details: Callable[[dict[str, Any]], Iterator[str]],
    output: str,
) -> None:
    """Write an answer as JSON, or as lines: what was asked for, the reasons, and under them the details."""

    async def work() -> dict[str, Any]:
        async with connected() as database:
            return await ask(database)

    told = run(work())
    if output == "json":
        print_json(told)
        return
    click.echo(printable(heading(told)))
    for sentence in [*told["because"], *details(told)]:
        click.echo(f"  {printable(sentence)}")
