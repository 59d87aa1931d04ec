"""Watches files: those that appear and those that change, and on request those that go away.

    AssetWatcher("inbox", trigger=FileTrigger("/data/inbox/*.csv"))

key     the path with the file's size and modification time, or with the digest of its content (`identity="content"`).
        The same file in the same state is the same change, whoever notices it.
cursor  the states that were told, as one short hash each (a few bytes per file), and with `removed` also the names of
        the files that are there. States of files that went away are remembered too, as far as `max_files` has room, so
        that a mount that comes and goes, or a file moved out and back, is no change.

A file is told when it was the same in two looks `settle` seconds apart, so that nobody is handed half a file. Writers
that rename finished files into place need no such wait: `settle=0`. Between two looks only the last state is seen.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from onceflow.model.clock import boot_seconds
from onceflow.model.errors import DagError, SourceError
from onceflow.sdk.trigger import TriggerEvent
from onceflow.sources._files_memory import Memory, Settling, mark
from onceflow.sources._files_scan import State, digests, place, scan
from onceflow.sources._threads import in_thread
from onceflow.sources._wake import Listener
from onceflow.sources.poll import Polled, PollTrigger

KEY_LIMIT = 1024  # bytes
SCAN_SECONDS = 60.0
DIGEST_SECONDS = 600.0


class FileTrigger(PollTrigger):
    """Watches the files that a path or pattern names.

    path:      absolute, or beginning with ~. A pattern (`/data/*.csv`, `/data/**/*.csv`) watches the files it matches,
               a directory those directly in it, a file itself. A directory that may be missing is written with a "/"
               at its end. Names that begin with a dot are left out unless the pattern names such.
    interval:  seconds between looks, or a timedelta. On a local disk a change also wakes it at once.
    settle:    how long a file must have been unchanged, in seconds.
    existing:  whether files that are there when a new watcher first looks are told, or only what comes later (default).
               If the directory is missing at that time, all that is in it once it is there is told.
    removed:   whether files that went away are told, with `removed` true.
    identity:  "stat" (size and modification time) or "content" (a digest; touching a file is then no change).
    max_files: how many files may match; more are an error.
    """

    redelivery_horizon = timedelta.max  # an old state of a file may come back, with its old time
    poll_timeout = None  # looks have time limits of their own
    interval = 5.0

    def __init__(
        self,
        path: str,
        *,
        interval: float | timedelta | None = None,
        settle: float = 1.0,
        existing: bool = False,
        removed: bool = False,
        identity: Literal["stat", "content"] = "stat",
        max_files: int = 5000,
    ) -> None:
        seconds = interval.total_seconds() if isinstance(interval, timedelta) else interval
        given = {
            "interval": (seconds, None),
            "settle": (settle, 1.0),
            "existing": (existing, False),
            "removed": (removed, False),
            "identity": (identity, "stat"),
            "max_files": (max_files, 5000),
        }
        self.place = place(path)
        super().__init__(path=path, **{name: value for name, (value, default) in given.items() if value != default})
        if identity not in ("stat", "content"):
            raise DagError(f"identity={identity!r} is not allowed", where="FileTrigger", remedy="stat or content")
        if settle < 0 or max_files < 1:
            raise DagError("settle must be 0 or more, max_files 1 or more", where="FileTrigger")
        self.settle = settle
        self.existing = existing
        self.removed = removed
        self.identity = identity
        self.max_files = max_files
        self._dealt_with: dict[str, tuple[State, str]] = {}  # by path: the state, and how it is remembered
        self._settling = Settling(settle)
        self._listener: Listener | None = None

    async def poll(self, cursor: Any) -> Polled:
        memory = Memory.read(cursor, self.removed)
        try:
            files = await in_thread(str(self.place), SCAN_SECONDS, scan, self.place, self.max_files)
        except SourceError as exc:
            if cursor is None and exc.code == "source_not_found":
                return Polled(cursor=memory.write(0, ()), more=True)  # nothing is there: all that comes will be new
            raise
        if self._listener is None:
            self._listener = Listener(self.place.directories, recursive=self.place.recursive)
        baseline = cursor is None and not self.existing
        changed = self._changed(files, memory)
        ready = list(changed) if baseline else self._settling.settled(changed, boot_seconds())
        events = await self._learn([(path, files[path]) for path in ready if path in files], memory)
        events += [_removed(path, memory.forget(path)) for path in ready if path not in files]
        self._dealt_with = {path: known for path, known in self._dealt_with.items() if path in files}
        in_use = {marked for _, marked in self._dealt_with.values()}
        return Polled([] if baseline else events, memory.write(self.max_files, in_use))

    def delay(self) -> float:
        due = self._settling.due(boot_seconds())
        return super().delay() if due is None else min(due, self.interval)

    async def rest(self, seconds: float) -> None:
        if self._listener is None:
            await super().rest(seconds)
        else:
            await self._listener.wait(seconds, at_least=self.least_rest())

    async def cleanup(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _changed(self, files: dict[str, State], memory: Memory) -> dict[str, State | None]:
        """The paths whose state this trigger has not dealt with; None for a file that went away."""
        changed: dict[str, State | None] = {}
        for path, state in files.items():
            if path in self._dealt_with and self._dealt_with[path][0] == state:
                continue
            marked = mark(path, _version(state))
            if self.identity == "stat" and memory.knows(marked):
                self._dealt_with[path] = (state, marked)
            else:
                changed[path] = state
        changed.update(dict.fromkeys(memory.gone(files)))
        return changed

    async def _learn(self, files: list[tuple[str, State]], memory: Memory) -> list[TriggerEvent]:
        """Remember files in their states; an event for each that is new, oldest first."""
        versions = {path: _version(state) for path, state in files}
        if self.identity == "content":
            found = await in_thread(str(self.place), DIGEST_SECONDS, digests, dict(files))
            versions = {path: f"sha256:{value}" for path, value in found.items()}
        events = []
        for path, state in sorted(files, key=lambda file: (file[1].mtime_ns, file[0])):
            if path not in versions:
                continue  # it went away meanwhile
            marked = mark(path, versions[path])
            self._dealt_with[path] = (state, marked)
            if memory.learn(path, state, marked):
                events.append(_told(path, state, versions[path]))
        return events


def _version(state: State) -> str:
    return f"{state.size}:{state.mtime_ns}"


def _told(path: str, state: State, version: str) -> TriggerEvent:
    payload = _payload(path, state, removed=False)
    if version.startswith("sha256:"):
        payload["sha256"] = version.removeprefix("sha256:")
    return TriggerEvent(payload, key=_key(path, version))


def _removed(path: str, state: State) -> TriggerEvent:
    return TriggerEvent(_payload(path, state, removed=True), key=_key(path, f"removed:{_version(state)}"))


def _payload(path: str, state: State, *, removed: bool) -> dict[str, Any]:
    seconds, nanos = divmod(state.mtime_ns, 1_000_000_000)
    mtime = datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000)
    text = mtime.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return {"path": path, "size": state.size, "mtime": text, "mtime_ns": state.mtime_ns, "removed": removed}


def _key(path: str, version: str) -> str:
    """The change's key; a path too long for one is represented by its digest."""
    key = f"{path}:{version}"
    if len(key.encode()) <= KEY_LIMIT:
        return key
    return f"blake2b:{hashlib.blake2b(path.encode(), digest_size=16).hexdigest()}:{version}"
