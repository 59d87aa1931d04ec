"""`onceflow verify`: once, or again and again beside production."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import Any

import click

from onceflow.cli.output import output_option, print_json
from onceflow.cli.session import connected, run
from onceflow.model.clock import utcnow
from onceflow.model.errors import UnreachableError
from onceflow.model.times import to_rfc3339
from onceflow.queries.verify import verify as verify_all
from onceflow.store.waiting import happens_within

SECONDS = 60.0


@click.command()
@click.option("--watch", is_flag=True, help="Check again and again until interrupted; tell each violation once.")
@click.option(
    "--every",
    type=click.FloatRange(min=1),
    default=SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="With --watch: the pause between two passes.",
)
@output_option
def verify(watch: bool, every: float, output: str) -> None:
    """Check that every change started exactly what it should, and nothing twice. Exit code 1 when not."""
    if watch:
        sys.exit(run(_watch(every, as_json=output == "json")))
    result = run(_pass())
    if output == "json":
        print_json(result)
    else:
        _report(result)
    sys.exit(0 if result["ok"] else 1)


async def _pass() -> dict[str, Any]:
    async with connected() as database:
        return await verify_all(database)


async def _watch(every: float, *, as_json: bool) -> int:
    """Passes until a signal comes, a line each; 1 if there was a violation. An outage of the database is waited out."""
    stop = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    told: set[str] = set()
    while not stop.is_set():
        try:
            result = await _pass()
        except UnreachableError as error:
            click.echo(f"{_now()} {error}", err=True)
        else:
            fresh = [v for v in result["violations"] if (text := json.dumps(v)) not in told and not told.add(text)]
            _tell(result, fresh, as_json=as_json)
        await happens_within(stop, every)
    return 1 if told else 0


def _tell(result: dict[str, Any], fresh: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"at": _now()} | result | {"violations": fresh}))
        return
    _violations(fresh)
    old = len(result["violations"]) - len(fresh)
    known = f", {old} told before" if old else ""
    click.echo(f"{_now()} {result['events']} events, {result['runs']} runs; {_verdict(result)}{known}")


def _report(result: dict[str, Any]) -> None:
    dispositions = ", ".join(f"{n} {name}" for name, n in sorted(result["by_disposition"].items())) or "none"
    click.echo(f"events      {result['events']}")
    click.echo(f"deliveries  {result['deliveries']} ({dispositions})")
    click.echo(f"runs        {result['runs']}")
    _violations(result["violations"])
    click.echo(_verdict(result))


def _violations(found: list[dict[str, Any]]) -> None:
    for violation in found:
        about = {k: v for k, v in violation.items() if k not in ("kind", "meaning")}
        click.echo(f"VIOLATION {violation['kind']}: {violation['meaning']}\n  {json.dumps(about)}")


def _verdict(result: dict[str, Any]) -> str:
    if result["ok"]:
        return f"ok: {result['checks']} checks in {sum(result['seconds'].values()):.1f} s"
    return f"not ok: {len(result['violations'])} violations"


def _now() -> str:
    return to_rfc3339(utcnow())
