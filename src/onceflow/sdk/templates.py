"""`{{ … }}` in the texts of an operator's template fields, filled in with the context before the task runs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any

from onceflow.sdk.context import DATED
from onceflow.sdk.exceptions import FailTask


def render(value: Any, context: Mapping[str, Any]) -> Any:
    """The value with every template text in it rendered. Raises FailTask if that is not possible."""
    if isinstance(value, str):
        return _render_text(value, context) if is_template(value) else value
    if type(value) is dict:
        return {key: render(part, context) for key, part in value.items()}
    if type(value) in (list, tuple, set):
        return type(value)(render(part, context) for part in value)
    return value


def is_template(value: Any) -> bool:
    """Whether `render` would change the value."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if type(value) is dict:
        return any(map(is_template, value.values()))
    return type(value) in (list, tuple, set) and any(map(is_template, value))


def _render_text(text: str, context: Mapping[str, Any]) -> str:
    environment = _environment()
    try:
        return environment.from_string(text).render({**context, "macros": MACROS})
    except environment.error as error:
        undated = any(f"'{name}' is undefined" in str(error) for name in DATED)
        hint = " (a run that events started has no logical date)" if undated else ""
        raise FailTask(f"the template {text!r} cannot be rendered: {error}{hint}") from error


@lru_cache(maxsize=1)
def _environment() -> Any:
    try:
        jinja2: Any = import_module("jinja2")
    except ImportError as error:
        raise FailTask(
            "a text with {{ }} needs the package jinja2, which is not installed: pip install jinja2"
        ) from error
    environment: Any = jinja2.Environment(undefined=jinja2.StrictUndefined)
    environment.error = jinja2.TemplateError
    environment.filters |= {
        "ds": lambda at: at.strftime("%Y-%m-%d"),
        "ds_nodash": lambda at: at.strftime("%Y%m%d"),
        "ts": lambda at: at.isoformat(),
        "ts_nodash": lambda at: at.strftime("%Y%m%dT%H%M%S"),
    }
    return environment


class Macros:
    """The helpers that templates call as `macros.ds_add(ds, 7)`."""

    @staticmethod
    def ds_add(ds: str, days: int) -> str:
        """A date text so many days later."""
        from datetime import date, timedelta

        return str(date.fromisoformat(ds) + timedelta(days=days))

    @staticmethod
    def ds_format(ds: str, input_format: str, output_format: str) -> str:
        """A date text in another format."""
        from datetime import datetime

        return datetime.strptime(ds, input_format).strftime(output_format)

    def __getattr__(self, name: str) -> Any:
        import datetime
        import json
        import math
        import random
        import uuid

        known = {"datetime": datetime.datetime, "timedelta": datetime.timedelta, "json": json, "math": math}
        known |= {"random": random, "uuid": uuid}
        if name not in known:
            raise AttributeError(f"macros has {', '.join(['ds_add', 'ds_format', *known])}, not {name}")
        return known[name]


MACROS = Macros()
