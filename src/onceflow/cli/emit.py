"""Emitting changes from JSON lines: what is available is stored in batches, each in one transaction.

Every line is a change of its own with a sighting of its own. A line that is wrong ends the command; what stood before
it is stored, and the error says so.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any, BinaryIO

from onceflow.model.change import Change
from onceflow.model.errors import InputError, NotFoundError, OnceflowError, UnreachableError
from onceflow.store.database import Database
from onceflow.store.emit import change, emit

BATCH = 500
BLOCK = 1 << 20
FIELDS = frozenset({"asset", "key", "extra"})
LONGEST_LINE = 8 << 20


class LineEmitter:
    """Stores the changes that come as JSON lines; `counts` are the answers by status."""

    def __init__(
        self,
        database: Database,
        asset: str | None,
        source: dict[str, Any],
        stored: Callable[[list[dict[str, Any]]], Any],
    ) -> None:
        """`asset` is taken where a line names none. `stored` gets the answers of each batch."""
        self._database = database
        self._asset = asset
        self._source = source
        self._stored = stored
        self.counts: Counter[str] = Counter()

    async def run(self, lines: AsyncIterator[list[tuple[int, bytes]]]) -> None:
        """Store the numbered lines. Raises InputError or NotFoundError naming the line that is wrong."""
        async for batch in lines:
            changes: list[tuple[int, Change]] = []
            for number, line in batch:
                try:
                    changes.append((number, self._change(number, line)))
                except OnceflowError:
                    await self._store(changes)
                    raise
            await self._store(changes)

    def _change(self, number: int, line: bytes) -> Change:
        where = f"line {number}"
        fields = _object(line, where)
        unknown = sorted(fields.keys() - FIELDS)
        if unknown:
            raise InputError(f"unknown field {unknown[0]!r}", where=where, remedy="allowed: asset, key, extra")
        asset = fields.get("asset", self._asset)
        if not isinstance(asset, str):
            raise InputError(
                "no asset is named", where=where, remedy="give the command one, or the line a text field `asset`"
            )
        return change(asset, fields.get("key"), fields.get("extra"), where=where)

    async def _store(self, numbered: list[tuple[int, Change]]) -> None:
        try:
            await self._store_all(numbered)
        except (InputError, NotFoundError):
            await self._store_singly(numbered)

    async def _store_singly(self, numbered: list[tuple[int, Change]]) -> None:
        """After a refused batch, of which nothing was stored: find the line that was refused."""
        for number, one in numbered:
            try:
                await self._store_all([(number, one)])
            except (InputError, NotFoundError) as error:
                raise type(error)(error.message, where=f"line {number}", remedy=error.remedy) from error

    async def _store_all(self, numbered: list[tuple[int, Change]]) -> None:
        if not numbered:
            return
        try:
            answers = await emit(self._database, [c for _, c in numbered], self._source)
        except UnreachableError as error:
            error.remedy = f"lines {numbered[0][0]} to {numbered[-1][0]} may be stored or not; {error.remedy}"
            raise
        self.counts.update("quarantined" if a.status == "stored" and a.flaw else a.status for a in answers)
        await self._stored(
            [
                {"line": n, "asset": c.asset, "key": a.key, "event_id": a.event_id, "status": a.status, "flaw": a.flaw}
                for (n, c), a in zip(numbered, answers, strict=True)
            ]
        )


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not valid JSON: {error}", where=where, remedy='a line is an object: {"key": "a"}') from error
    if not isinstance(found, dict):
        raise InputError("not a JSON object", where=where, remedy='a line is an object: {"key": "a", "extra": {}}')
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


async def read_batches(stream: BinaryIO) -> AsyncIterator[list[tuple[int, bytes]]]:
    """Numbered lines as they become available, at most BATCH at once; empty lines are left out."""
    number, rest = 0, b""
    while block := await asyncio.to_thread(_read_available, stream):
        *lines, rest = (rest + block).split(b"\n")
        if len(rest) > LONGEST_LINE:
            raise InputError(
                f"the line has more than {LONGEST_LINE} bytes", where=f"line {number + len(lines) + 1}", remedy="end it"
            )
        for start in range(0, len(lines), BATCH):
            yield _numbered(lines[start : start + BATCH], number + start)
        number += len(lines)
    if rest.strip():
        yield _numbered([rest], number)


def _read_available(stream: BinaryIO) -> bytes:
    return getattr(stream, "read1", stream.read)(BLOCK)


def _numbered(lines: list[bytes], before: int) -> list[tuple[int, bytes]]:
    return [(before + i, line) for i, line in enumerate(lines, 1) if line.strip()]
