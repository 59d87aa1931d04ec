"""BaseOperator: a task as an object. Subclass it and write `execute(context)`; what it returns is the task's result."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from onceflow.model.errors import DagError
from onceflow.model.states import TriggerRule
from onceflow.sdk import options as table
from onceflow.sdk import params as parameters
from onceflow.sdk import scope
from onceflow.sdk.asset import Asset
from onceflow.sdk.edges import Linkable, connect
from onceflow.sdk.where import here
from onceflow.sdk.xcom import XComArg, references

if TYPE_CHECKING:
    import logging

    from onceflow.sdk.context import Context
    from onceflow.sdk.dag import DAG
    from onceflow.sdk.group import TaskGroup
    from onceflow.sdk.typed import TaskOptions

ID = re.compile(r"[\w.-]{1,250}")
TAKEN = frozenset(
    {
        *table.TASK_OPTIONS,
        *table.TASK_OWN,
        *table.TASK_IGNORED,
        "task_id",
        "dag",
        "task_group",
        "params",
        "default_args",
    }
)


class OperatorMeta(type):
    """Fills in default_args before, and joins DAG, group and upstream results after, an operator is built."""

    if not TYPE_CHECKING:

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            task = super().__call__(*args, **with_defaults(cls, kwargs))
            task._built()
            return task


@lru_cache(maxsize=1024)
def accepted(cls: type) -> frozenset[str]:
    """The names of the keyword arguments that an operator class takes, its bases' included."""
    found: set[str] = set()
    for base in cls.__mro__:
        if "__init__" not in vars(base):
            continue
        if base is BaseOperator:
            return frozenset(found | TAKEN)
        parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
        found.update(p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD))
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            return frozenset(found - {"self"})
    return frozenset(found - {"self"})


def with_defaults(cls: type, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments with what the DAG's, the groups' and the task's own default_args say about the missing ones."""
    dag = given.get("dag") or scope.current_dag()
    group = given.get("task_group") or scope.current_group()
    sources: list[Mapping[str, Any]] = [dag.default_args if dag is not None else {}]
    sources += [given_group.default_args for given_group in (group.path() if group is not None else ())]
    sources.append(given.get("default_args") or {})
    if not any(sources):
        return given
    names = accepted(cls)
    merged = {name: value for source in sources for name, value in source.items() if name in names}
    quiet = merged.keys() - given.keys() & {"start_date", "end_date"}
    return {name: value for name, value in merged.items() if name not in quiet} | given


class BaseOperator(Linkable, metaclass=OperatorMeta):
    """A task. `template_fields` names the attributes whose texts may hold `{{ … }}`."""

    template_fields: ClassVar[Sequence[str]] = ()
    template_ext: ClassVar[Sequence[str]] = ()
    multiple_outputs: bool = False
    to_fill: tuple[str, ...] | None = None  # attributes to fill in before it runs; None: not looked up yet
    kind: ClassVar[str] = ""  # what it is, for people; "" = the class's name
    retries: int | None
    execution_timeout: Any
    trigger_rule: Any
    is_setup: bool
    is_teardown: bool
    on_failure_fail_dagrun: bool
    ignore_downstream_trigger_rules: bool
    do_xcom_push: bool
    owner: str
    doc: str | None
    doc_md: str | None
    doc_json: str | None
    doc_yaml: str | None
    doc_rst: str | None

    def __init__(
        self,
        *,
        task_id: str,
        dag: DAG | None = None,
        task_group: TaskGroup | None = None,
        params: Mapping[str, Any] | None = None,
        default_args: Mapping[str, Any] | None = None,
        **options: Unpack[TaskOptions],
    ) -> None:
        self.where = here()
        self.label = check_id(task_id, "task_id", self.where)
        self.dag: DAG | None = None
        self.task_group = task_group or scope.current_group()
        self._join = dag or (self.task_group.dag if self.task_group is not None else scope.current_dag())
        self.task_id = self.task_group.child_id(task_id) if self.task_group is not None else task_id
        self.upstream_tasks: dict[BaseOperator, None] = {}
        self.downstream_tasks: dict[BaseOperator, None] = {}
        self.params = parameters.normalise(params, self.described, self.where)
        self._take(dict(options))

    @property
    def described(self) -> str:
        return f"task {self.task_id!r}"

    def _take(self, given: dict[str, Any]) -> None:
        for name in given:
            if name not in TAKEN:
                raise table.unknown(name, accepted(type(self)), owner=self.described, where=self.where)
        for name, option in table.TASK_OPTIONS.items():
            setattr(self, name, given.get(name, option.default))
        for name, default in table.TASK_OWN.items():
            setattr(self, name, given.get(name, default))
        self.inlets: list[Any] = _as_list(self.inlets)
        self.outlets: list[Any] = _as_list(self.outlets)
        self.warnings = table.warnings_for(given, table.TASK_IGNORED, self.described, self.where)
        for name in table.TASK_IGNORED.keys() & given.keys():
            if not hasattr(type(self), name):
                setattr(self, name, given[name])

    def _built(self) -> None:
        for outlet in self.outlets:
            if not isinstance(outlet, Asset):
                remedy = "outlets are assets: outlets=[Asset(...)]"
                raise DagError(f"{self.described} has the outlet {outlet!r}", where=self.where, remedy=remedy)
        if self._join is not None and self.dag is None:
            self._join.add_task(self)
        if self.task_group is not None:
            self.task_group.children.append(self)
        for name, value in list(vars(self).items()):
            if name not in INTERNAL:
                for reference in references(value):
                    connect([reference.operator], [self])
        for outer in scope.open_teardowns:
            outer._inside.append(self)

    def execute(self, context: Context) -> Any:
        """Do the work; the returned value is the task's result."""
        raise NotImplementedError(f"{type(self).__name__} has no execute(context)")

    def pre_execute(self, context: Context) -> None:
        """Called before `execute`."""

    def post_execute(self, context: Context, result: Any = None) -> None:
        """Called after `execute` returned."""

    def on_kill(self) -> None:
        """Called when the task is stopped or ran out of time: end what it started."""

    def defer(self, **arguments: Any) -> None:
        """Deferred tasks are not supported yet."""
        raise DagError("deferred tasks do not exist in Onceflow yet", where=here(), remedy="wait in execute()")

    @classmethod
    def partial(cls, **arguments: Any) -> Any:
        """Mapped tasks are not supported yet."""
        raise DagError("mapped tasks do not exist in Onceflow yet", where=here(), remedy="loop inside one task")

    expand = expand_kwargs = partial

    @property
    def output(self) -> XComArg:
        """What the task returns, to be passed to other tasks."""
        return XComArg(self)

    def entries(self) -> list[BaseOperator]:
        return [self]

    exits = entries

    @property
    def upstream_task_ids(self) -> set[str]:
        return {task.task_id for task in self.upstream_tasks}

    @property
    def downstream_task_ids(self) -> set[str]:
        return {task.task_id for task in self.downstream_tasks}

    @property
    def upstream_list(self) -> list[BaseOperator]:
        return list(self.upstream_tasks)

    @property
    def downstream_list(self) -> list[BaseOperator]:
        return list(self.downstream_tasks)

    @property
    def log(self) -> logging.Logger:
        """The task's logger; what it writes goes to the attempt's log."""
        from logging import getLogger

        return getLogger(f"{type(self).__module__}.{type(self).__qualname__}")

    @property
    def dag_id(self) -> str:
        return self.dag.dag_id if self.dag is not None else ""

    @property
    def operator_name(self) -> str:
        return self.kind or type(self).__name__

    def as_setup(self) -> BaseOperator:
        """Make this task a setup."""
        self.is_setup = True
        return self

    def as_teardown(self, *, setups: Any = None, on_failure_fail_dagrun: bool = False) -> BaseOperator:
        """Make this task a teardown of the given setups: it runs when its upstream is done and a setup succeeded."""
        self.is_teardown = True
        self.trigger_rule = TriggerRule.ALL_DONE_SETUP_SUCCESS
        self.on_failure_fail_dagrun = on_failure_fail_dagrun
        for setup in _as_list(setups):
            for task in setup.exits():
                task.is_setup = True
                connect([task], [self])
        return self

    def __enter__(self) -> BaseOperator:
        if not (self.is_setup or self.is_teardown):
            remedy = "use as_setup() or as_teardown() first"
            raise DagError(
                f"{self.described} opens a with block but is no setup or teardown", where=here(), remedy=remedy
            )
        self._inside: list[BaseOperator] = []
        scope.open_teardowns.append(self)
        return self

    def __exit__(self, *details: object) -> None:
        scope.open_teardowns.remove(self)
        inside = {task for task in self._inside if task is not self}
        starts = [self] if self.is_setup else [task for task in self.upstream_tasks if task.is_setup]
        ends = [self] if self.is_teardown else [task for task in self.downstream_tasks if task.is_teardown]
        connect(starts, [task for task in inside if not inside & task.upstream_tasks.keys()])
        connect([task for task in inside if not inside & task.downstream_tasks.keys()], ends)

    def __repr__(self) -> str:
        return f"<{self.operator_name} {self.task_id}>"


INTERNAL = frozenset(
    {
        "dag",
        "_join",
        "task_group",
        "upstream_tasks",
        "downstream_tasks",
        "params",
        "to_fill",
        "warnings",
        "inlets",
        "outlets",
    }
)


def check_id(value: Any, what: str, where: str) -> str:
    """An id that is allowed: letters, digits, dash, dot and underscore, at most 250."""
    if not isinstance(value, str) or not ID.fullmatch(value):
        remedy = "allowed: 1 to 250 letters, digits, dashes, dots and underscores"
        raise DagError(f"{what} is {value!r}", where=where, remedy=remedy)
    return value


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, Iterable) and not isinstance(value, (str, Linkable)):
        return list(value)
    return [value]
