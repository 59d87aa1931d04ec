"""`onceflow why`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from onceflow.cli.options import Moment
from onceflow.cli.output import output_option, print_json, printable
from onceflow.cli.session import connected, run
from onceflow.queries.explain import history_text, sighting_text
from onceflow.queries.why import why_event, why_run
from onceflow.queries.why_not import why_not as why_not_run

HISTORY = 20


@click.group()
def why() -> None:
    """Explain, from what was stored when it was decided."""


@why.command("run")
@click.argument("dag_id")
@click.argument("run_id")
@output_option
def run_command(dag_id: str, run_id: str, output: str) -> None:
    """Explain why a run was made, and by which events."""

    async def work() -> dict[str, Any]:
        async with connected() as database:
            return await why_run(database, dag_id, run_id)

    told = run(work())
    if output == "json":
        print_json(told)
        return
    _line(0, f"run {run_id} of DAG {dag_id}: {told['run']['state']}")
    for sentence in told["because"]:
        _line(1, sentence)
    for event in told["events"]:
        key = f", key {event['key']}" if event["key"] else ""
        seen = f", {event['witnesses']} witnesses" if event["witnesses"] > 1 else ""
        _line(1, f"event {event['id']} {event['disposition']}: {event['asset']}{key}{seen}, from {event['because']}")


@why.command("event")
@click.argument("event_id", type=int)
@output_option
def event_command(event_id: int, output: str) -> None:
    """Explain what became of an event: per consumer a run, or what it waits for."""

    async def work() -> dict[str, Any]:
        async with connected() as database:
            return await why_event(database, event_id)

    told = run(work())
    if output == "json":
        print_json(told)
        return
    _line(0, f"event {event_id} of asset {told['event']['asset']}")
    for sentence in told["because"]:
        _line(1, sentence)
    for witness in told["witnesses"][:10]:
        _line(1, f"seen again {sighting_text(witness)}")
    for delivery in told["deliveries"]:
        _line(1, f"DAG {delivery['dag_id']}: {delivery['because']}")
    for beside in told["runs_beside"]:
        _line(1, f"DAG {beside['dag_id']}, beside: {beside['because']}")


@click.command("why-not")
@click.argument("dag_id")
@click.option("--since", type=Moment(), help="Since when (default: since the DAG's last run was made).")
@output_option
def why_not(dag_id: str, since: datetime | None, output: str) -> None:
    """Explain why a DAG has had no run, or no more, from what was stored when it was decided."""

    async def work() -> dict[str, Any]:
        async with connected() as database:
            return await why_not_run(database, dag_id, since)

    told = run(work())
    if output == "json":
        print_json(told)
        return
    _line(0, f"DAG {dag_id}, {told['dag']['schedule_text']}, since {told['since']}")
    for sentence in told["because"]:
        _line(1, sentence)
    for entry in told["history"][:HISTORY]:
        _line(1, f"{entry['at']}: {history_text(entry)}")


def _line(depth: int, text: str) -> None:
    click.echo("  " * depth + printable(text))
