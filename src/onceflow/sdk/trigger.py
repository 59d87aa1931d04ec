"""Triggers: async code that notices changes of an asset and yields an event for each.

    class NewRows(BaseEventTrigger):
        def __init__(self, table: str) -> None:
            self.table = table

        def serialize(self):
            return "my_triggers.NewRows", {"table": self.table}

        async def run(self):
            last = self.cursor or 0
            while True:
                for row in await rows_after(self.table, last):
                    last = row.id
                    yield TriggerEvent({"id": row.id}, key=str(row.id), cursor=last)
                self.observed()
                await asyncio.sleep(1)

`yield` returns only once the event is committed together with its cursor; what stands after it is the acknowledgement.
A trigger that is taken over starts again with the last committed cursor in `self.cursor`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from onceflow.model.message import MessageId

if TYPE_CHECKING:
    import logging


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = _Unset()


@dataclass(frozen=True)
class TriggerEvent:
    """One change that a trigger noticed.

    payload:    any JSON value; becomes the event's extra.
    key:        identity of the change on its asset (1 to 1,024 bytes); the same key is the same change. None: the key
                that the watcher or the asset declares, if one does.
    cursor:     any JSON value to be stored with the event, in one transaction; UNSET leaves the stored cursor as it is.
    message_id: what the broker calls the message; identifies the change if nothing gives it a key.
    """

    payload: Any = None
    key: str | None = None
    cursor: Any = UNSET
    message_id: MessageId | None = None


@dataclass(frozen=True)
class Checkpoint:
    """Stores a cursor without an event: what was seen so far held nothing to report."""

    cursor: Any


Yieldable = TriggerEvent | Checkpoint | list[TriggerEvent]


class BaseTrigger(ABC):
    """Base of all triggers. `serialize` gives the class's import path and the arguments that rebuild it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()

    @abstractmethod
    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return ("package.module.Class", arguments); the arguments are JSON values, tuples, dates or timedeltas."""

    @abstractmethod
    def run(self) -> AsyncIterator[Any]:
        """Yield a TriggerEvent per change (or a list of them: one transaction), for ever."""

    @property
    def log(self) -> logging.Logger:
        """The trigger's logger."""
        from logging import getLogger

        return getLogger(f"{type(self).__module__}.{type(self).__qualname__}")

    async def cleanup(self) -> None:
        """Called when the trigger stops, whatever the reason, unless its process died."""


class BaseEventTrigger(BaseTrigger):
    """A trigger that may watch an asset. One whose `__init__` takes arguments of its own needs a `serialize`, too.

    cursor:       the cursor that was committed last; None at first
    has_key:      whether it gives its changes keys; None: see whether its code calls something with `key=`
    has_cursor:   whether it stores cursors; None: see whether its code calls something with `cursor=`, or a Checkpoint
    redelivery_horizon: how long after a change its source may tell of it again, for those who choose how long changes
                        are protected; None: not known; timedelta.max: at any time
    ordered:            every change has a message id with a whole number, and those of one source are told in rising
                        order, gaps allowed; only such triggers may watch an asset with protection="high-water"
    """

    redelivery_horizon: ClassVar[timedelta | None] = None
    ordered: ClassVar[bool] = False
    cursor: Any = None
    has_key: ClassVar[bool | None] = None
    has_cursor: ClassVar[bool | None] = None
    _report: Callable[[], None] | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        kind = type(self)
        if kind.__init__ is not BaseTrigger.__init__:
            raise NotImplementedError("a trigger with an __init__ of its own says how it is made again")
        return f"{kind.__module__}.{kind.__qualname__}", {}

    @property
    def silent_after(self) -> float | None:
        """After how many seconds without an observation it counts as silent; None: it makes no promise."""
        return None

    def observed(self) -> None:
        """Say that the source was looked at successfully just now, whether or not anything had changed."""
        if self._report is not None:
            self._report()
