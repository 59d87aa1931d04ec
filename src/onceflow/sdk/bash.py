"""`@task.bash`: a function that returns the shell command to run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from onceflow.sdk.exceptions import TaskError
from onceflow.sdk.operators import BashOperator, call

if TYPE_CHECKING:
    from onceflow.sdk.context import Context


class BashFunctionOperator(BashOperator):
    """Calls a function and runs the command that it returns."""

    template_fields: ClassVar[Sequence[str]] = ("op_args", "op_kwargs", "env", "cwd")

    def __init__(
        self,
        *,
        task_id: str,
        python_callable: Callable[..., str],
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        multiple_outputs: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(task_id=task_id, bash_command="", **options)
        self.python_callable = python_callable
        self.op_args = list(op_args or ())
        self.op_kwargs = dict(op_kwargs or {})

    def execute(self, context: Context) -> Any:
        command = call(self.python_callable, self.op_args, self.op_kwargs, context)
        if not isinstance(command, str) or not command.strip():
            raise TaskError(f"a @task.bash function returns a command as text, it returned {command!r}")
        self.bash_command = command
        return super().execute(context)
