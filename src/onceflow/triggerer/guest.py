"""The triggerer's guest side: runs triggers on one event loop. Only here triggers' code runs.

`python -m onceflow.triggerer.guest SOCKET MARK STACKS FOLDER`: the socket to the host, a file in shared memory where
the watcher now running is marked, a file for stack dumps, the DAG folder.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import mmap
import os
import signal
import socket
import sys
import traceback
from collections.abc import Coroutine, Generator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from onceflow.guest import channel, lifeline
from onceflow.guest.loader import prepare
from onceflow.guest.refresh import load_current
from onceflow.model.errors import DagError, InputError
from onceflow.model.event_filter import Filter, judge_payload
from onceflow.model.limits import check_extra, check_key
from onceflow.model.message import MessageId
from onceflow.model.serialize import decode, dumps
from onceflow.model.text import flaw_text, message_of, shortened, storable
from onceflow.sdk.trigger import UNSET, BaseEventTrigger, Checkpoint, TriggerEvent
from onceflow.triggerer.canaries import Canaries

if TYPE_CHECKING:
    from onceflow.guest.keys import KeyOf

ALIVE_SECONDS = 0.5
MARK_BYTES = 8

running_watcher: ContextVar[int] = ContextVar("running_watcher", default=0)


class TriggerExit(Exception):
    """A trigger tried to end its process."""


@dataclass(frozen=True)
class Keyed:
    """An asset whose changes get their keys from a function: its id, as text, and which changes are its own."""

    asset: str
    match: Filter | None
    key_of: KeyOf


class Marked(Coroutine[Any, Any, Any]):
    """A coroutine that leaves its watcher's mark while it runs, so that the host can name who blocks the loop."""

    __slots__ = ("_bytes", "_coroutine", "_mark")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], mark: mmap.mmap, watcher: int) -> None:
        self._coroutine = coroutine
        self._mark = mark
        self._bytes = watcher.to_bytes(MARK_BYTES, "big")

    def send(self, value: Any) -> Any:
        self._mark[:MARK_BYTES] = self._bytes
        try:
            result = self._coroutine.send(value)
        except (SystemExit, KeyboardInterrupt) as error:
            self._mark[:MARK_BYTES] = bytes(MARK_BYTES)
            raise TriggerExit(f"the trigger tried to end its process: {error!r}") from error
        except BaseException:
            self._mark[:MARK_BYTES] = bytes(MARK_BYTES)
            raise
        self._mark[:MARK_BYTES] = bytes(MARK_BYTES)
        return result

    def throw(self, *error: Any) -> Any:
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coroutine, name)


class Guest:
    """Runs triggers as the host says, over one socket."""

    def __init__(self, sock: socket.socket, mark: mmap.mmap, folder: str) -> None:
        self._sock = sock
        self._mark = mark
        self._folder = folder
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._acks: dict[int, asyncio.Future[None]] = {}
        self._observed: set[int] = set()
        self._canaries = Canaries()

    async def run(self) -> None:
        """Obey the host until it closes the socket."""
        asyncio.get_running_loop().set_task_factory(self._make_task)
        reader, writer = await asyncio.open_connection(sock=self._sock)
        self._writer = writer
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tell_alive())
            while (order := await _read(reader)) is not None:
                self._obey(order, group)
            os._exit(0)  # the host is gone

    def _obey(self, order: dict[str, Any], group: asyncio.TaskGroup) -> None:
        watcher = order["watcher"]
        match order["op"]:
            case "start":
                token = running_watcher.set(watcher)
                self._tasks[watcher] = group.create_task(self._drive(order))
                running_watcher.reset(token)
            case "stop":
                self._acks.pop(watcher, None)
                self._canaries.remove(watcher)
                if task := self._tasks.pop(watcher, None):
                    task.cancel()
            case "ack":
                if (ack := self._acks.pop(watcher, None)) and not ack.done():
                    ack.set_result(None)

    def _make_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        watcher = running_watcher.get()
        if watcher and asyncio.iscoroutine(coroutine):
            coroutine = Marked(coroutine, self._mark, watcher)
        return asyncio.Task(coroutine, loop=loop, **options)

    async def _drive(self, order: dict[str, Any]) -> None:
        """Run one trigger to its end and tell the host how it ended."""
        watcher, term, canary = order["watcher"], order["term"], order["canary"]
        trigger: BaseEventTrigger | None = None
        try:
            trigger = await self._make_trigger(order)
            keyed = await self._find_keys(order)
            del order  # there may be thousands of these coroutines
            self._send({"started": watcher, "term": term})
            self._canaries.add(watcher, term, canary)
            number = 0
            async for event in trigger.run():
                number += 1
                await self._deliver(watcher, term, batch(event, keyed) | {"n": number})
            self._send({"ended": watcher, "term": term})
        except BaseException as error:
            if self._is_current(watcher):  # else it was told to stop, and this is how it does
                self._send({"failed": watcher, "term": term, "error": describe(error)})
        finally:
            if self._is_current(watcher):
                self._tasks.pop(watcher, None)
                self._acks.pop(watcher, None)
                self._canaries.remove(watcher)
            if trigger is not None:
                await _clean_up(trigger)

    async def _make_trigger(self, order: dict[str, Any]) -> BaseEventTrigger:
        found = await asyncio.to_thread(load_current, order["classpath"], order["file"], self._folder, order["code"])
        trigger = found(**decode(order["kwargs"]))
        if not isinstance(trigger, BaseEventTrigger):
            raise DagError(
                f"{order['classpath']} is no BaseEventTrigger", remedy="only event triggers may watch assets"
            )
        trigger.cursor = decode(order["cursor"])
        trigger._report = partial(self._look, order["watcher"])
        return trigger

    async def _find_keys(self, order: dict[str, Any]) -> list[Keyed]:
        """The assets whose key functions the watcher's payloads are given to."""
        if not order["keys"]:
            return []
        from onceflow.guest.keys import key_function  # with what compiles DAGs, which few watchers need

        return [
            Keyed(
                str(k["asset_id"]),
                k["match"],
                await asyncio.to_thread(key_function, k["file"], self._folder, k["asset"], k["name"]),
            )
            for k in order["keys"]
        ]

    async def _deliver(self, watcher: int, term: int, yielded: dict[str, Any]) -> None:
        """Hand what was yielded to the host; returns once it is committed."""
        if not self._is_current(watcher):
            raise asyncio.CancelledError  # told to stop, it went on; perhaps it has a successor here
        self._look(watcher)
        ack = self._acks[watcher] = asyncio.get_running_loop().create_future()
        self._send(yielded | {"batch": watcher, "term": term})
        await self._writer.drain()
        await ack

    def _look(self, watcher: int) -> None:
        """The watcher's source was looked at."""
        self._observed.add(watcher)
        if noticed := self._canaries.noticed(watcher):
            self._send(noticed)

    def _is_current(self, watcher: int) -> bool:
        """Whether the running task is the trigger's last start, not told to stop."""
        return self._tasks.get(watcher) is asyncio.current_task()

    async def _tell_alive(self) -> None:
        while True:
            observed, self._observed = self._observed, set()
            self._send({"alive": sorted(observed)})
            self._canaries.make()
            await asyncio.sleep(ALIVE_SECONDS)

    def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(channel.pack(message))


def batch(yielded: Any, keyed: Sequence[Keyed] = ()) -> dict[str, Any]:
    """What a trigger yielded, as a message: events (extra as JSON text, key), and the cursor's text if there is one.

    `keyed` give keys to events that have none of their own: the field `keys`, by asset; where they cannot, `flaws` say
    why. `flaw`: the event cannot be stored as it was told; `keyless`: nor can its key.
    """
    if isinstance(yielded, Checkpoint):
        return {"events": [], "cursor": dumps(yielded.cursor, "cursor")}
    events = yielded if isinstance(yielded, list) else [yielded]
    message: dict[str, Any] = {"events": []}
    for event in events:
        if not isinstance(event, TriggerEvent):
            raise InputError(
                f"a trigger yielded {type(event).__name__}",
                remedy="yield a TriggerEvent, a list of them or a Checkpoint",
            )
        message["events"].append(_event(event, keyed))
        if event.cursor is not UNSET:
            message["cursor"] = dumps(event.cursor, "cursor")
    return message


def _event(event: TriggerEvent, keyed: Sequence[Keyed]) -> dict[str, Any]:
    extra = dumps(event.payload, "payload")
    told: dict[str, Any] = _sized(extra) | {"key": event.key}
    if event.key is not None:
        told |= _checked(event.key)
    elif keyed:
        told |= _keys(event.payload, extra, keyed)
    if event.message_id is None:
        return told
    if not isinstance(event.message_id, MessageId):
        raise InputError(f"message_id is {event.message_id!r}", where="message_id", remedy="give a MessageId")
    event.message_id.check("message_id")
    return told | {"message": event.message_id.as_dict()}


def _sized(extra: str) -> dict[str, Any]:
    """The payload; of one that is too large what is needed to find it again, and the flaw."""
    try:
        check_extra(extra, "payload")
    except InputError as error:
        from hashlib import blake2b

        kept = {
            "bytes": len(extra),
            "blake2b": blake2b(extra.encode(), digest_size=16).hexdigest(),
            "begins": extra[:1000],
        }
        return {"extra": dumps({"too_large": kept}), "flaw": flaw_text(str(error))}
    return {"extra": extra}


def _checked(key: str) -> dict[str, Any]:
    """Nothing, if the key is one; else that there is none, and the flaw. Raises InputError for what is no text."""
    try:
        check_key(key, "key")
    except InputError as error:
        if not isinstance(key, str):
            raise
        return {"key": None, "keyless": True, "flaw": flaw_text(str(error))}
    return {}


def _keys(payload: Any, extra: str, keyed: Sequence[Keyed]) -> dict[str, dict[str, str]]:
    """The keys of a payload for the assets that it matches, and why there is none."""
    keys: dict[str, str] = {}
    flaws: dict[str, str] = {}
    for k in keyed:
        if k.match is not None and not judge_payload(k.match, json.loads(extra)).accepted:
            continue
        try:
            key = k.key_of(payload)
            check_key(key, "key")
            keys[k.asset] = key
        except InputError as error:
            flaws[k.asset] = flaw_text(error.message)
    return {"keys": keys, "flaws": flaws}


def describe(error: BaseException) -> dict[str, str]:
    """An error as type, message and traceback."""
    lines = traceback.format_exception(error)
    return {
        "type": type(error).__name__,
        "message": message_of(error) or type(error).__name__,
        "traceback": storable(shortened("".join(lines))),
    }


async def _clean_up(trigger: BaseEventTrigger) -> None:
    try:
        async with asyncio.timeout(1):
            await trigger.cleanup()
    except BaseException as error:
        print(
            f"cleanup of {type(trigger).__name__} failed: {type(error).__name__}: {message_of(error)}", file=sys.stderr
        )


async def _read(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    try:
        length = int.from_bytes(await reader.readexactly(4), "big")
        return json.loads(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def main() -> None:
    lifeline.die_with_parent(os.getppid())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sock, mark, stacks = (int(a) for a in sys.argv[1:4])
    faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=False)
    prepare(sys.argv[4])
    guest = Guest(socket.socket(fileno=sock), mmap.mmap(mark, MARK_BYTES), sys.argv[4])
    try:
        asyncio.new_event_loop().run_until_complete(guest.run())
    except BaseException:
        traceback.print_exc()
    finally:  # at once: cancelling the triggers, as asyncio.run does, would look as if each of them had failed
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    main()
