"""The context of a running task: what `get_current_context()` gives and what task functions may name as parameters."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

DATED = frozenset({"ds", "ds_nodash", "ts", "ts_nodash", "ts_nodash_with_tz"})
KEYS = DATED | {
    "conf",
    "dag",
    "dag_run",
    "data_interval_end",
    "data_interval_start",
    "inlet_events",
    "inlets",
    "logical_date",
    "map_index",
    "outlet_events",
    "outlets",
    "params",
    "run_id",
    "start_date",
    "task",
    "task_instance",
    "templates_dict",
    "ti",
    "triggering_asset_events",
    "try_number",
    "var",
}


class Context(dict[str, Any]):
    """What a task is given: `context["ti"]`, `context["params"]`, …"""

    def __missing__(self, key: str) -> Any:
        if key in DATED:
            raise KeyError(f"{key}: this run has no logical date (timed runs have one)")
        raise KeyError(f"{key}: the context has {', '.join(sorted(self))}")


_active: list[Context] = []


@contextmanager
def active(context: Context) -> Generator[None, None, None]:
    """Make it the current context."""
    _active.append(context)
    try:
        yield
    finally:
        _active.pop()


def task_is_running() -> bool:
    return bool(_active)


def get_current_context() -> Context:
    """The context of the task that is running. Raises RuntimeError outside of one."""
    if not _active:
        raise RuntimeError("get_current_context() works only inside a running task")
    return _active[-1]
