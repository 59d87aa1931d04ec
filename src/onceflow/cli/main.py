"""The `onceflow` command. Exit codes: 0 done, 1 failure or violation, 2 wrong usage, 3 the database does not answer."""

from __future__ import annotations

import sys

import click

from onceflow.cli.lazy import LazyGroup
from onceflow.model.errors import ConfigError, InputError, OnceflowError, UnreachableError

COMMANDS = {
    "standalone": ("onceflow.cli.serve:standalone", "Start everything on this machine."),
    "scheduler": ("onceflow.cli.serve:scheduler", "Start a scheduler."),
    "triggerer": ("onceflow.cli.serve:triggerer", "Start a triggerer, which watches assets."),
    "worker": ("onceflow.cli.serve:worker", "Start a worker, which runs tasks."),
    "dag-processor": ("onceflow.cli.serve:dag_processor", "Start a DAG processor, which reads DAG files."),
    "api-server": ("onceflow.cli.serve:api_server", "Start an API server."),
    "db": ("onceflow.cli.db:db", "Prepare and check the database."),
    "dags": ("onceflow.cli.dags:dags", "List, show, trigger, pause DAGs; files that are broken."),
    "runs": ("onceflow.cli.runs:runs", "List and show runs."),
    "tasks": ("onceflow.cli.tasks:tasks", "List tasks, show their logs."),
    "assets": ("onceflow.cli.assets:assets", "List assets, emit a change of one."),
    "events": ("onceflow.cli.events:events", "List events and what became of them."),
    "watchers": ("onceflow.cli.observe:watchers", "List watchers, their owners and what they last saw."),
    "processes": ("onceflow.cli.observe:processes", "List the processes of this installation."),
    "why": ("onceflow.cli.why:why", "Explain a run or an event from what was stored."),
    "why-not": ("onceflow.cli.why:why_not", "Explain why a DAG has had no run, or no more."),
    "chaos": ("onceflow.cli.chaos:chaos", "Kill and freeze a scratch installation of your DAGs, and verify."),
    "verify": ("onceflow.cli.verify:verify", "Check that every change started exactly what it should."),
}
EXIT_CODES = ((UnreachableError, 3), (ConfigError, 2), (InputError, 2), (OnceflowError, 1))


@click.group(
    cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option("--home", metavar="DIR", help="Where Onceflow keeps its data (ONCEFLOW_HOME; default ~/.onceflow).")
@click.version_option(package_name="onceflow", prog_name="onceflow")
@click.pass_context
def cli(ctx: click.Context, home: str | None) -> None:
    """Onceflow: one change, one run."""
    ctx.obj = {"home": home}


def main() -> None:
    """Run the command line; an error of ours is shown in a few lines, and its kind decides the exit code."""
    try:
        cli()
    except OnceflowError as error:
        click.echo(f"error: {f'{error.where}: ' if error.where else ''}{error.message}", err=True)
        if error.remedy:
            click.echo(f"  {error.remedy}", err=True)
        sys.exit(next(code for kind, code in EXIT_CODES if isinstance(error, kind)))
    except OSError as error:  # no space, no permission, an output that cannot be written
        place = f"{error.filename}: " if error.filename else ""
        click.echo(f"error: {place}{error.strerror or error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
