"""Sensors: tasks that look again and again until something is there. They hold their worker slot while they wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from onceflow.sdk import options as table
from onceflow.sdk.exceptions import SkipTask, TaskError
from onceflow.sdk.operator import BaseOperator
from onceflow.sdk.operators import call

if TYPE_CHECKING:
    from onceflow.sdk.context import Context


class SensorTimeout(TaskError):
    """A sensor waited for its whole timeout. It is not tried again."""


@dataclass
class PokeReturnValue:
    """What a poke found: whether the wait is over, and the result if it is."""

    is_done: bool
    xcom_value: Any = None

    def __bool__(self) -> bool:
        return self.is_done


class BaseSensorOperator(BaseOperator):
    """Calls `poke(context)` every `poke_interval` until it is true; after `timeout` fails, or skips if `soft_fail`."""

    kind: ClassVar[str] = "sensor"

    def __init__(
        self,
        *,
        task_id: str,
        poke_interval: timedelta | float = 60,
        timeout: timedelta | float = 7 * 24 * 3600,
        soft_fail: bool = False,
        mode: str = "poke",
        exponential_backoff: bool = False,
        max_wait: timedelta | float | None = None,
        silent_fail: bool = False,
        never_fail: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(task_id=task_id, **options)
        seconds = table.Option(0.0, table.seconds)
        self.poke_interval = table.convert(
            "poke_interval", seconds, poke_interval, owner=self.described, where=self.where
        )
        self.timeout = table.convert("timeout", seconds, timeout, owner=self.described, where=self.where)
        self.soft_fail = soft_fail
        given = {"mode": mode, "exponential_backoff": exponential_backoff, "max_wait": max_wait}
        given |= {"silent_fail": silent_fail, "never_fail": never_fail}
        self.warnings += table.warnings_for(given, SENSOR_IGNORED, self.described, self.where)

    def poke(self, context: Context) -> bool | PokeReturnValue:
        """Look once."""
        raise NotImplementedError(f"{type(self).__name__} has no poke(context)")

    def execute(self, context: Context) -> Any:
        until = time.monotonic() + self.timeout
        while True:
            found = self.poke(context)
            if found:
                return found.xcom_value if isinstance(found, PokeReturnValue) else None
            if time.monotonic() + self.poke_interval > until:
                message = f"nothing was found within {self.timeout:g} s"
                raise SkipTask(message) if self.soft_fail else SensorTimeout(message)
            time.sleep(self.poke_interval)


SENSOR_IGNORED: Mapping[str, tuple[Any, ...]] = {
    "mode": ("poke",),
    "exponential_backoff": (False,),
    "max_wait": (),
    "silent_fail": (False,),
    "never_fail": (False,),
}


class PythonSensor(BaseSensorOperator):
    """A sensor whose poke is a function."""

    template_fields: ClassVar[Sequence[str]] = ("op_args", "op_kwargs")

    def __init__(
        self,
        *,
        task_id: str,
        python_callable: Callable[..., Any],
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        multiple_outputs: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(task_id=task_id, **options)
        self.python_callable = python_callable
        self.op_args = list(op_args or ())
        self.op_kwargs = dict(op_kwargs or {})
        self.multiple_outputs = multiple_outputs

    def poke(self, context: Context) -> bool | PokeReturnValue:
        found = call(self.python_callable, self.op_args, self.op_kwargs, context)
        return found if isinstance(found, PokeReturnValue) else PokeReturnValue(bool(found))
