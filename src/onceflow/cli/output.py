"""What listings look like: JSON for programs, written row by row; tables for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import click

from onceflow.queries.rows import Row, Rows

TABLE_LIMIT = 100

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["json", "table"]),
    default="table",
    show_default=True,
    help="Form of the output.",
)
limit_option = click.option(
    "--limit", type=click.IntRange(min=1), help=f"At most so many, the newest (tables: {TABLE_LIMIT} if not given)."
)


@dataclass(frozen=True)
class Column:
    """A column of a table: its title, and the field or function that gives its value."""

    title: str
    value: str | Callable[[Row], Any]

    def text(self, row: Row) -> str:
        value = row[self.value] if isinstance(self.value, str) else self.value(row)
        return printable(value)


async def show(rows: Rows, columns: Sequence[Column], output: str, nothing: str = "nothing to list") -> None:
    """Write a listing to standard output."""
    if output == "json":
        writer = JsonList()
        async with aclosing(rows):
            async for row in rows:
                writer.add(row)
        writer.end()
        return
    async with aclosing(rows):
        table([row async for row in rows], columns, nothing)


async def show_newest(
    select: Callable[[bool, int | None], Rows],
    columns: Sequence[Column],
    output: str,
    limit: int | None,
    nothing: str = "nothing to list",
) -> None:
    """Write the newest `limit` rows, the oldest of them first; `select(newest, limit)` reads them.

    Without a limit JSON is complete, and a table has its own limit, which it tells.
    """
    if output == "json" and limit is None:
        await show(select(False, None), columns, output, nothing)
        return
    wanted = limit or TABLE_LIMIT
    async with aclosing(select(True, wanted + 1)) as rows:
        found = [row async for row in rows]
    shown = found[:wanted][::-1]
    if output == "json":
        print_json_list(shown)
        return
    table(shown, columns, nothing)
    if limit is None and len(found) > wanted:
        click.echo(f"(the newest {wanted}; more with --limit, all with -o json)", err=True)


def table(rows: Sequence[Row], columns: Sequence[Column], nothing: str = "") -> None:
    """Write rows as a table, or say that there are none."""
    if not rows:
        click.echo(nothing, err=True)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        grid.add_column(column.title, overflow="fold")
    for row in rows:
        grid.add_row(*(Text(column.text(row)) for column in columns))
    Console(width=None if sys.stdout.isatty() else 1000).print(grid, soft_wrap=not sys.stdout.isatty())


def tell_paused(dag_id: str, waits: str = "run stays") -> None:
    """Say that what was made waits for its DAG: "run stays", "runs stay"."""
    click.echo(f"the DAG is paused: the {waits} queued until `onceflow dags unpause {dag_id}`", err=True)


def print_json(value: Any) -> None:
    """Write one value as JSON."""
    click.echo(json.dumps(value, indent=2))


def print_json_list(rows: Sequence[Any]) -> None:
    """Write a list of which every item is a line."""
    writer = JsonList()
    for row in rows:
        writer.add(row)
    writer.end()


class JsonList:
    """A JSON list that is written as its items come, one to a line."""

    def __init__(self) -> None:
        self._begun = False

    def add(self, item: Any) -> None:
        sys.stdout.write(("," if self._begun else "[") + "\n" + json.dumps(item))
        self._begun = True

    def end(self) -> None:
        sys.stdout.write("\n]\n" if self._begun else "[]\n")
        sys.stdout.flush()


def printable(value: Any) -> str:
    """A value as it stands in a table: one line, without control characters."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    text = value if isinstance(value, str) else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def when(field: str) -> Callable[[Row], str]:
    """A time to the second, as tables show it."""
    return lambda row: (row[field] or "")[:19].replace("T", " ")
