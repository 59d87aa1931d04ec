"""What people do with events: `onceflow events replay`, `discard`, `release`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from onceflow.cli.options import Moment, downstream_option, reason_option
from onceflow.cli.output import Column, output_option, print_json, print_json_list, table, tell_paused
from onceflow.cli.session import connected, run, wake, who
from onceflow.queries.dags import no_such_dag
from onceflow.queries.rows import Row

if TYPE_CHECKING:
    from onceflow.model.replay import Downstream
    from onceflow.store.lanes import Replayed


@click.command("replay")
@click.argument("assets", nargs=-1, metavar="[ASSET]...")
@click.option("--dag", "dag_id", metavar="DAG_ID", required=True, help="The DAG that runs them.")
@click.option("--from", "since", type=Moment(), help="Recorded at this time or later.")
@click.option("--to", "until", type=Moment(), help="Recorded at this time or earlier.")
@click.option("--id", "ids", type=int, multiple=True, help="This event; may be given several times.")
@click.option("--rehearse", is_flag=True, help="Only say which runs it would make.")
@downstream_option
@reason_option
@output_option
def replay_command(
    *,
    assets: Sequence[str],
    dag_id: str,
    since: datetime | None,
    until: datetime | None,
    ids: Sequence[int],
    rehearse: bool,
    downstream: Downstream,
    reason: str | None,
    output: str,
) -> None:
    """Run stored events of ASSET (or several, or --id) through a DAG's present code, condition, policy and filters.

    It is a lane of its own: no delivery is touched, whatever became of the events before.
    """
    from onceflow.store.lanes import Choice, replay

    if not (assets or ids):
        raise click.UsageError("say which events: an asset, or --id")
    choice = Choice(assets or None, since, until, ids or None)

    async def work() -> Replayed:
        async with connected() as database:
            done = await replay(
                database, dag_id, choice, by=who(), reason=reason, downstream=downstream, rehearse=rehearse
            )
            if done is None:
                raise await no_such_dag(database, dag_id)
            await wake(database, "run", "dag")
            return done

    _show_replayed(dag_id, run(work()), rehearse=rehearse, output=output)


def _show_replayed(dag_id: str, done: Replayed, *, rehearse: bool, output: str) -> None:
    runs: list[Row] = [{"run_id": None, "events": list(members)} for members in done.plan.runs]
    for row, made in zip(runs, done.runs, strict=False):
        row["run_id"] = made.run_id
    filtered = [{"event_id": event, "reason": reason} for event, reason in done.filtered.items()]
    if output == "json":
        print_json({"dag_id": dag_id, "paused": done.paused, "runs": runs, "filtered": filtered})
        return
    columns = (Column("RUN", lambda row: row["run_id"] or "(would be made)"), Column("EVENTS", "events"))
    table(runs, columns, "no run: the DAG's filters accept none of the events")
    for row in filtered:
        click.echo(f"filtered: event {row['event_id']}: {row['reason']}")
    if done.paused and not rehearse:
        tell_paused(dag_id, "runs stay")


def _settle(
    change: Callable[..., Awaitable[Any]],
    ids: Sequence[int],
    dag_id: str | None,
    asset: str | None,
    reason: str | None,
    output: str,
    word: str,
) -> None:
    from onceflow.store.interventions import Scope

    if not ids and dag_id is None:
        raise click.UsageError("say which deliveries: events by id, or --dag")

    async def work() -> list[Row]:
        async with connected() as database:
            done = await change(database, Scope(dag_id, ids or None, asset), by=who(), reason=reason)
            if dag_id is not None and not done and not ids:
                raise await no_such_dag(database, dag_id)
            await wake(database, "delivery")
        return [{"dag_id": s.dag_id, "deliveries": s.deliveries} for s in done]

    rows = run(work())
    if output == "json":
        print_json_list(rows)
        return
    for row in rows:
        click.echo(f"{row['deliveries']} deliveries to {row['dag_id']} {word}")
    if not any(row["deliveries"] for row in rows):
        click.echo(
            f"nothing is open that could be {word}; `onceflow why event` tells what an event waits for", err=True
        )


_ids = click.argument("ids", type=int, nargs=-1, metavar="[EVENT_ID]...")
_dag = click.option("--dag", "dag_id", metavar="DAG_ID", help="Only deliveries to this DAG.")
_asset = click.option("--asset", help="Only events of this asset, by name or URI.")


@click.command("discard")
@_ids
@_dag
@_asset
@reason_option
@output_option
def discard_command(
    *, ids: Sequence[int], dag_id: str | None, asset: str | None, reason: str | None, output: str
) -> None:
    """End deliveries that are pending or held, of these events or to a DAG: they start nothing any more.

    `onceflow events list --disposition open` lists them. A discarded event can still be replayed.
    """
    from onceflow.store.interventions import discard

    _settle(discard, ids, dag_id, asset, reason, output, "discarded")


@click.command("release")
@_ids
@_dag
@_asset
@reason_option
@output_option
def release_command(
    *, ids: Sequence[int], dag_id: str | None, asset: str | None, reason: str | None, output: str
) -> None:
    """Give held deliveries back to be judged, of these events or to a DAG.

    `onceflow events list --held` lists them. What is held because its DAG is paused comes back when it is unpaused, and
    what is in quarantine by `onceflow events fix`.
    """
    from onceflow.store.interventions import release

    _settle(release, ids, dag_id, asset, reason, output, "released")
