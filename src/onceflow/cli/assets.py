"""`onceflow assets`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, BinaryIO

import click

from onceflow.cli.options import JsonValue
from onceflow.cli.output import Column, JsonList, output_option, print_json, show, when
from onceflow.cli.session import connected, run, settings, wake, who
from onceflow.model.errors import OnceflowError
from onceflow.queries.assets import show_asset, stream_assets
from onceflow.queries.explain import seconds_text
from onceflow.queries.rows import Row


@click.group()
def assets() -> None:
    """Assets: named things that change."""


def _span(field: str) -> Callable[[Row], str]:
    return lambda row: "for ever" if row[field] is None else seconds_text(row[field])


COLUMNS = (
    Column("ASSET", "name"),
    Column("URI", "uri"),
    Column("EVENTS", "events"),
    Column("LAST EVENT (UTC)", when("last_event_at")),
    Column("CONSUMERS", "consumers"),
    Column("WATCHERS", "watchers"),
    Column("KEY", "declared_key"),
    Column("CHANGES ARE KNOWN", _span("horizon_seconds")),
    Column("ACTIVE", "active"),
)
SHOWN = (
    *COLUMNS,
    Column("EVENTS ARE KEPT", _span("retention_seconds")),
    Column("STILL THERE", "kept"),
)


@assets.command("list")
@click.option(
    "--active/--removed", default=None, help="Only assets that a DAG file names, or that none names any more."
)
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@output_option
def list_command(active: bool | None, limit: int | None, output: str) -> None:
    """List assets, who consumes them and who watches them."""

    async def work() -> None:
        async with connected(patient=True) as database:
            found = stream_assets(database, settings().retention_seconds, active=active, limit=limit)
            await show(found, COLUMNS, output, "no assets")

    run(work())


@assets.command("show")
@click.argument("asset")
@output_option
def show_command(asset: str, output: str) -> None:
    """Show an asset: what identifies its changes, and how long it and they are known."""

    async def work() -> Row:
        async with connected() as database:
            return await show_asset(database, settings().retention_seconds, asset)

    shown = run(work())
    if output == "json":
        print_json(shown)
    else:
        for column in SHOWN:
            click.echo(f"{column.title.lower():18} {column.text(shown)}")


@assets.command("emit")
@click.argument("asset", required=False)
@click.option("--key", help="The identity of the change: the same key again is the same change.")
@click.option("--extra", type=JsonValue(), help="What is known of the change, JSON.")
@click.option(
    "--from",
    "lines",
    type=click.File("rb"),
    metavar="FILE",
    help="Emit many: JSON lines of asset, key, extra; - is stdin.",
)
@output_option
def emit_command(asset: str | None, key: str | None, extra: Any, lines: BinaryIO | None, output: str) -> None:
    """Say that ASSET (a name or URI) changed. It returns once the change is stored.

    With --from, every line is an object with `key` and `extra`, both optional, and `asset` unless ASSET is given.
    """
    if lines is None:
        if asset is None:
            raise click.UsageError("name an asset, or give many changes with --from")
        run(_emit_one(asset, key, extra, output))
        return
    if key is not None or extra is not None:
        raise click.UsageError("--key and --extra belong to one change; with --from every line has its own")
    run(_emit_lines(asset, lines, output))


async def _emit_one(asset: str, key: str | None, extra: Any, output: str) -> None:
    from onceflow.store.emit import change, emit

    one = change(asset, key, extra)
    async with connected() as database:
        [answer] = await emit(database, [one], who())
        await wake(database, "delivery")
    if output == "json":
        print_json(
            {
                "asset": asset,
                "key": answer.key,
                "event_id": answer.event_id,
                "status": answer.status,
                "flaw": answer.flaw,
            }
        )
    elif answer.status == "duplicate":
        click.echo(f"known already: event {answer.event_id}, one more witness")
    elif answer.status == "released":
        click.echo(f"known: event {answer.event_id} was in quarantine, and goes on with this payload")
    else:
        click.echo(f"stored: event {answer.event_id}")
    if answer.flaw and answer.status == "stored":
        click.echo(f"it is quarantined, as it breaks the asset's schema: {answer.flaw}", err=True)
        click.echo(f"  `onceflow events fix {answer.event_id}` lets it go on", err=True)


async def _emit_lines(asset: str | None, lines: BinaryIO, output: str) -> None:
    from onceflow.cli.emit import LineEmitter, read_batches

    writer = JsonList()
    async with connected() as database:

        async def stored(answers: list[dict[str, Any]]) -> None:
            await wake(database, "delivery")
            if output == "json":
                for answer in answers:
                    writer.add(answer)

        emitter = LineEmitter(database, asset, who(), stored)
        try:
            await emitter.run(read_batches(lines))
        except OnceflowError as error:
            kept = _summary(emitter.counts)
            error.remedy = "; ".join(part for part in (error.remedy, f"what stood before it stays: {kept}") if part)
            raise
        finally:
            if output == "json":
                writer.end()
    click.echo(_summary(emitter.counts), err=output == "json")


def _summary(counts: Counter[str]) -> str:
    released = f", {counts['released']} let one go on that was in quarantine" if counts["released"] else ""
    flawed = (
        f", {counts['quarantined']} quarantined (`onceflow events list --quarantined`)" if counts["quarantined"] else ""
    )
    stored = counts["stored"] + counts["repeated"] + counts["quarantined"]
    return f"{stored} stored, {counts['duplicate']} known already{released}{flawed}"
