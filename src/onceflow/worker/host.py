"""Runs attempts: starts a guest for each, answers it, sees it end, and puts the report in line to be stored."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import socket
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from onceflow.model.clock import boot_seconds
from onceflow.model.serialize import encode
from onceflow.model.times import to_rfc3339
from onceflow.runtime.frames import Frames
from onceflow.runtime.log import get_logger
from onceflow.runtime.logs import attempt_log
from onceflow.runtime.role import Role
from onceflow.store.tasks import ClaimedTask, Report
from onceflow.store.versions import Version
from onceflow.worker.answers import answer
from onceflow.worker.outcome import Ending, report
from onceflow.worker.templates import (
    FileTemplate,
    Templates,
    keep_source,
    source_file,
    start_fresh,
    took_too_long,
)

TIMEOUT_GRACE = 5.0
STOP_GRACE = 3.0

log = get_logger("onceflow.worker")


@dataclass
class Guest:
    """One attempt under way. Its template knows it by `number`, as two attempts of one task may have a guest each."""

    task: ClaimedTask
    version: Version
    number: int = field(default_factory=itertools.count(1).__next__)
    frames: Frames | None = None
    template: FileTemplate | None = None
    pid: int | None = None
    result: dict[str, Any] | None = None
    ended_by_us: str = ""
    fenced: bool = False
    reported: bool = False
    timer: asyncio.TimerHandle | None = None
    loading: asyncio.TimerHandle | None = None
    since: float = field(default_factory=boot_seconds)

    def kill(self, signum: int = signal.SIGKILL) -> None:
        """Send a signal to the guest and all it started."""
        if self.template is not None:
            self.template.signal(self.number, signum)
        elif self.pid is not None:
            try:
                os.killpg(self.pid, signum)
            except ProcessLookupError:
                return  # it has ended; its exit code is on the way


class Guests:
    """All attempts of this worker. `reports` is the line of those to be stored."""

    def __init__(self, role: Role) -> None:
        self._role = role
        self._templates = Templates(role.settings)
        self._group: asyncio.TaskGroup | None = None
        self.running: dict[UUID, Guest] = {}  # by the attempt's token
        self.reports: list[Report] = []
        self.saturated = False
        """All slots were taken at the last claim: more tasks may be waiting for the next free one."""

    @property
    def free(self) -> int:
        """How many more attempts may start."""
        return self._role.settings.worker_slots - len(self.running)

    def attach(self, group: asyncio.TaskGroup) -> None:
        """The task group that owns the coroutines started here."""
        self._group = group

    def launch(self, task: ClaimedTask, version: Version) -> None:
        """Start the attempt in a guest, without waiting for it. An earlier one of its task was lost: it is killed."""
        for token in [t for t, g in self.running.items() if g.task.id == task.id and not g.reported]:
            self.kill_fenced(token)
        guest = self.running[task.token] = Guest(task, version)
        self._spawn(self._launch(guest))

    async def _launch(self, guest: Guest) -> None:
        try:
            await self._start(guest)
        except Exception as error:
            log.error("attempt could not be started", task=guest.task.id, exc_info=error)
            self._could_not_start(guest, {"type": type(error).__name__, "message": str(error), "traceback": ""})

    def kill_fenced(self, token: UUID) -> None:
        """This attempt is no longer ours: kill it, report nothing."""
        guest = self.running.get(token)
        if guest is not None:
            guest.fenced = True
            guest.kill()

    async def stop(self) -> None:
        """Ask all guests to end, then kill them; their tasks are queued again for others."""
        for guest in list(self.running.values()):
            guest.ended_by_us = "stop"
            guest.kill(signal.SIGTERM)
        give_up = boot_seconds() + STOP_GRACE
        while self.running and boot_seconds() < give_up:
            await asyncio.sleep(0.02)
        for guest in list(self.running.values()):
            guest.kill()
        while self.running and boot_seconds() < give_up + 1:
            await asyncio.sleep(0.02)

    def close(self) -> None:
        self._templates.close()

    async def _start(self, guest: Guest) -> None:
        task = guest.task
        order = await self._order(guest)
        template = None if self._wants_fresh(guest) else self._templates.file(task.source_hash, order)
        if template is not None:
            ready = await template.ready
            if isinstance(ready, dict):
                self._templates.forget(task.source_hash)
                self._could_not_start(guest, ready)
                return
            template = None if ready == "fresh" else template
        if guest.ended_by_us or guest.fenced:  # told to stop, or lost, while the file was loading
            self._ended(guest, 0)
            return
        order |= {"request": self._request(guest), "log": self._log(task)}
        ours, theirs = socket.socketpair()
        guest.frames = Frames(ours, lambda m: self._on_message(guest, m), lambda: None)
        limit = guest.version.graph.tasks[task.task_id].execution_timeout
        if limit:
            guest.timer = asyncio.get_running_loop().call_later(limit + TIMEOUT_GRACE, self._overran, guest)
        if template is None:
            self._spawn(self._run_fresh(guest, order, theirs))
        else:
            guest.template = template
            template.start(guest.number, order, theirs, lambda code: self._ended(guest, code))
            theirs.close()

    async def _run_fresh(self, guest: Guest, order: dict[str, Any], guest_end: socket.socket) -> None:
        try:
            process = await start_fresh(order, guest_end)
        except OSError as error:
            self._could_not_start(guest, {"type": type(error).__name__, "message": str(error), "traceback": ""})
            return
        guest.pid = process.pid
        limit = self._role.settings.parse_timeout
        guest.loading = asyncio.get_running_loop().call_later(limit, self._did_not_load, guest)
        code = await process.wait()
        guest.kill()  # what it left behind
        self._ended(guest, code)

    def _did_not_load(self, guest: Guest) -> None:
        self._fail(guest, took_too_long(self._role.settings))
        guest.kill()

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        assert self._group is not None
        self._group.create_task(coroutine)

    def _wants_fresh(self, guest: Guest) -> bool:
        wanted = guest.version.graph.tasks[guest.task.task_id].isolation
        if wanted == "auto":
            wanted = self._role.settings.isolation
        return wanted == "fresh" or (wanted == "auto" and os.uname().sysname == "Darwin")

    async def _order(self, guest: Guest) -> dict[str, Any]:
        settings = self._role.settings
        path = source_file(settings, guest.task.source_hash)
        if not path.exists():
            keep_source(path, await self._role.database.fetchval("versions/source", guest.task.source_hash))
        return {"path": guest.version.spec.file, "folder": str(settings.dags_folder), "source": str(path)}

    def _request(self, guest: Guest) -> dict[str, Any]:
        task, fields = guest.task, guest.task.run_fields
        spec = guest.version.spec
        conf = json.loads(fields["conf"]) if fields["conf"] else {}
        return {
            "dag_id": task.dag_id,
            "task_id": task.task_id,
            "map_index": task.map_index,
            "attempt": task.attempt,
            "try_number": task.attempt,
            "max_tries": guest.version.graph.tasks[task.task_id].retries,
            "token": str(task.token),
            "params": spec.params | {k: v for k, v in conf.items() if k in spec.params},
            "run": {
                "id": task.run,
                "run_id": fields["run_name"],
                "run_type": fields["run_type"],
                "conf": encode(conf),
                **{k: _time(fields[k]) for k in ("logical_date", "created_at", "started_at")},
            },
        }

    def _log(self, task: ClaimedTask) -> str:
        return attempt_log(self._role.settings.home, task.run, task.id, task.attempt)

    def _on_message(self, guest: Guest, message: dict[str, Any]) -> None:
        if guest.loading is not None:
            guest.loading.cancel()
        if "loaded" in message:
            return
        if "result" in message:
            guest.result = message["result"]
            self._report(guest, 0)
            return
        self._spawn(self._reply(guest, message))

    async def _reply(self, guest: Guest, question: Mapping[str, Any]) -> None:
        try:
            reply = {"value": await answer(self._role.database, guest.task, question)}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        if guest.frames is not None:
            guest.frames.send(reply)

    def _overran(self, guest: Guest) -> None:
        if guest.result is None and not guest.ended_by_us:
            guest.ended_by_us = "timeout"
        guest.kill()

    def _ended(self, guest: Guest, exit_code: int | None) -> None:
        self._drain(guest)
        if exit_code is None and not guest.ended_by_us:
            self._lost(guest)
        self._report(guest, exit_code or 0)
        del self.running[guest.task.token]
        if self.saturated:
            self._role.wakeups.wake("task")

    def _lost(self, guest: Guest) -> None:
        """Somebody killed its template: nobody renews its lease any more, so that it is rescued as a lost attempt."""
        if not guest.reported:
            log.warning("attempt lost: the template it was forked from has ended", task=guest.task.id)
        guest.reported = True

    def _report(self, guest: Guest, exit_code: int) -> None:
        """Put the report in line, once: when the guest has sent its result, or has ended without one."""
        if guest.reported:
            return
        guest.reported = True
        for timer in (guest.timer, guest.loading):
            if timer is not None:
                timer.cancel()
        if guest.fenced:
            log.warning("attempt was no longer ours", task=guest.task.id, attempt=guest.task.attempt)
            return
        ending = Ending(guest.result, exit_code, guest.ended_by_us)
        self.reports.append(report(guest.task, guest.version.graph, ending))
        self._role.wakeups.wake("finished")

    def _drain(self, guest: Guest) -> None:
        """Read what the guest sent before it ended."""
        if guest.frames is not None:
            guest.frames.drain()
            guest.frames.close()

    def _could_not_start(self, guest: Guest, error: dict[str, Any]) -> None:
        self._fail(guest, error)
        self._ended(guest, 0)

    def _fail(self, guest: Guest, error: dict[str, Any]) -> None:
        guest.result = {"outcome": "failed", "error": error}
        try:
            log_file = Path(self._log(guest.task))
            log_file.parent.mkdir(0o750, parents=True, exist_ok=True)
            with log_file.open("a", encoding="utf-8") as text:
                text.write(error.get("traceback") or f"{error['message']}\n")
        except OSError as second:
            log.error("log of an attempt not written", task=guest.task.id, error=str(second))


def _time(value: Any) -> str | None:
    return None if value is None else to_rfc3339(value)
