"""`onceflow verify`."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from onceflow.cli.output import output_option, print_json
from onceflow.cli.session import connected, run
from onceflow.queries.verify import verify as verify_all


@click.command()
@output_option
def verify(output: str) -> None:
    """Check that every change started exactly what it should, and nothing twice. Exit code 1 when not."""

    async def work() -> dict[str, Any]:
        async with connected() as database:
            return await verify_all(database)

    result = run(work())
    if output == "json":
        print_json(result)
    else:
        _report(result)
    sys.exit(0 if result["ok"] else 1)


def _report(result: dict[str, Any]) -> None:
    dispositions = ", ".join(f"{n} {name}" for name, n in sorted(result["by_disposition"].items())) or "none"
    click.echo(f"events      {result['events']}")
    click.echo(f"deliveries  {result['deliveries']} ({dispositions})")
    click.echo(f"runs        {result['runs']}")
    for violation in result["violations"]:
        about = {k: v for k, v in violation.items() if k not in ("kind", "meaning")}
        click.echo(f"VIOLATION {violation['kind']}: {violation['meaning']}\n  {json.dumps(about)}")
    found = len(result["violations"])
    click.echo(f"ok: {result['checks']} checks" if result["ok"] else f"not ok: {found} violations")
