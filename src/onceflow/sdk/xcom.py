"""Results of tasks as arguments of other tasks: written as calls in the DAG file, filled in when the task runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from onceflow.model.errors import DagError
from onceflow.sdk.edges import Linkable
from onceflow.sdk.params import ParamReference
from onceflow.sdk.where import here

if TYPE_CHECKING:
    from onceflow.sdk.operator import BaseOperator
    from onceflow.sdk.taskrun import TaskRun

    class _Result(Any, Linkable):  # a task's result may be passed where its value is wanted
        pass
else:
    _Result = Linkable

RETURN_VALUE = "return_value"


class XComArg(_Result):
    """What a task returned, or pushed under a key; the task that gets it starts after the one it comes from."""

    def __init__(self, operator: BaseOperator, key: str = RETURN_VALUE) -> None:
        self.operator = operator
        self.key = key

    def __getitem__(self, key: Any) -> XComArg:
        if not isinstance(key, str):
            raise DagError(
                f"a task's result is indexed with {key!r} while the DAG is built",
                where=here(),
                remedy='index with a text (result["key"]), or index the value inside the task that receives it',
            )
        return XComArg(self.operator, key)

    def __iter__(self) -> Iterator[Any]:
        raise DagError(
            "a task's result is looped over while the DAG is built; its value exists only when the task ran",
            where=here(),
            remedy="loop inside the task that receives it",
        )

    def entries(self) -> list[BaseOperator]:
        return [self.operator]

    exits = entries

    def as_setup(self) -> XComArg:
        self.operator.as_setup()
        return self

    def as_teardown(self, *, setups: Any = None, on_failure_fail_dagrun: bool = False) -> XComArg:
        self.operator.as_teardown(setups=setups, on_failure_fail_dagrun=on_failure_fail_dagrun)
        return self

    def __enter__(self) -> XComArg:
        self.operator.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self.operator.__exit__(*details)

    def map(self, *functions: Any) -> XComArg:
        raise _no_mapping()

    zip = concat = map

    def resolve(self, run: TaskRun) -> Any:
        """The value: what was pushed under the key, else that field of the returned value; None if there is none."""
        task_id = self.operator.task_id
        value = run.xcom_get(task_id, self.key)
        if value is None and self.key != RETURN_VALUE:
            returned = run.xcom_get(task_id, RETURN_VALUE)
            return returned.get(self.key) if isinstance(returned, dict) else None
        return value

    def __repr__(self) -> str:
        return f"XComArg({self.operator.task_id!r}, {self.key!r})"


def references(value: Any) -> Iterator[XComArg]:
    """The results of tasks in a value, also inside lists, tuples, sets and dicts."""
    if isinstance(value, XComArg):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from references(part)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for part in value:
            yield from references(part)


def resolve(value: Any, run: TaskRun) -> Any:
    """The value with every result and parameter in it filled in."""
    if isinstance(value, XComArg):
        return value.resolve(run)
    if isinstance(value, ParamReference):
        return value.resolve(run.params)
    if type(value) is dict:
        return {key: resolve(part, run) for key, part in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(resolve(part, run) for part in value)
    return value


def has_references(value: Any) -> bool:
    """Whether `resolve` would change the value."""
    if isinstance(value, (XComArg, ParamReference)):
        return True
    if type(value) is dict:
        return any(map(has_references, value.values()))
    return type(value) in (list, tuple, set, frozenset) and any(map(has_references, value))


def _no_mapping() -> DagError:
    return DagError("mapped tasks do not exist in Onceflow yet", where=here(), remedy="loop inside one task")
