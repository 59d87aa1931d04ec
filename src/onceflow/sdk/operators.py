"""The small operators: Python functions, shell commands, nothing, branches, short circuits."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from onceflow.model.errors import DagError
from onceflow.sdk.exceptions import FailTask, SkipTask
from onceflow.sdk.operator import BaseOperator
from onceflow.sdk.outcome import Branch, ShortCircuit

if TYPE_CHECKING:
    from onceflow.sdk.context import Context
    from onceflow.sdk.typed import TaskOptions


class EmptyOperator(BaseOperator):
    """Does nothing; a point where edges meet."""

    kind = "empty"

    def execute(self, context: Context) -> None:
        """Nothing to do."""


class PythonOperator(BaseOperator):
    """Calls a function; what it returns is the result. Async functions are awaited."""

    template_fields: ClassVar[Sequence[str]] = ("templates_dict", "op_args", "op_kwargs")

    def __init__(
        self,
        *,
        task_id: str,
        python_callable: Callable[..., Any],
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        templates_dict: dict[str, Any] | None = None,
        templates_exts: Sequence[str] | None = None,
        multiple_outputs: bool = False,
        **options: Unpack[TaskOptions],
    ) -> None:
        super().__init__(task_id=task_id, **options)
        if not callable(python_callable):
            remedy = "pass the function itself, not its result"
            raise DagError(
                f"{self.described} has the python_callable {python_callable!r}", where=self.where, remedy=remedy
            )
        self.python_callable = python_callable
        self.op_args = list(op_args or ())
        self.op_kwargs = dict(op_kwargs or {})
        self.templates_dict = templates_dict
        self.multiple_outputs = multiple_outputs

    def execute(self, context: Context) -> Any:
        if self.templates_dict is not None:
            context["templates_dict"] = self.templates_dict
        return call(self.python_callable, self.op_args, self.op_kwargs, context)


class BranchPythonOperator(PythonOperator):
    """Calls a function that returns the ids of the tasks to go on with; the others directly behind it are skipped."""

    kind = "branch"

    def execute(self, context: Context) -> Branch:
        return Branch.of(super().execute(context), self)


class ShortCircuitOperator(PythonOperator):
    """Calls a function; if it returns something false, what stands behind is skipped."""

    kind = "short_circuit"

    def execute(self, context: Context) -> Any:
        value = super().execute(context)
        return value if value else ShortCircuit(value, self.ignore_downstream_trigger_rules)


class BashOperator(BaseOperator):
    """Runs a shell command; the last line it prints is the result."""

    kind = "bash"
    template_fields: ClassVar[Sequence[str]] = ("bash_command", "env", "cwd")

    def __init__(
        self,
        *,
        task_id: str,
        bash_command: str,
        env: Mapping[str, str] | None = None,
        append_env: bool = False,
        cwd: str | None = None,
        skip_on_exit_code: int | Collection[int] | None = 99,
        output_encoding: str = "utf-8",
        output_processor: Callable[[str], Any] | None = None,
        **options: Unpack[TaskOptions],
    ) -> None:
        super().__init__(task_id=task_id, **options)
        self.bash_command = bash_command
        self.env = env
        self.append_env = append_env
        self.cwd = cwd
        codes = [skip_on_exit_code] if isinstance(skip_on_exit_code, int) else skip_on_exit_code
        self.skip_on_exit_code = frozenset(codes or ())
        self.output_encoding = output_encoding
        self.output_processor = output_processor

    def execute(self, context: Context) -> Any:
        from onceflow.sdk.shell import run_shell

        last, code = run_shell(self.bash_command, self.env, self.append_env, self.cwd, self.output_encoding)
        if code in self.skip_on_exit_code:
            raise SkipTask(f"the command ended with code {code}")
        if code:
            raise FailedCommand(f"the command ended with code {code}")
        return self.output_processor(last) if self.output_processor is not None else last


class FailedCommand(Exception):
    """A shell command ended with a code other than 0."""


def call(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], context: Context) -> Any:
    """Call a task's function with what it wants of the context; run it if async, drain it if it yields Metadata."""
    arguments = {**wanted(function, len(args), kwargs, context), **kwargs}
    result = function(*args, **arguments)
    if result is None:
        return None
    if inspect.iscoroutine(result):
        import asyncio

        return asyncio.run(result)
    if inspect.isgenerator(result):
        return drain(result, context)
    return result


def wanted(function: Callable[..., Any], taken: int, given: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """The context's values that the function names as parameters; all of them if it takes `**kwargs`."""
    found: dict[str, Any] = {}
    parameters = signature_of(function)
    for index, (name, positional, takes_all) in enumerate(parameters):
        if takes_all:
            first = [other for other, _, _ in parameters[:taken]]
            return {key: value for key, value in context.items() if key not in first} | found
        if name in context and name not in given and not (positional and index < taken):
            found[name] = context[name]
    return found


Signature = tuple[tuple[str, bool, bool], ...]


def signature_of(function: Callable[..., Any]) -> Signature:
    """The function's parameters: name, whether it may be given by position, whether it is the `**kwargs`."""
    if getattr(function, "__hash__", None) is None:
        return _inspect(function)
    return _remembered(function)


@functools.cache
def _remembered(function: Callable[..., Any]) -> Signature:
    return _inspect(function)


def _inspect(function: Callable[..., Any]) -> Signature:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # built in
        return ()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple((n, p.kind in positional, p.kind is p.VAR_KEYWORD) for n, p in parameters.items())


def drain(generator: Any, context: Context) -> Any:
    """Take each Metadata that a task yields; the generator's return value is the result."""
    from onceflow.sdk.asset import Metadata

    while True:
        try:
            item = next(generator)
        except StopIteration as stop:
            return stop.value
        if not isinstance(item, Metadata):
            raise FailTask(f"a task may yield Metadata(asset, extra), it yielded {item!r}")
        event = context["outlet_events"][item.asset]
        if item.key is None:
            event.extra.update(item.extra)
        else:
            event.add(item.extra, key=item.key)
