"""The commands that run until they are stopped: `standalone` and one for each role."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from onceflow.cli.session import settings

Command = Callable[..., Any]


def _options(*names: str) -> Callable[[Command], Command]:
    known = {
        "database_url": click.option(
            "--database-url", metavar="URL", help="PostgreSQL to use (ONCEFLOW_DATABASE_URL)."
        ),
        "dags": click.option("--dags", metavar="DIR", help="Folder of DAG files (ONCEFLOW_DAGS; default HOME/dags)."),
        "host": click.option("--host", metavar="ADDRESS", help="Address to serve on (default 127.0.0.1)."),
        "port": click.option(
            "--port", type=int, metavar="N", help="Port to serve on, 0 = any free one (default 8080)."
        ),
        "schedulers": click.option("--schedulers", type=int, metavar="N", help="How many schedulers (default 2)."),
        "triggerers": click.option("--triggerers", type=int, metavar="N", help="How many triggerers (default 2)."),
        "workers": click.option("--workers", type=int, metavar="N", help="How many workers (default 1)."),
        "worker_slots": click.option(
            "--slots", "worker_slots", type=int, metavar="N", help="Tasks at once (default 8)."
        ),
    }

    def decorate(command: Command) -> Command:
        for name in reversed(names):
            command = known[name](command)
        return command

    return decorate


@click.command()
@_options("dags", "host", "port", "schedulers", "triggerers", "workers", "worker_slots", "database_url")
def standalone(**flags: Any) -> None:
    """Start everything on this machine, with a PostgreSQL of its own unless --database-url names one.

    Prints `ready http://ADDRESS:PORT` once it serves. SIGTERM or Ctrl-C stops all of it.
    """
    from onceflow.runtime.standalone import run

    sys.exit(run(settings(**flags)))


def _role(kind: str, **flags: Any) -> None:
    from dataclasses import replace

    from onceflow.cli.session import database_url
    from onceflow.runtime.supervisor import run_role

    chosen = settings(**flags)
    sys.exit(run_role(kind, replace(chosen, database_url=database_url(chosen))))


@click.command()
@_options("database_url")
def scheduler(**flags: Any) -> None:
    """Start a scheduler; as many as you like may run."""
    _role("scheduler", **flags)


@click.command()
@_options("dags", "database_url")
def triggerer(**flags: Any) -> None:
    """Start a triggerer, which watches assets; as many as you like may run."""
    _role("triggerer", **flags)


@click.command()
@_options("dags", "worker_slots", "database_url")
def worker(**flags: Any) -> None:
    """Start a worker, which runs tasks; as many as you like may run."""
    _role("worker", **flags)


@click.command()
@_options("dags", "database_url")
def dag_processor(**flags: Any) -> None:
    """Start a DAG processor, which reads DAG files; as many as you like may run."""
    _role("dag-processor", **flags)


@click.command()
@_options("host", "port", "database_url")
def api_server(**flags: Any) -> None:
    """Start an API server. Prints `ready http://ADDRESS:PORT` once it serves."""
    _role("api-server", **flags)
