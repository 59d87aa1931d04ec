"""A socket between the processes and PostgreSQL, which can be cut, or made slow."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import TracebackType
from urllib.parse import quote, unquote

CHUNK = 65_536
HOST = re.compile(r"host=([^&]+)&port=(\d+)")


class Proxy:
    """Listens in a folder of its own and forwards to the socket that an address names; a context manager."""

    def __init__(self, url: str, folder: Path) -> None:
        found = HOST.search(url)
        assert found is not None, "the embedded server listens on a socket in a folder"
        self._name = f".s.PGSQL.{found[2]}"
        self._to = Path(unquote(found[1])) / self._name
        self._at = folder / self._name
        self._writers: set[asyncio.StreamWriter] = set()
        self.url = url.replace(found[1], quote(str(folder), safe=""))
        self.delay = 0.0
        """Seconds that each piece of an answer is held back."""

    async def __aenter__(self) -> Proxy:
        self._connections = asyncio.TaskGroup()
        await self._connections.__aenter__()
        self._server = await asyncio.start_unix_server(self._accept, self._at)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.cut()
        await self._connections.__aexit__(None, None, None)

    def cut(self) -> int:
        """Cut every connection there is, whatever is on its way; how many."""
        count = len(self._writers)
        for writer in self._writers:
            writer.transport.abort()
        return count // 2

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.create_task(self._serve(reader, writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            reader_to, writer_to = await asyncio.open_unix_connection(self._to)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, writer_to}
        self._writers |= pair
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass_on(reader, writer_to, answers=False))
                group.create_task(self._pass_on(reader_to, writer, answers=True))
        finally:
            self._writers -= pair
            for each in pair:
                each.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool) -> None:
        try:
            while piece := await reader.read(CHUNK):
                if answers and self.delay:
                    await asyncio.sleep(self.delay)
                writer.write(piece)
                await writer.drain()
            writer.close()
        except OSError:
            writer.transport.abort()
