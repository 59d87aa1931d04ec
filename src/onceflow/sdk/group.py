"""Task groups: tasks that belong together; their ids are prefixed and they stand as one in the order of tasks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, ParamSpec, overload

from onceflow.model.errors import DagError
from onceflow.sdk import scope
from onceflow.sdk.dag import DAG
from onceflow.sdk.edges import Linkable
from onceflow.sdk.operator import BaseOperator, check_id
from onceflow.sdk.where import here

P = ParamSpec("P")
QUIET = frozenset({"tooltip", "ui_color", "ui_fgcolor", "group_display_name", "doc_md"})


class TaskGroup(Linkable):
    """`with TaskGroup("load"):` prefixes the ids of the tasks in its block with "load."."""

    def __init__(
        self,
        group_id: str,
        prefix_group_id: bool = True,
        *,
        parent_group: TaskGroup | None = None,
        dag: DAG | None = None,
        default_args: Mapping[str, Any] | None = None,
        add_suffix_on_collision: bool = False,
        **described: Any,
    ) -> None:
        self.where = here()
        for name in described.keys() - QUIET:
            raise DagError(
                f"task group {group_id!r} has an unknown argument {name}", where=self.where, remedy="remove it"
            )
        check_id(group_id, "group_id", self.where)
        self.parent = parent_group or scope.current_group()
        self.dag = dag or (self.parent.dag if self.parent else scope.current_dag())
        if self.dag is None:
            remedy = "open it inside a DAG, or pass dag="
            raise DagError(f"task group {group_id!r} is outside of any DAG", where=self.where, remedy=remedy)
        self.prefix_group_id = prefix_group_id
        self.default_args = dict(default_args or {})
        self.children: list[BaseOperator | TaskGroup] = []
        label = self.parent.child_id(group_id) if self.parent else group_id
        self.group_id = self.dag.add_group(self, label, suffix=add_suffix_on_collision)
        if self.parent is not None:
            self.parent.children.append(self)

    def child_id(self, task_id: str) -> str:
        """The id of a task or group inside this group."""
        if self.prefix_group_id:
            return f"{self.group_id}.{task_id}"
        return self.parent.child_id(task_id) if self.parent is not None else task_id

    def path(self) -> list[TaskGroup]:
        """The groups from the outermost to this one."""
        return [*(self.parent.path() if self.parent is not None else []), self]

    def tasks(self) -> Iterator[BaseOperator]:
        """Every task in the group and in the groups inside it."""
        for child in self.children:
            if isinstance(child, TaskGroup):
                yield from child.tasks()
            else:
                yield child

    def entries(self) -> list[BaseOperator]:
        inside = set(self.tasks())
        return [task for task in self.tasks() if not inside & task.upstream_tasks.keys()]

    def exits(self) -> list[BaseOperator]:
        """The last tasks of the group; its teardowns hold nobody up."""
        inside = {task for task in self.tasks() if not task.is_teardown}
        last = [task for task in self.tasks() if task in inside and not inside & task.downstream_tasks.keys()]
        return last or [task for task in self.tasks() if not task.downstream_tasks]

    def __enter__(self) -> TaskGroup:
        scope.open_groups.append(self)
        return self

    def __exit__(self, *details: object) -> None:
        scope.open_groups.remove(self)

    def __repr__(self) -> str:
        return f"<TaskGroup {self.group_id}>"


class GroupFactory(Generic[P]):
    """A function that fills a task group; each call makes one."""

    def __init__(self, function: Callable[P, Any], options: dict[str, Any]) -> None:
        self.function = function
        self.options = options
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        options: dict[str, Any] = {"group_id": self.function.__name__, "add_suffix_on_collision": True} | self.options
        with TaskGroup(**options) as group:
            result = self.function(*args, **kwargs)
        return group if result is None else result

    def override(self, **options: Any) -> GroupFactory[P]:
        """The same function with other arguments of the group."""
        return GroupFactory(self.function, self.options | options)


@overload
def task_group(group_id: Callable[P, Any], /) -> GroupFactory[P]: ...
@overload
def task_group(
    group_id: str | None = None,
    *,
    prefix_group_id: bool = True,
    default_args: Mapping[str, Any] | None = None,
    tooltip: str = "",
    **described: Any,
) -> Callable[[Callable[P, Any]], GroupFactory[P]]: ...


def task_group(group_id: Any = None, **options: Any) -> Any:
    """Make a task group of a function: `@task_group` or `@task_group(group_id="load")`."""
    if callable(group_id):
        return GroupFactory(group_id, options)
    given = options if group_id is None else options | {"group_id": group_id}
    return lambda function: GroupFactory(function, given)
