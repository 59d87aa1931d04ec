"""`@task` and its relatives: a function becomes a task each time it is called inside a DAG."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, overload

from onceflow.model.errors import DagError
from onceflow.sdk import scope
from onceflow.sdk.context import KEYS, task_is_running
from onceflow.sdk.operator import BaseOperator
from onceflow.sdk.operators import BranchPythonOperator, PythonOperator, ShortCircuitOperator
from onceflow.sdk.where import function_place, here
from onceflow.sdk.xcom import XComArg

if TYPE_CHECKING:
    from onceflow.sdk.typed import PythonTaskOptions, SensorTaskOptions

P = ParamSpec("P")
R = TypeVar("R")


class _Task(PythonOperator):
    kind = "task"


class TaskFactory(Generic[P, R]):
    """A function that makes a task per call; the call gives the task's result, to be passed to other tasks."""

    def __init__(
        self, function: Callable[P, R], operator: Callable[..., BaseOperator], options: Mapping[str, Any]
    ) -> None:
        if not callable(function):
            remedy = "put @task above a function"
            raise DagError(f"@task is given {function!r}", where=here(), remedy=remedy)
        self.function = function
        self.operator = operator
        self.options = dict(options)
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> XComArg:
        if task_is_running():
            name = self.function.__name__
            message = f"@task function {name} is called inside a running task"
            raise DagError(
                message, where=here(), remedy=f"call {name}.function(...) there, or move the call to the DAG"
            )
        self._check(args, kwargs)
        options = dict(self.options)
        task_id = self._free_id(options.pop("task_id", self.function.__name__), options)
        doc = inspect.getdoc(self.function)
        if doc and not any(options.get(name) for name in ("doc", "doc_md", "doc_json", "doc_yaml", "doc_rst")):
            options["doc_md"] = doc
        options.setdefault("multiple_outputs", returns_dict(self.function))
        task = self.operator(task_id=task_id, python_callable=self.function, op_args=args, op_kwargs=kwargs, **options)
        if task.is_teardown:
            task.as_teardown(on_failure_fail_dagrun=task.on_failure_fail_dagrun)
        return XComArg(task)

    def override(self, **options: Unpack[PythonTaskOptions]) -> TaskFactory[P, R]:
        """The same function with other arguments of the task."""
        return TaskFactory(self.function, self.operator, self.options | dict(options))

    def partial(self, **kwargs: Any) -> Any:
        """Mapped tasks are not supported yet."""
        raise DagError("mapped tasks do not exist in Onceflow yet", where=here(), remedy="loop inside one task")

    expand = expand_kwargs = partial

    @functools.cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.function)

    def _check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise DagError if the function cannot be called like this; names of the context may be missing."""
        try:
            signature = self._signature
            bound = signature.bind_partial(*args, **kwargs).arguments
        except TypeError as error:
            place = function_place(self.function)
            remedy = f"the function is defined at {place}" if place else ""
            raise DagError(f"{self.function.__name__}(): {error}", where=here(), remedy=remedy) from None
        for name, parameter in signature.parameters.items():
            required = parameter.default is parameter.empty
            if required and name not in bound and name not in KEYS and parameter.kind not in VARIABLE:
                message = f"{self.function.__name__}() is called without {name}"
                raise DagError(message, where=here(), remedy=f"its arguments are {signature}")

    if not TYPE_CHECKING:

        def __rshift__(self, other: Any) -> Any:
            name = self.function.__name__
            message = f"@task function {name} stands in an order of tasks but is not called"
            raise DagError(message, where=here(), remedy=f"write {name}(...)")

        __lshift__ = __rrshift__ = __rlshift__ = __rshift__

    def _free_id(self, wanted: str, options: Mapping[str, Any]) -> str:
        group = options.get("task_group") or scope.current_group()
        dag = options.get("dag") or (group.dag if group is not None else scope.current_dag())
        if dag is None:
            return wanted
        full = group.child_id(wanted) if group is not None else wanted
        return wanted + dag.free_id(full)[len(full) :]


VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def returns_dict(function: Callable[..., Any]) -> bool:
    """Whether a function says that it returns a dict: then each of its keys is a result of its own, as in Airflow."""
    annotation = getattr(function, "__annotations__", {}).get("return")
    if isinstance(annotation, str):
        return annotation.partition("[")[0] in ("dict", "Dict", "typing.Dict", "Mapping", "typing.Mapping")
    origin = getattr(annotation, "__origin__", annotation)
    return isinstance(origin, type) and issubclass(origin, Mapping)


class TaskDecorator:
    """`@task`, `@task(retries=3)`, and `@task.branch`, `@task.short_circuit`, `@task.bash`, `@task.sensor`."""

    @overload
    def __call__(self, python_callable: Callable[P, R], /) -> TaskFactory[P, R]: ...
    @overload
    def __call__(self, **options: Unpack[PythonTaskOptions]) -> Callable[[Callable[P, R]], TaskFactory[P, R]]: ...
    def __call__(self, python_callable: Any = None, **options: Any) -> Any:
        return _decorate(_Task, python_callable, options)

    @overload
    def python(self, python_callable: Callable[P, R], /) -> TaskFactory[P, R]: ...
    @overload
    def python(self, **options: Unpack[PythonTaskOptions]) -> Callable[[Callable[P, R]], TaskFactory[P, R]]: ...
    def python(self, python_callable: Any = None, **options: Any) -> Any:
        """The same as `@task`."""
        return _decorate(_Task, python_callable, options)

    @overload
    def branch(self, python_callable: Callable[P, R], /) -> TaskFactory[P, R]: ...
    @overload
    def branch(self, **options: Unpack[PythonTaskOptions]) -> Callable[[Callable[P, R]], TaskFactory[P, R]]: ...
    def branch(self, python_callable: Any = None, **options: Any) -> Any:
        """The function returns the id or ids of the tasks to go on with."""
        return _decorate(BranchPythonOperator, python_callable, options)

    @overload
    def short_circuit(self, python_callable: Callable[P, R], /) -> TaskFactory[P, R]: ...
    @overload
    def short_circuit(self, **options: Unpack[PythonTaskOptions]) -> Callable[[Callable[P, R]], TaskFactory[P, R]]: ...
    def short_circuit(self, python_callable: Any = None, **options: Any) -> Any:
        """If the function returns something false, what stands behind is skipped."""
        return _decorate(ShortCircuitOperator, python_callable, options)

    @overload
    def bash(self, python_callable: Callable[P, str], /) -> TaskFactory[P, str]: ...
    @overload
    def bash(self, **options: Any) -> Callable[[Callable[P, str]], TaskFactory[P, str]]: ...
    def bash(self, python_callable: Any = None, **options: Any) -> Any:
        """The function returns the shell command to run."""
        from onceflow.sdk.bash import BashFunctionOperator

        return _decorate(BashFunctionOperator, python_callable, options)

    @overload
    def sensor(self, python_callable: Callable[P, Any], /) -> TaskFactory[P, Any]: ...
    @overload
    def sensor(self, **options: Unpack[SensorTaskOptions]) -> Callable[[Callable[P, Any]], TaskFactory[P, Any]]: ...
    def sensor(self, python_callable: Any = None, **options: Any) -> Any:
        """The function is called again and again until it returns something true or a PokeReturnValue that is done."""
        from onceflow.sdk.sensor import PythonSensor

        return _decorate(PythonSensor, python_callable, options)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            remedy = "there are @task, @task.branch, @task.short_circuit, @task.bash, @task.sensor"
            raise DagError(f"@task.{name} does not exist in Onceflow yet", where=here(), remedy=remedy)


task = TaskDecorator()


def _decorate(operator: Callable[..., BaseOperator], function: Any, options: dict[str, Any]) -> Any:
    if function is not None:
        return TaskFactory(function, operator, options)
    return lambda later: TaskFactory(later, operator, options)


def setup(function: Callable[P, R] | TaskFactory[P, R]) -> TaskFactory[P, R]:
    """Make the tasks of a function setups: `@setup` above a function or above `@task`."""
    return _as_factory(function).override(is_setup=True)


@overload
def teardown(function: Callable[P, R] | TaskFactory[P, R], /) -> TaskFactory[P, R]: ...
@overload
def teardown(*, on_failure_fail_dagrun: bool = False) -> Callable[[Callable[P, R]], TaskFactory[P, R]]: ...
def teardown(function: Any = None, *, on_failure_fail_dagrun: bool = False) -> Any:
    """Make the tasks of a function teardowns: `@teardown` above a function or above `@task`."""

    def decorate(given: Any) -> Any:
        return _as_factory(given).override(is_teardown=True, on_failure_fail_dagrun=on_failure_fail_dagrun)

    return decorate if function is None else decorate(function)


def _as_factory(function: Any) -> TaskFactory[Any, Any]:
    return function if isinstance(function, TaskFactory) else task(function)
