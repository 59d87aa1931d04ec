"""The context of a running task: what `get_current_context()` gives and what task functions may name as parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    """What a task is given: `context["ti"]`, `context["params"]`, …

    It is filled in when something is first read from it, as most tasks read nothing.
    """

    def __init__(self, make: Callable[[], Mapping[str, Any]]) -> None:
        super().__init__()
        self._make: Callable[[], Mapping[str, Any]] | None = make

    def fill(self) -> None:
        """Make the values now; what was set before stays."""
        if self._make is not None:
            make, self._make = self._make, None
            self.update({**make(), **self})

    def __missing__(self, key: str) -> Any:
        if self._make is not None:
            self.fill()
            return self[key]
        if key in DATED:
            raise KeyError(f"{key}: this run has no logical date (timed runs have one)")
        raise KeyError(f"{key}: the context has {', '.join(sorted(self))}")


READING = (
    "__contains__", "__delitem__", "__eq__", "__iter__", "__len__", "__or__", "__repr__", "__reversed__", "__ror__",
    "copy", "get", "items", "keys", "pop", "popitem", "setdefault", "values",
)  # fmt: skip


def _filled_first(name: str) -> Callable[..., Any]:
    method = getattr(dict, name)

    def filled(self: Context, *args: Any) -> Any:
        self.fill()
        return method(self, *args)

    return filled


for _name in READING:
    setattr(Context, _name, _filled_first(_name))


_active: list[Context] = []


def enter(context: Context) -> None:
    """Make it the current context, until `leave`."""
    _active.append(context)


def leave() -> None:
    _active.pop()


def task_is_running() -> bool:
    return bool(_active)


def get_current_context() -> Context:
    """The context of the task that is running. Raises RuntimeError outside of one."""
    if not _active:
        raise RuntimeError("get_current_context() works only inside a running task")
    return _active[-1]
