"""Migrations: numbered SQL files, applied in order, each in one transaction, never edited once released.

`min_compatible` is the oldest schema number whose processes may work on the present one: a process that was written for
an older schema than that stops and says so. A breaking migration starts with the line `-- breaking`.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from onceflow.model.errors import UnreachableError, UnsupportedError
from onceflow.store.database import CONNECTING, OLDEST_SERVER, public_address, unreachable

FOLDER = Path(__file__).parent / "migrations"
LOCK = 0x6F6E6365  # advisory lock: one migrator at a time
LOCK_SECONDS = 60
OTHER_BUILD = "use the build that made it, or an empty database (another --home, if it is the embedded one)"

CREATE = (FOLDER / "bootstrap.sql").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Migration:
    number: int
    name: str
    sql: str

    @property
    def breaking(self) -> bool:
        return self.sql.startswith("-- breaking")

    @property
    def digest(self) -> str:
        """Of its text: tells a database that was made from another text under the same number."""
        return hashlib.blake2b(self.sql.encode(), digest_size=16).hexdigest()


def migrations() -> list[Migration]:
    """All migrations of this version, in order."""
    found = []
    for path in sorted(FOLDER.glob("[0-9]*.sql")):
        match = re.fullmatch(r"(\d+)_(\w+)", path.stem)
        if match:
            found.append(Migration(int(match[1]), path.stem, path.read_text(encoding="utf-8")))
    return found


async def migrate(url: str) -> list[str]:
    """Bring the database to this version's schema; returns the names applied now.

    Raises UnreachableError, or UnsupportedError for a server older than 15, or when the database refuses a migration.
    """
    connection = await _connect(url)
    try:
        await connection.execute("select set_config('lock_timeout', $1, false)", f"{LOCK_SECONDS}s")
        await connection.execute("select pg_advisory_lock($1)", LOCK)
        await connection.execute(CREATE)
        if foreign := await _made_otherwise(connection):
            raise UnsupportedError(foreign, where=public_address(url), remedy=OTHER_BUILD)
        present = await connection.fetchval("select coalesce(max(number), 0) from migration")
        applied = []
        for migration in migrations():
            if migration.number > present:
                async with connection.transaction(isolation="read_committed"):
                    await connection.execute(migration.sql)
                    await connection.execute(
                        "insert into migration (number, name, breaking, digest) values ($1, $2, $3, $4)",
                        migration.number,
                        migration.name,
                        migration.breaking,
                        migration.digest,
                    )
                applied.append(migration.name)
        return applied
    except asyncpg.LockNotAvailableError as error:
        message = f"another process has been migrating the database for {LOCK_SECONDS} s"
        raise UnsupportedError(message, where=public_address(url), remedy="see whether it stands still") from error
    except asyncpg.PostgresError as error:
        remedy = "use a database of Onceflow's own, and a role that may create tables in it"
        message = f"the database refuses the schema: {error}"
        raise UnsupportedError(message, where=public_address(url), remedy=remedy) from error
    finally:
        await connection.close()


async def check(url: str) -> str:
    """Why a process of this version may not work on the database yet or any more; "" if it may."""
    connection = await _connect(url)
    try:
        if await connection.fetchval("select to_regclass('migration')") is None:
            return "the database has no Onceflow schema yet: run `onceflow db migrate`"
        ours = migrations()[-1].number
        row = await connection.fetchrow(
            "select max(number) as present, coalesce(max(number) filter (where breaking), 0) as oldest from migration"
        )
        if row["present"] < ours:
            return f"the database's schema is {row['present']}, this version needs {ours}: run `onceflow db migrate`"
        if ours < row["oldest"]:
            return f"the database's schema needs version {row['oldest']}, this one is {ours}: upgrade Onceflow"
        foreign = await _made_otherwise(connection)
        return f"{foreign}: {OTHER_BUILD}" if foreign else ""
    except asyncpg.PostgresError as error:
        return f"the schema cannot be read ({error}): use Onceflow's own database, and a role that may read it"
    finally:
        await connection.close()


async def _made_otherwise(connection: Any) -> str:
    """That a migration was applied with another text than it has here; "" if none was."""
    known = {m.number: m for m in migrations()}
    for number, digest in await connection.fetch("select number, digest from migration order by number"):
        if number in known and known[number].digest != digest:
            return f"the database was made by another build: its migration {known[number].name} is not this one's"
    return ""


async def wait_until_ready(
    url: str, seconds: float = 60.0, *, waiting: Callable[[str], None] = lambda reason: None
) -> None:
    """Wait for the right schema; raises UnsupportedError with the reason when it does not come.

    `waiting` is called with what is waited for, at first and whenever that is something else.
    """
    reason = ""
    for _ in range(max(1, int(seconds / 0.5))):
        before = reason
        try:
            reason = await check(url)
        except UnreachableError as error:
            reason = str(error)
        if not reason:
            return
        if reason != before:
            waiting(reason)
        await asyncio.sleep(0.5)
    raise UnsupportedError(reason, where=public_address(url), remedy="`onceflow db check` says whether it is mended")


async def _connect(url: str) -> Any:
    try:
        connection = await asyncpg.connect(url, timeout=10)
    except CONNECTING as error:
        raise unreachable(url, error) from error
    if connection.get_server_version().major < OLDEST_SERVER:
        major = connection.get_server_version().major
        await connection.close()
        raise UnsupportedError(
            f"PostgreSQL {major} is too old",
            where=public_address(url),
            remedy=f"use PostgreSQL {OLDEST_SERVER} or newer",
        )
    return connection
