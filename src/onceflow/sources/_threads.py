"""Runs blocking work of sources in a few threads of their own, each call with a time limit.

A thread cannot be stopped from outside. So a resource whose call ran out of time is remembered until that call has
returned, and is refused meanwhile: one dead mount or host takes one thread, however often its watcher is restarted.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from onceflow.model.errors import SourceError

T = TypeVar("T")

THREADS = 16

_overdue: dict[str, Future[Any]] = {}


@functools.cache
def _executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="onceflow-source")


async def in_thread(resource: str, timeout: float, work: Callable[..., T], *arguments: Any) -> T:
    """Run `work(*arguments)` in a thread and return its result.

    Raises SourceError naming `resource` when it takes longer than `timeout` seconds, or when an earlier call on the
    same resource that did has still not returned.
    """
    if resource in _overdue:
        raise SourceError("the last look at it still hangs", where=resource, remedy="is the host or mount alive?")
    future = _executor().submit(work, *arguments)
    try:
        async with asyncio.timeout(timeout):
            return await asyncio.wrap_future(future)
    except TimeoutError:
        if future.cancelled():
            raise SourceError(f"all {THREADS} source threads were busy for {timeout:g} s", where=resource) from None
        if future.done():
            raise
        _overdue[resource] = future
        future.add_done_callback(lambda _: _overdue.pop(resource, None))
        raise SourceError(f"no answer within {timeout:g} s", where=resource) from None
