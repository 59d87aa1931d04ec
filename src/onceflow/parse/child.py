"""The host's side of the parse guest: started when there is something to load, ended after a while without."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from onceflow.config import Settings, child_environment
from onceflow.model.clock import boot_seconds
from onceflow.model.dagspec import FileSpec, ParseFailure
from onceflow.model.errors import GuestError
from onceflow.model.serialize import failure_from_json, file_spec_from_json

IDLE_SECONDS = 5.0
GRACE = 10.0


class ParseGuest:
    """Loads DAG files one after the other in a guest process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None
        self._used = boot_seconds()

    def idle_for(self) -> float:
        """Seconds since a file was loaded."""
        return boot_seconds() - self._used

    async def load(self, path: str) -> FileSpec | ParseFailure:
        """What the file, given relative to the DAG folder, declares. Raises GuestError when the guest itself fails."""
        process = self._process or await self._start()
        request = {
            "path": path,
            "folder": str(self._settings.dags_folder),
            "timeout": self._settings.parse_timeout,
        }
        try:
            async with asyncio.timeout(self._settings.parse_timeout + GRACE):
                reply = await _exchange(process, request)
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            await self.end()
            raise GuestError(f"the process that loads DAG files failed: {error!r}", where=path) from error
        self._used = boot_seconds()
        kind = reply.pop("kind")
        return file_spec_from_json(reply) if kind == "file" else failure_from_json(reply)

    async def end(self) -> None:
        """End the guest; the next `load` starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            await process.wait()

    async def _start(self) -> asyncio.subprocess.Process:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "onceflow.parse.load",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=child_environment(),
        )
        return self._process


async def _exchange(process: asyncio.subprocess.Process, request: dict[str, Any]) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    body = json.dumps(request).encode()
    process.stdin.write(len(body).to_bytes(4, "big") + body)
    await process.stdin.drain()
    length = int.from_bytes(await process.stdout.readexactly(4), "big")
    return json.loads(await process.stdout.readexactly(length))
