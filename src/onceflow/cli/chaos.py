"""`onceflow chaos`: let a scratch installation of your DAGs suffer, and see that the promise holds."""

from __future__ import annotations

import logging
import sys
from dataclasses import asdict, replace
from typing import Any

import click

from onceflow.cli.output import output_option, print_json
from onceflow.cli.session import run, settings
from onceflow.model.errors import InputError

COUNT = click.IntRange(min=0)


@click.command()
@click.option("--dags", metavar="DIR", help="Folder of DAG files (ONCEFLOW_DAGS; default HOME/dags).")
@click.option("--seconds", type=click.FloatRange(min=1), default=60.0, show_default=True, help="How long.")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed, the same faults and changes.")
@click.option("--events", type=COUNT, default=2000, show_default=True, help="Changes to tell, every fifth a repeat.")
@click.option("--kills", type=COUNT, default=20, show_default=True, help="Processes to kill.")
@click.option("--freezes", type=COUNT, default=5, show_default=True, help="Processes to freeze past their lease.")
@click.option("--restarts", type=COUNT, default=1, show_default=True, help="Times that PostgreSQL is killed.")
@click.option("--cuts", type=COUNT, default=2, show_default=True, help="Times that all connections are cut.")
@click.option("--slow", type=COUNT, default=1, show_default=True, help="Phases with a slow database.")
@click.option("--schedulers", type=COUNT, default=3, show_default=True, help="How many schedulers.")
@click.option("--triggerers", type=COUNT, default=3, show_default=True, help="How many triggerers.")
@click.option("--workers", type=COUNT, default=2, show_default=True, help="How many workers.")
@click.option(
    "--inside", type=COUNT, default=0, show_default=True, help="Fail unless so many faults struck inside a transaction."
)
@output_option
def chaos(*, seconds: float, seed: int, events: int, inside: int, output: str, **flags: Any) -> None:
    """Kill, freeze and cut off the processes of a scratch installation of your DAGs; exit code 1 if anything is amiss.

    It has a database of its own, which is thrown away. The tasks and triggers of the DAGs really run.
    """
    from onceflow.chaos.plan import Faults
    from onceflow.chaos.run import run as run_chaos

    faults = Faults(**{name: flags.pop(name) for name in ("kills", "freezes", "restarts", "cuts", "slow")})
    chosen = replace(settings(**flags), lease_seconds=2.0)
    if not any(chosen.dags_folder.glob("**/*.py")):
        raise InputError("there is no DAG file", where=str(chosen.dags_folder), remedy="name a folder with --dags")
    logging.getLogger("asyncpg").addHandler(logging.NullHandler())  # that connections break is no news here
    report = run(run_chaos(chosen, seed=seed, seconds=seconds, events=events, faults=faults))
    if output == "json":
        print_json(asdict(report) | {"ok": report.ok})
    else:
        click.echo("\n".join(report.lines()))
    if report.inside < inside:
        click.echo(f"only {report.inside} faults struck inside a transaction: this shows too little", err=True)
    sys.exit(0 if report.ok and report.inside >= inside else 1)
