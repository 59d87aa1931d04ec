"""Loads and registers the files that differ from what is registered, and notes those that are gone."""

from __future__ import annotations

import json

from onceflow.model.clock import boot_seconds
from onceflow.model.dagspec import FileSpec, ParseFailure
from onceflow.model.errors import DagError, GuestError
from onceflow.parse.child import IDLE_SECONDS, ParseGuest
from onceflow.parse.folder import Folder
from onceflow.runtime.log import get_logger
from onceflow.runtime.role import Role
from onceflow.runtime.service import Service
from onceflow.store import files
from onceflow.store.files import KnownFile

log = get_logger("onceflow.dag-processor")


class ProcessFiles(Service):
    name = "process files"
    topics = ("folder",)

    def __init__(self, role: Role, guest: ParseGuest) -> None:
        self._role = role
        self._guest = guest
        self._folder = Folder(role.settings.dags_folder)
        self._before: dict[str, str] = {}
        self._again: set[str] = set()
        self._gone: set[str] = set()
        self._ready = False
        self._in_conflict: set[str] = set()
        self.poll = role.settings.scan_seconds

    async def run_once(self) -> bool:
        self._folder.look()
        present = {path: stamp.source_hash for path, stamp in self._folder.seen.items()}
        self._note_changed_modules(present)
        known = await files.known(self._role.database)
        todo = [p for p, digest in present.items() if p in self._again or _differs(known.get(p), digest)]
        gone = [f for p, f in known.items() if f.present and p not in present]
        self._gone = {f.path for f in gone}
        self._in_conflict.clear()
        registered = [await self._process(path, known.get(path)) for path in todo]
        removed = [await files.register_removal(self._role.database, f) for f in gone]
        if self._in_conflict and len(todo) + len(gone) > 1:  # perhaps with what another file no longer defines
            known = await files.known(self._role.database)
            registered += [await self._process(path, known[path]) for path in list(self._in_conflict)]
        if any(registered) or any(removed):
            self._role.wakeups.notify("dag", "watcher", "delivery", "run")
        if not todo:
            await self._end_idle_guest()
        if not self._ready:
            self._ready = True
            print(json.dumps({"scanned": len(present)}), flush=True)
        return False  # what could not be registered now waits for the next scan

    def _note_changed_modules(self, present: dict[str, str]) -> None:
        """A changed helper module changes the files that import it, though their own text stays as it is."""
        changed = [p for p, digest in self._before.items() if present.get(p) != digest]
        for path in changed:
            self._again.update(u for u in self._folder.users_of(path) if u in present)
        self._before = present

    async def _process(self, path: str, known: KnownFile | None) -> bool:
        """Load and register one file; whether it was registered."""
        self._again.discard(path)
        content = self._folder.read(path)
        if content is None:
            return False
        file = known or await files.add(self._role.database, path)
        started = boot_seconds()
        try:
            spec = await self._guest.load(path)
        except GuestError as error:
            spec = ParseFailure(path, "", error.code, error.message, error.where, error.remedy)
        seconds = boot_seconds() - started
        if isinstance(spec, FileSpec):
            return await self._register(file, spec, content, seconds)
        log.warning("DAG file is broken", file=path, where=spec.where, error=spec.message)
        return await files.register_failure(self._role.database, file, spec, seconds)

    async def _register(self, file: KnownFile, spec: FileSpec, content: bytes, seconds: float) -> bool:
        paused = self._role.settings.new_dags_paused
        try:
            done = await files.register(
                self._role.database,
                file,
                spec,
                content,
                paused=paused is None or paused,
                parse_seconds=seconds,
                gone=self._gone,
            )
        except DagError as error:
            self._in_conflict.add(file.path)
            failure = ParseFailure(
                file.path, spec.source_hash, error.code, error.message, error.where or file.path, error.remedy
            )
            log.warning("DAG file contradicts another", file=file.path, error=str(error))
            return await files.register_failure(self._role.database, file, failure, seconds)
        if done:
            log.info("DAG file registered", file=file.path, dags=[d.dag_id for d in spec.dags], ms=round(seconds * 1e3))
        return done

    async def _end_idle_guest(self) -> None:
        if self._guest.idle_for() > IDLE_SECONDS:
            await self._guest.end()


def _differs(known: KnownFile | None, digest: str) -> bool:
    return known is None or known.source_hash != digest or not known.present or known.in_conflict
