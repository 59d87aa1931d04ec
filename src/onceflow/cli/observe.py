"""`onceflow watchers` and `onceflow processes`."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Any

import click

from onceflow.cli.options import reason_option
from onceflow.cli.output import Column, output_option, print_json, show, when
from onceflow.cli.session import check_named, connected, run, wake, who
from onceflow.queries.processes import KINDS, stream_processes
from onceflow.queries.rows import Row, Rows
from onceflow.queries.watchers import stream_watchers
from onceflow.store.database import Database


def _error(row: Row) -> str:
    error = row["last_error"]
    return error.get("message", str(error)) if isinstance(error, dict) else error or ""


def _assets(row: Row) -> str:
    more = len(row["assets"]) - 1
    return f"{row['asset'] or ''} +{more}" if more > 0 else row["asset"] or ""


def _owner(row: Row) -> str:
    """Who runs it: an owner, or, in mode all, how many do."""
    if row["mode"] == "all":
        return f"{sum(w['running'] for w in row['watched_by'])} triggerers"
    return (row["owner"] or "")[:8]


def _cursor(cursor: Any) -> str:
    return "" if cursor is None else cursor if isinstance(cursor, str) else json.dumps(cursor)


WATCHER_COLUMNS = (
    Column("ASSET", _assets),
    Column("WATCHER", "watcher"),
    Column("HEALTH", "health"),
    Column("STATE", "state"),
    Column("MODE", "mode"),
    Column("OWNER", _owner),
    Column("TERM", "term"),
    Column("CURSOR", lambda row: _cursor(row["cursor"])[:40]),
    Column("LAST SEEN (UTC)", when("last_observation")),
    Column("LAG (S)", "lag"),
    Column("CANARY (S)", lambda row: (row["canary"] or {}).get("delay")),
    Column("UNMATCHED", "unmatched"),
    Column("FLAWED", "flawed"),
    Column("STRIKES", "strikes"),
    Column("NEXT TRY", when("next_try_at")),
    Column("LAST ERROR", lambda row: _error(row)[:100]),
    Column("WHY", lambda row: row["reason"][:100]),
)
PROCESS_COLUMNS = (
    Column("ID", lambda row: row["id"][:8]),
    Column("KIND", "kind"),
    Column("STATE", "state"),
    Column("READY", "ready"),
    Column("HOST", "host"),
    Column("PID", "pid"),
    Column("PARENT", "parent_pid"),
    Column("STARTED (UTC)", when("started_at")),
    Column("LAST SEEN", when("last_seen")),
)


@click.group(invoke_without_command=True)
@click.option("--asset", help="Only this asset's.")
@click.option("--removed", is_flag=True, help="Also watchers that no DAG file declares any more.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@click.option("--check", is_flag=True, help="Exit with 1 if one is red.")
@output_option
@click.pass_context
def watchers(
    context: click.Context, *, asset: str | None, removed: bool, limit: int | None, check: bool, output: str
) -> None:
    """List watchers: their health, who runs each, what it saw last, its last error, when it is tried again."""
    if context.invoked_subcommand is not None:
        return
    red = False

    async def found(database: Database) -> Rows:
        nonlocal red
        async with aclosing(stream_watchers(database, asset, active=None if removed else True, limit=limit)) as rows:
            async for row in rows:
                red = red or row["health"] == "red"
                yield row

    async def work() -> None:
        async with connected(patient=True) as database:
            await check_named(database, asset=asset)
            await show(found(database), WATCHER_COLUMNS, output, "no watchers")

    run(work())
    if check and red:
        raise SystemExit(1)


@watchers.command("release")
@click.argument("asset")
@click.option("--watcher", "name", metavar="NAME", help="Only the asset's watcher of this name.")
@reason_option
@output_option
def release_command(asset: str, name: str | None, reason: str | None, output: str) -> None:
    """Let a watcher of ASSET that was stopped in a storm go on, from the cursor that it had."""
    from onceflow.store.watchers import end_storm

    async def work() -> list[str]:
        async with connected() as database:
            ended = await end_storm(database, asset, name, by=who(), reason=reason)
            await wake(database, "watcher")
        return ended

    names = run(work())
    if output == "json":
        print_json({"asset": asset, "released": names})
        return
    click.echo(f"released: {', '.join(names)}" if names else f"no watcher of {asset} is in a storm")


@click.command()
@click.option("--kind", type=click.Choice(KINDS), help="Only this kind.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@output_option
def processes(kind: str | None, limit: int | None, output: str) -> None:
    """List processes: running, silent (the lease ran out), stopped or dead; ready: it does its work, too."""

    async def work() -> None:
        async with connected(patient=True) as database:
            await show(stream_processes(database, kind, limit), PROCESS_COLUMNS, output, "no processes")

    run(work())
