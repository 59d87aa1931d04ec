"""Types of command-line values."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import click

from onceflow.model.errors import InputError
from onceflow.model.times import from_rfc3339


class Moment(click.ParamType):
    """A time: RFC 3339, or a date; UTC if it names no offset."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return from_rfc3339(value)
        except InputError as error:
            self.fail(str(error), param, ctx)


class JsonValue(click.ParamType):
    """A JSON text; `object_only` refuses everything but an object."""

    name = "json"

    def __init__(self, *, object_only: bool = False) -> None:
        self._object_only = object_only

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            found = json.loads(value, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            self.fail(f"not valid JSON: {error}; quote it for the shell: '{{\"a\": 1}}'", param, ctx)
        if self._object_only and not isinstance(found, dict):
            self.fail(f'a JSON object is needed, such as {{"a": 1}}, not {value}', param, ctx)
        return found


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


reason_option = click.option("--reason", metavar="TEXT", help="Why, for the record; `onceflow why` shows it.")
downstream_option = click.option(
    "--downstream",
    type=click.Choice(["emit", "hold", "tag"]),
    default="emit",
    help="What becomes of the events that the run makes: as of any run (emit), held for their consumers (hold), "
    "or with the lane in their source (tag).",
)
