"""What a task decided about the tasks behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from onceflow.sdk.exceptions import TaskError

if TYPE_CHECKING:
    from onceflow.sdk.operator import BaseOperator


class Branch(NamedTuple):
    """Go on with these tasks only; `value` is what the task returned."""

    chosen: tuple[str, ...]
    value: Any

    @classmethod
    def of(cls, value: Any, task: BaseOperator) -> Branch:
        """The choice that a branch function returned: None, an id or ids of tasks or groups. Raises TaskError."""
        names = [] if value is None else [value] if isinstance(value, str) else value
        if not isinstance(names, (list, tuple, set, frozenset)) or not all(isinstance(n, str) for n in names):
            raise TaskError(f"a branch returns None, a task id or a list of task ids, not {value!r}")
        chosen: dict[str, None] = {}
        for name in names:
            chosen.update(dict.fromkeys(_expanded(name, task)))
        return cls(tuple(chosen), value)


class ShortCircuit(NamedTuple):
    """Skip what stands behind."""

    value: Any
    ignore_rules: bool


def _expanded(name: str, task: BaseOperator) -> list[str]:
    """The id itself, or for a task group the ids of its first tasks."""
    dag = task.dag
    if dag is None or name in dag.task_dict:
        return [name]
    if name in dag.groups:
        return [entry.task_id for entry in dag.groups[name].entries()]
    import difflib

    close = difflib.get_close_matches(name, list(dag.task_dict), n=3)
    allowed = close or sorted(task.downstream_task_ids)
    raise TaskError(f"the branch chose {name!r}, which is no task of DAG {dag.dag_id!r}; it can choose {allowed}")
