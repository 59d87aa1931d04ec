"""`onceflow watchers` and `onceflow processes`."""

from __future__ import annotations

import click

from onceflow.cli.output import Column, output_option, show, when
from onceflow.cli.session import connected, run
from onceflow.queries.processes import KINDS, stream_processes
from onceflow.queries.rows import Row
from onceflow.queries.watchers import stream_watchers


def _error(row: Row) -> str:
    error = row["last_error"]
    return error.get("message", str(error)) if isinstance(error, dict) else error or ""


WATCHER_COLUMNS = (
    Column("ASSET", "asset"),
    Column("WATCHER", "watcher"),
    Column("STATE", "state"),
    Column("OWNER", lambda row: (row["owner"] or "")[:8]),
    Column("TERM", "term"),
    Column("CURSOR", lambda row: str(row["cursor"] or "")[:40]),
    Column("LAST SEEN (UTC)", when("last_observation")),
    Column("LAG (S)", "lag"),
    Column("STRIKES", "strikes"),
    Column("LAST ERROR", lambda row: _error(row)[:100]),
)
PROCESS_COLUMNS = (
    Column("ID", lambda row: row["id"][:8]),
    Column("KIND", "kind"),
    Column("STATE", "state"),
    Column("HOST", "host"),
    Column("PID", "pid"),
    Column("PARENT", "parent_pid"),
    Column("STARTED (UTC)", when("started_at")),
    Column("LAST SEEN", when("last_seen")),
)


@click.command()
@click.option("--asset", help="Only this asset's.")
@click.option("--removed", is_flag=True, help="Also watchers that no DAG file declares any more.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@output_option
def watchers(asset: str | None, removed: bool, limit: int | None, output: str) -> None:
    """List watchers: who owns each, what it saw last, its last error, when it is tried again."""

    async def work() -> None:
        async with connected() as database:
            found = stream_watchers(database, asset, active=None if removed else True, limit=limit)
            await show(found, WATCHER_COLUMNS, output, "no watchers")

    run(work())


@click.command()
@click.option("--kind", type=click.Choice(KINDS), help="Only this kind.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@output_option
def processes(kind: str | None, limit: int | None, output: str) -> None:
    """List processes: running, silent (the lease ran out), stopped or dead."""

    async def work() -> None:
        async with connected() as database:
            await show(stream_processes(database, kind, limit), PROCESS_COLUMNS, output, "no processes")

    run(work())
