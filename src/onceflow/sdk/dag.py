"""DAG: a pipeline. A context manager that collects the tasks of its block, or an object that is passed as `dag=`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Unpack, overload

from onceflow.model.dagspec import AssetSchedule, ContinuousSchedule
from onceflow.model.errors import DagError
from onceflow.sdk import options as table
from onceflow.sdk import params as parameters
from onceflow.sdk import schedule as schedules
from onceflow.sdk import scope
from onceflow.sdk.operator import BaseOperator, check_id
from onceflow.sdk.where import defining_file, here

if TYPE_CHECKING:
    from onceflow.sdk.group import TaskGroup
    from onceflow.sdk.schedule import ScheduleArg
    from onceflow.sdk.typed import DagOptions

P = ParamSpec("P")
OWN = frozenset({"consume", "params", "default_args", "auto_register"})
KNOWN = frozenset({"dag_id", "schedule", *OWN, *table.DAG_OPTIONS, *table.DAG_IGNORED})


class DAG:
    """A pipeline of tasks.

        with DAG("etl", schedule="@daily", start_date=datetime(2026, 1, 1)) as dag:
            extract() >> load()

    schedule: None, a cron expression, a preset (@once, @continuous, @hourly, …), a timedelta, a timetable, an asset,
              a list of assets (all of them), or a condition over assets (`a & b`, `a | b`)
    consume:  Each() = one run per event, All() = every pending event into one run, Window(quiet=…) = those that come
              close together into one run, Latest() = only the newest
    max_runs_per_minute: when its events start more, the others are held until a person releases them; 0 = any number
    max_rounds: how many of its runs may be in the causes of an event that it gets, before that is held as a loop
    while_paused: "hold" = events that come while the DAG is paused wait for its return, "discard" = they are discarded
    """

    def __init__(self, dag_id: str, *, schedule: ScheduleArg = None, **options: Unpack[DagOptions]) -> None:
        self.where = here()
        self.file = defining_file()
        self.dag_id = check_id(dag_id, "dag_id", self.where)
        given: dict[str, Any] = dict(options)
        for name in given:
            if name not in KNOWN:
                raise table.unknown(name, KNOWN, owner=self.described, where=self.where)
        self.schedule = schedule
        self.consume = given.get("consume")
        self.default_args = self._defaults(given.get("default_args"))
        self.params = parameters.normalise(given.get("params"), self.described, self.where)
        self.auto_register = bool(given.get("auto_register", True))
        scope.made.append(self)
        for name in ("start_date", "end_date", "owner"):
            given.setdefault(name, self.default_args.get(name))
        self.values = {name: self._value(name, given.get(name)) for name in table.DAG_OPTIONS}
        self.timetable = schedules.build(
            schedule, self.consume, given["start_date"], owner=self.described, where=self.where
        )
        self._check_continuous(given)
        self._check_consumer(given)
        self.warnings = table.warnings_for(given, table.DAG_IGNORED, self.described, self.where)
        self.tasks: list[BaseOperator] = []
        self.task_dict: dict[str, BaseOperator] = {}
        self.groups: dict[str, TaskGroup] = {}
        self._numbers: dict[str, int] = {}

    @property
    def described(self) -> str:
        return f"DAG {self.dag_id!r}"

    def _defaults(self, value: Any) -> dict[str, Any]:
        if value is not None and not isinstance(value, Mapping):
            remedy = "give a dict of task arguments"
            raise DagError(f"default_args of {self.described} is {value!r}", where=self.where, remedy=remedy)
        return dict(value or {})

    def _value(self, name: str, given: Any) -> Any:
        option = table.DAG_OPTIONS[name]
        value = option.default if given is None else given
        return table.convert(name, option, value, owner=self.described, where=self.where)

    def _check_continuous(self, given: Mapping[str, Any]) -> None:
        """A continuous DAG starts its next run when the last one ended, so it has one at a time."""
        if not isinstance(self.timetable, ContinuousSchedule):
            return
        if given.get("max_active_runs") not in (None, 1):
            message = f"{self.described} is @continuous and has max_active_runs={given['max_active_runs']}"
            raise DagError(message, where=self.where, remedy="leave max_active_runs out; it is 1")
        self.values["max_active_runs"] = 1

    def _check_consumer(self, given: Mapping[str, Any]) -> None:
        """Latest() means one run at a time, unless the author says how many."""
        schedule = self.timetable
        if not isinstance(schedule, AssetSchedule):
            if self.values["while_paused"] != "hold":
                message = f"{self.described} has while_paused='discard' but no assets in its schedule"
                raise DagError(message, where=self.where, remedy="leave while_paused out, or schedule on assets")
        elif schedule.policy == "latest" and given.get("max_active_runs") is None:
            self.values["max_active_runs"] = 1

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("values", {})
        if name in values:
            return values[name]
        raise AttributeError(f"DAG has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in table.DAG_OPTIONS:
            self.values[name] = self._value(name, value)
        else:
            super().__setattr__(name, value)

    def add_task(self, task: BaseOperator) -> None:
        """Take a task in. Raises DagError if its id is taken."""
        other = self.task_dict.get(task.task_id)
        if other is task:
            return
        if other is not None or task.task_id in self.groups:
            first = other.where if other is not None else self.groups[task.task_id].where
            message = f"{self.described} has two tasks named {task.task_id!r} (first at {first})"
            raise DagError(message, where=task.where, remedy="give one of them another task_id")
        task.dag = self
        self.tasks.append(task)
        self.task_dict[task.task_id] = task

    def add_group(self, group: TaskGroup, group_id: str, *, suffix: bool) -> str:
        """Take a task group in and return its id, with a number behind it if that is allowed and needed."""
        found = self.free_id(group_id) if suffix else group_id
        if found in self.groups or found in self.task_dict:
            message = f"{self.described} has two task groups or tasks named {found!r}"
            raise DagError(message, where=group.where, remedy="give one of them another group_id")
        self.groups[found] = group
        return found

    def free_id(self, wanted: str) -> str:
        """`wanted`, or the first of `wanted__1`, `wanted__2`, … that is free."""
        number, found = self._numbers.get(wanted, 0), wanted
        while found in self.task_dict or found in self.groups:
            number += 1
            found = f"{wanted}__{number}"
        self._numbers[wanted] = max(0, number - 1)
        return found

    def get_task(self, task_id: str) -> BaseOperator:
        """The task with this id. Raises DagError if there is none."""
        if task_id not in self.task_dict:
            raise DagError(
                f"{self.described} has no task {task_id!r}", where=self.where, remedy=", ".join(self.task_dict)
            )
        return self.task_dict[task_id]

    @property
    def task_ids(self) -> list[str]:
        return list(self.task_dict)

    def param(self, name: str, default: Any = parameters.NO_DEFAULT) -> parameters.ParamReference:
        """The parameter's value at run time, to be passed to tasks."""
        if default is not parameters.NO_DEFAULT and name not in self.params:
            self.params[name] = parameters.Param(default)
        return parameters.ParamReference(name, default)

    def __enter__(self) -> DAG:
        scope.open_dags.append(self)
        return self

    def __exit__(self, *details: object) -> None:
        scope.open_dags.remove(self)
        if self.auto_register and self not in scope.registered:
            scope.registered.append(self)

    def __repr__(self) -> str:
        return f"<DAG {self.dag_id}>"


class DagFactory(Generic[P]):
    """A function that builds a DAG; calling it makes the DAG and registers it."""

    def __init__(self, function: Callable[P, Any], dag_id: str, options: dict[str, Any]) -> None:
        self.function = function
        self.build: Callable[..., Any] = function
        self.dag_id = dag_id
        self.options = options
        self.where = here()
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> DAG:
        bound = inspect.signature(self.function).bind_partial(*args, **kwargs)
        options = dict(self.options)
        if "doc_md" not in options and self.function.__doc__:
            options["doc_md"] = inspect.cleandoc(self.function.__doc__)
        with DAG(self.dag_id or self.function.__name__, **options) as made:
            self.build(**self._arguments(made, bound.arguments))
        return made

    def _arguments(self, made: DAG, given: Mapping[str, Any]) -> Any:
        """Each argument of the function as a parameter of the DAG."""
        found = {}
        for name, parameter in inspect.signature(self.function).parameters.items():
            default = given.get(name, parameter.default)
            if default is parameter.empty:
                default = parameters.NO_DEFAULT
                if name not in made.params:
                    message = f"{made.described} needs a value for {name}"
                    raise DagError(message, where=here(), remedy=f"pass {name}= or give it a default")
            found[name] = made.param(name, default)
        return found


@overload
def dag(dag_id: Callable[P, Any], /) -> DagFactory[P]: ...
@overload
def dag(
    dag_id: str = "", *, schedule: ScheduleArg = None, **options: Unpack[DagOptions]
) -> Callable[[Callable[P, Any]], DagFactory[P]]: ...


def dag(dag_id: Any = "", **options: Any) -> Any:
    """Make a DAG of a function: `@dag` or `@dag(schedule="@daily")`; the function's arguments become its params."""
    if callable(dag_id):
        return DagFactory(dag_id, "", options)
    return lambda function: DagFactory(function, dag_id, options)
