"""Loads and registers the files that differ from what is registered, and notes those that are gone."""

from __future__ import annotations

import json
from collections.abc import Coroutine, Mapping
from typing import Any

from onceflow.model.clock import boot_seconds
from onceflow.model.dagspec import FileSpec, ParseFailure
from onceflow.model.errors import DagError, GuestError
from onceflow.model.text import message_of
from onceflow.parse.child import IDLE_SECONDS, ParseGuest
from onceflow.parse.folder import Folder, Stamp, digest
from onceflow.runtime.crash_points import crash_point
from onceflow.runtime.log import get_logger
from onceflow.runtime.role import Role
from onceflow.runtime.service import Service
from onceflow.store import files
from onceflow.store.database import BAD_DATA, is_transient
from onceflow.store.files import KnownFile

LOOK_AFTER = 10

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
        self._beside: set[str] = set()
        self._ready = False
        self._in_conflict: set[str] = set()
        self.poll = role.settings.scan_seconds

    async def run_once(self) -> bool:
        try:
            self._folder.look()
        except OSError as error:
            problem = error.strerror or str(error)
            log.warning("the DAG folder cannot be read; its DAGs stay", folder=str(self._folder.root), error=problem)
            return False
        present = {path: stamp.source_hash for path, stamp in self._folder.seen.items()}
        self._note_changed_modules(present)
        known = await files.known(self._role.database)
        todo = [p for p, content in present.items() if p in self._again or _differs(known.get(p), content)]
        gone = [f for p, f in known.items() if f.present and p not in present and not self._folder.hides(p)]
        self._gone = {f.path for f in gone}
        self._in_conflict.clear()
        registered = await self._process_all(todo, known)
        removed = [await self._alone(f.path, self._register_removal(f)) for f in gone]
        if self._in_conflict and len(todo) + len(gone) > 1:  # perhaps with what another file no longer defines
            registered += await self._process_again(sorted(self._in_conflict))
        if any(registered) or any(removed):
            self._role.wakeups.notify("dag", "watcher", "delivery", "run")
        if not todo:
            await self._end_idle_guest()
        if not self._ready:
            self._ready = True
            print(json.dumps({"scanned": len(present)}), flush=True)
        return False  # what could not be registered now waits for the next scan

    async def _process_all(self, todo: list[str], known: Mapping[str, KnownFile]) -> list[bool]:
        """Load and register files, those saved last first; and whoever saves one now does not wait for all of them."""
        done: list[bool] = []
        for n, path in enumerate(sorted(todo, key=lambda p: self._folder.seen[p].mtime_ns, reverse=True), 1):
            done.append(await self._alone(path, self._process(path, known.get(path))))
            if n % LOOK_AFTER == 0:
                done += await self._process_saved_meanwhile()
        return done

    async def _process_again(self, paths: list[str]) -> list[bool]:
        """Files that were in conflict: what one of them said before is no reason against another of them.

        So an asset that they share may change in the module that they import it from.
        """
        known = await files.known(self._role.database)
        self._beside = set(paths)
        done: list[bool] = []
        for path in paths:
            self._beside.discard(path)
            done.append(await self._alone(path, self._process(path, known[path])))
        return done

    async def _process_saved_meanwhile(self) -> list[bool]:
        before = self._folder.seen
        try:
            self._folder.look()
        except OSError:
            return []  # the next scan tells
        saved = [path for path, stamp in self._folder.seen.items() if before.get(path) != stamp]
        known = await files.known(self._role.database) if saved else {}
        return [await self._alone(path, self._process(path, known.get(path))) for path in saved]

    def _note_changed_modules(self, present: dict[str, str]) -> None:
        """A changed helper module changes the files that import it, though their own text stays as it is."""
        changed = [p for p, content in self._before.items() if present.get(p) != content]
        self._again.update(self._folder.users_of(changed))
        self._before = present

    @staticmethod
    async def _alone(path: str, work: Coroutine[Any, Any, bool]) -> bool:
        """Whether the work on one file was done; what fails about it keeps nobody from the others."""
        try:
            return await work
        except Exception as error:
            if is_transient(error):
                raise
            log.error("DAG file could not be processed; it is tried again", file=path, exc_info=error)
            return False

    async def _process(self, path: str, known: KnownFile | None) -> bool:
        """Load and register one file; whether it was registered."""
        self._again.discard(path)
        stamp = self._folder.seen.get(path)
        content = self._folder.read(path) if stamp and not stamp.problem else b""
        if stamp is None or content is None:
            return False
        file = known or await self._add(path)
        started = boot_seconds()
        if content.strip() or not await files.declares(self._role.database, file):
            spec = await self._load(path, stamp)
        else:
            spec = _emptied(path, content)
        seconds = boot_seconds() - started
        if isinstance(spec, FileSpec):
            return await self._register(file, spec, content, seconds)
        log.warning("DAG file is broken", file=path, where=spec.where, error=spec.message)
        return await self._register_failure(file, spec, seconds)

    async def _load(self, path: str, stamp: Stamp) -> FileSpec | ParseFailure:
        if stamp.problem:
            remedy = "a DAG file is a regular file of Python that this user may read; others do not end in .py"
            message = f"the file cannot be read: {stamp.problem}"
            return ParseFailure(path, stamp.source_hash, "unreadable", message, path, remedy)
        try:
            return await self._guest.load(path)
        except GuestError as error:
            return ParseFailure(path, "", error.code, error.message, error.where, error.remedy)  # is tried again

    async def _register(self, file: KnownFile, spec: FileSpec, content: bytes, seconds: float) -> bool:
        paused = self._role.settings.new_dags_paused
        if digest(content) != spec.source_hash:  # edited between two reads: what was loaded is gone
            self._again.add(file.path)
            self._role.wakeups.wake("folder")
            return False
        crash_point("dag-processor.register.before")
        try:
            done = await files.register(
                self._role.database,
                file,
                spec,
                content,
                paused=paused is None or paused,
                parse_seconds=seconds,
                gone=self._gone,
                beside=self._beside,
            )
        except (DagError, *BAD_DATA) as error:
            failure = _refused(file.path, spec.source_hash, error)
            if failure.code == files.CONFLICT:
                self._in_conflict.add(file.path)
            log.warning("DAG file cannot be registered", file=file.path, error=str(error))
            return await self._register_failure(file, failure, seconds)
        crash_point("dag-processor.register.after_commit")
        if done:
            log.info("DAG file registered", file=file.path, dags=[d.dag_id for d in spec.dags], ms=round(seconds * 1e3))
        return done

    async def _add(self, path: str) -> KnownFile:
        crash_point("dag-processor.add.before")
        file = await files.add(self._role.database, path)
        crash_point("dag-processor.add.after_commit")
        return file

    async def _register_failure(self, file: KnownFile, failure: ParseFailure, seconds: float) -> bool:
        crash_point("dag-processor.fail.before")
        done = await files.register_failure(self._role.database, file, failure, seconds)
        crash_point("dag-processor.fail.after_commit")
        return done

    async def _register_removal(self, file: KnownFile) -> bool:
        crash_point("dag-processor.remove.before")
        done = await files.register_removal(self._role.database, file)
        crash_point("dag-processor.remove.after_commit")
        return done

    async def _end_idle_guest(self) -> None:
        if self._guest.idle_for() > IDLE_SECONDS:
            await self._guest.end()


def _emptied(path: str, content: bytes) -> ParseFailure:
    """The failure of a file that declared something: who saves it has perhaps not written it yet."""
    message = "the file is empty; what it declared goes on as it was"
    return ParseFailure(path, digest(content), "empty", message, path, "delete the file, if its DAGs are to go")


def _refused(path: str, source_hash: str, error: Exception) -> ParseFailure:
    """The failure of a file that could be loaded, but not stored."""
    if isinstance(error, DagError):
        return ParseFailure(path, source_hash, error.code, error.message, error.where or path, error.remedy)
    message = f"the database refuses what the file declares: {message_of(error)}"
    return ParseFailure(path, source_hash, "refused", message, path, "shorten it, or write it in other characters")


def _differs(known: KnownFile | None, digest: str) -> bool:
    return known is None or known.source_hash != digest or not known.present or known.in_conflict
