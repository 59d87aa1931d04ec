"""`onceflow db`."""

from __future__ import annotations

import sys
from typing import Any

import click

from onceflow.cli.output import output_option, print_json
from onceflow.cli.session import database_url, run, settings
from onceflow.store.migrate import migrate

database_option = click.option("--database-url", metavar="URL", help="PostgreSQL to use (ONCEFLOW_DATABASE_URL).")


@click.group()
def db() -> None:
    """The database: its schema and its settings."""


@db.command("migrate")
@database_option
def migrate_command(**flags: Any) -> None:
    """Bring the schema up to this version; without a database in use, of the embedded one, which is started for it."""
    from onceflow.runtime.postgres import EmbeddedPostgres, attach

    chosen = settings(**flags)
    url = chosen.database_url or attach(chosen.home)
    if url:
        _tell(run(migrate(url)))
        return
    with EmbeddedPostgres(chosen.home, chosen.pg_bindir) as server:
        _tell(run(migrate(server.url)))


def _tell(applied: list[str]) -> None:
    for name in applied:
        click.echo(f"applied {name}")
    if not applied:
        click.echo("the schema is up to date")


@db.command("check")
@database_option
@output_option
def check_command(output: str, **flags: Any) -> None:
    """Check version, schema and the settings that the promise depends on. Exit code 1 when one must be changed."""
    from onceflow.queries.server import check_server

    chosen = settings(**flags)
    result = run(check_server(database_url(chosen), chosen.database_pooler))
    if output == "json":
        print_json(result)
    else:
        for name in ("address", "server_version", "schema", "fsync", "full_page_writes", "synchronous_commit"):
            click.echo(f"{name:<20} {result[name]}")
        for problem in result["problems"]:
            click.echo(f"PROBLEM {problem}")
        for hint in result["hints"]:
            click.echo(f"hint: {hint}")
        click.echo("ok" if result["ok"] else "not ok")
    sys.exit(0 if result["ok"] else 1)
