"""Polling: turns "look at the source and say what is new since this cursor" into a trigger.

    class NewRows(PollTrigger):
        interval = 30

        def __init__(self, table: str) -> None:
            super().__init__(table=table)
            self.table = table

        async def poll(self, cursor):
            rows = await rows_after(self.table, cursor or 0)
            events = [TriggerEvent({"id": row.id}, key=str(row.id)) for row in rows]
            return events, rows[-1].id if rows else cursor

or, for the same thing, a function:

    @poll_trigger(interval=30)
    async def new_rows(cursor, table):
        ...

    AssetWatcher("orders", trigger=new_rows(table="orders"))

The events of one poll are committed in one transaction together with the new cursor, which the next poll is handed.
An exception is the watcher's error: it is shown, and the poll is repeated, with the same cursor, after a back-off.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, NamedTuple
from zoneinfo import ZoneInfo

from onceflow.model.clock import boot_seconds, utcnow
from onceflow.model.errors import DagError, SourceError
from onceflow.sdk.trigger import UNSET, BaseEventTrigger, Checkpoint, TriggerEvent, Yieldable
from onceflow.sources._ticks import ticks

SCHEDULE = ("interval", "cron", "timezone", "immediate", "poll_timeout")
WAKE_SHARE = 10  # a trigger that is woken by changes rests at least this many times what a poll took,
WAKE_LIMIT = 1.0  # but no longer than this many seconds
SLOW_POLL = 600.0  # seconds that a poll without a time limit may take before it counts as silent
CLOCK_STEP = 60.0  # a wait for a cron slot looks at the wall clock again this often


class Polled(NamedTuple):
    """What one poll found; a plain (events, cursor) tuple is as good.

    events: new changes, in the order in which they happened.
    cursor: where the next poll goes on; UNSET: the cursor of the last event that has one, or unchanged.
    more:   the source holds more already: poll again without waiting.
    """

    events: Sequence[TriggerEvent] = ()
    cursor: Any = UNSET
    more: bool = False


class PollTrigger(BaseEventTrigger):
    """Base of triggers that poll. Subclasses write `poll` and pass all their arguments on to `super().__init__`.

    interval:     seconds between the end of a poll and the next, give or take a tenth.
    cron:         a cron expression instead of `interval`; evaluated in `timezone` (default UTC).
    immediate:    poll once at the start (default), so that nothing waits for the first slot after a restart.
    poll_timeout: seconds after which a poll is given up as an error; None: never.

    Each may be set on the class, or given to `super().__init__`, in which case `serialize` repeats it.

    The cursor is stored, and the next owner goes on from it. A class with `has_cursor = False` stores none: `poll` gets
    None after every start, and its events' keys have to tell what is new (that suits `mode="all"`).
    """

    interval: float = 60.0
    cron: str | None = None
    timezone: str = "UTC"
    immediate: bool = True
    poll_timeout: float | None = 60.0
    spent: float = 0.0  # seconds that the last poll took
    jitter: ClassVar[float] = 0.1
    batch: ClassVar[int] = 500
    has_cursor: ClassVar[bool | None] = True

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self.arguments = arguments
        for name in SCHEDULE:
            if arguments.get(name) is not None:
                setattr(self, name, arguments[name])
        if arguments.get("interval") is not None and arguments.get("cron") is None:
            self.cron = None  # the class's, which this trigger's own interval replaces
        _check_schedule(self)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        cls = type(self)
        return f"{cls.__module__}.{cls.__qualname__}", dict(self.arguments)

    @property
    def silent_after(self) -> float | None:
        """Seconds: the longest pause between two looks, what a look may take, and as much again."""
        pause = self.interval if self.cron is None else longest_gap(self.cron, self.timezone)
        return 2 * pause + 2 * (self.poll_timeout or SLOW_POLL)

    async def poll(self, cursor: Any) -> Polled | tuple[Sequence[TriggerEvent], Any]:
        """Look at the source: return the changes after `cursor` (None at the very first time) and the new cursor."""
        raise NotImplementedError(f"{type(self).__name__} must define `async def poll(self, cursor)`")

    async def rest(self, seconds: float) -> None:
        """Wait between two polls; a subclass that can be told of changes returns early."""
        await ticks().sleep(seconds)

    def delay(self) -> float:
        """Seconds until the next poll by `interval`."""
        return self.interval * random.uniform(1 - self.jitter, 1 + self.jitter)

    def least_rest(self) -> float:
        """Seconds to rest even if the source changes all the time, for triggers that are woken by changes."""
        return min(WAKE_SHARE * self.spent, WAKE_LIMIT)

    async def run(self) -> AsyncIterator[Yieldable]:
        if not self.immediate:
            await self._until_next()
        while True:
            began = boot_seconds()
            polled = _checked(await self._timed_poll(), type(self).__name__)
            self.spent = boot_seconds() - began
            self.observed()
            moved = False
            for item in deliveries(polled, self.cursor, self.batch):
                moved = True
                if self.has_cursor:
                    yield item
                elif not isinstance(item, Checkpoint):
                    yield without_cursor(item)
                self.cursor = _cursor_of(item, self.cursor)
            if not (polled.more and moved):
                await self._until_next()

    async def _timed_poll(self) -> Any:
        limit: asyncio.Timeout | None = None
        try:
            async with ticks().limit(self.poll_timeout) as limit:
                return await self.poll(self.cursor)
        except TimeoutError:
            if limit is None or not limit.expired():
                raise
            raise SourceError(f"the poll took longer than {self.poll_timeout:g} s", where=type(self).__name__) from None

    async def _until_next(self) -> None:
        if self.cron is None:
            await self.rest(self.delay())
            return
        slot = next_slot(self.cron, self.timezone, utcnow())
        while (left := (slot - utcnow()).total_seconds()) > 0:
            await asyncio.sleep(min(left, CLOCK_STEP))


def next_slot(cron: str, timezone: str, after: datetime) -> datetime:
    """The first time after `after` that matches the cron expression in the time zone."""
    from cronsim import CronSim

    return next(CronSim(cron, after.astimezone(ZoneInfo(timezone))))


def longest_gap(cron: str, timezone: str) -> float:
    """The longest pause, in seconds, between the next ten times that match."""
    from cronsim import CronSim

    slots = list(itertools.islice(CronSim(cron, utcnow().astimezone(ZoneInfo(timezone))), 10))
    return max((b - a).total_seconds() for a, b in itertools.pairwise(slots)) if len(slots) > 1 else 0.0


def deliveries(polled: Polled, cursor: Any, batch: int) -> Iterator[list[TriggerEvent] | Checkpoint]:
    """What a poll's result is yielded as: lists of up to `batch` events, the last with the cursor, or a Checkpoint."""
    new = polled.cursor
    moved = new is not UNSET and new != cursor
    if moved and not polled.events:
        yield Checkpoint(new)
    for start in range(0, len(polled.events), batch):
        chunk = list(polled.events[start : start + batch])
        if moved and start + batch >= len(polled.events):
            chunk[-1] = replace(chunk[-1], cursor=new)
        yield chunk


def without_cursor(item: list[TriggerEvent]) -> list[TriggerEvent]:
    """The same events, with no cursor to be stored."""
    return [replace(event, cursor=UNSET) for event in item]


def _cursor_of(item: Yieldable, before: Any) -> Any:
    for part in reversed(item) if isinstance(item, list) else (item,):
        if part.cursor is not UNSET:
            return part.cursor
    return before


def _checked(result: Any, name: str) -> Polled:
    if not (isinstance(result, tuple) and 2 <= len(result) <= 3 and isinstance(result[0], Sequence)):
        raise TypeError(f"{name}: a poll returns (events, cursor), not {type(result).__name__}")
    for event in result[0]:
        if not isinstance(event, TriggerEvent):
            raise TypeError(f"{name}: a poll returns TriggerEvents, not {type(event).__name__}")
    return Polled(*result)


def _check_schedule(trigger: PollTrigger) -> None:
    where = type(trigger).__name__
    given = trigger.arguments
    if given.get("interval") is not None and given.get("cron") is not None:
        raise DagError("both interval and cron are given", where=where, remedy="give one of them")
    if not (isinstance(trigger.interval, int | float) and 0 < trigger.interval < math.inf):
        raise DagError(f"interval {trigger.interval!r} is not allowed", where=where, remedy="seconds, more than 0")
    try:
        ZoneInfo(trigger.timezone)
    except (KeyError, ValueError, OSError):
        raise DagError(f"unknown timezone {trigger.timezone!r}", where=where, remedy="such as Europe/Berlin") from None
    if trigger.cron is not None:
        _check_cron(trigger.cron, trigger.timezone, where)


def _check_cron(cron: str, timezone: str, where: str) -> None:
    from cronsim import CronSimError

    try:
        next_slot(cron, timezone, utcnow())
    except CronSimError as exc:
        raise DagError(f"cron expression {cron!r}: {exc}", where=where, remedy="such as */5 * * * *") from None
    except StopIteration:
        raise DagError(f"cron expression {cron!r} never comes", where=where) from None


PollFunction = Callable[..., Awaitable[Polled | tuple[Sequence[TriggerEvent], Any]]]


class _FunctionTrigger(PollTrigger):
    """Base of the classes that `poll_trigger` makes."""

    function: ClassVar[PollFunction]

    def __init__(self, *args: Any, **arguments: Any) -> None:
        schedule = {name: arguments.pop(name) for name in SCHEDULE if name in arguments}
        try:
            bound = inspect.signature(type(self).function).bind(None, *args, **arguments)
        except TypeError as exc:
            raise DagError(str(exc), where=type(self).__qualname__) from None
        self.own = _named(bound)
        super().__init__(**self.own, **schedule)

    async def poll(self, cursor: Any) -> Polled | tuple[Sequence[TriggerEvent], Any]:
        return await type(self).function(cursor, **self.own)


def _named(bound: inspect.BoundArguments) -> dict[str, Any]:
    """A call's arguments by name, without the first one, which is the cursor."""
    named: dict[str, Any] = {}
    for name, value in list(bound.arguments.items())[1:]:
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        else:
            named[name] = value
    return named


def poll_trigger(
    *,
    interval: float | timedelta | None = None,
    cron: str | None = None,
    timezone: str | None = None,
    immediate: bool | None = None,
    poll_timeout: float | None = None,
) -> Callable[[PollFunction], type[PollTrigger]]:
    """Make a trigger class of `async def function(cursor, **arguments)`, which returns (events, new cursor).

    Calling the class with the function's arguments (all but the cursor) makes a trigger of it. There too `interval`,
    `cron`, `timezone`, `immediate` and `poll_timeout` may be given, for that one trigger. The function must be at the
    top of an importable module, because the trigger is rebuilt by its name elsewhere.

    Raises DagError for a function that cannot be used, or a schedule that is not allowed.
    """
    seconds = interval.total_seconds() if isinstance(interval, timedelta) else interval
    given = {
        "interval": seconds,
        "cron": cron,
        "timezone": timezone,
        "immediate": immediate,
        "poll_timeout": poll_timeout,
    }
    settings = {name: value for name, value in given.items() if value is not None}

    def make(function: PollFunction) -> type[PollTrigger]:
        _check_function(function)
        body = {
            **settings,
            "function": staticmethod(function),
            "__module__": function.__module__,
            "__qualname__": function.__qualname__,
            "__doc__": function.__doc__,
        }
        return type(function.__name__, (_FunctionTrigger,), body)

    if interval is not None and cron is not None:
        raise DagError("both interval and cron are given", where="poll_trigger", remedy="give one of them")
    return make


def _check_function(function: PollFunction) -> None:
    where = f"{function.__module__}.{function.__qualname__}"
    if not inspect.iscoroutinefunction(function):
        raise DagError("a poll function is an async def", where=where)
    if "<locals>" in function.__qualname__:
        raise DagError("a poll function inside another function cannot be found again", where=where)
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise DagError("a poll function's first parameter is the cursor", where=where)
    for parameter in parameters[1:]:
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
            raise DagError(f"a poll function's arguments have names; {parameter.name} has none", where=where)
        if parameter.name in SCHEDULE:
            raise DagError(f"a poll function cannot have a parameter named {parameter.name}", where=where)
