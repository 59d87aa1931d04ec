"""The connection to PostgreSQL: statements by name, transactions that say READ COMMITTED, errors in our words.

A pool opens connections as services need them and lets idle ones go, so that a resting process holds one. LISTEN and
NOTIFY have a connection of their own (`store/notify.py`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from onceflow.model.errors import FencedError, OnceflowError, StaleError, UnreachableError, UnsupportedError
from onceflow.store import statements

Record = asyncpg.Record

OLDEST_SERVER = 15
TRANSIENT = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the server's last words were read while nothing was asked
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.TooManyConnectionsError,
    ConnectionError,
    TimeoutError,
)
CONNECTING = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError)
"""What connecting raises; the driver tells some mistakes in an address by ValueError."""
BAD_DATA = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.ProgramLimitExceededError)
"""SQLSTATE classes 22, 23 and 54: the row is wrong, trying again changes nothing."""


def is_transient(error: BaseException) -> bool:
    """Whether the same statement may succeed when tried again: connection lost, deadlock, server restarting."""
    return isinstance(error, (*TRANSIENT, UnreachableError))


class Connection:
    """One connection, usually inside a transaction; runs statements by name."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    async def fetch(self, name: str, *args: Any) -> list[Record]:
        return await self._raw.fetch(statements.text(name), *args)

    async def fetchrow(self, name: str, *args: Any) -> Record | None:
        return await self._raw.fetchrow(statements.text(name), *args)

    async def fetchval(self, name: str, *args: Any) -> Any:
        return await self._raw.fetchval(statements.text(name), *args)

    async def execute(self, name: str, *args: Any) -> str:
        return await self._raw.execute(statements.text(name), *args)


class Database:
    """A pool of connections to the one PostgreSQL. Use `Database.connect`."""

    def __init__(self, pool: Any, url: str, local: Mapping[str, str] | None = None) -> None:
        self._pool = pool
        self._local = local or {}  # settings that each transaction needs to be told anew
        self.url = url

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        max_size: int = 4,
        kind: str = "onceflow",
        lease_seconds: float = 5.0,
        pooler: str = "none",
        hot: bool = True,
    ) -> Database:
        """Open the pool. `hot`: settings for roles with short statements (generic plans, no sequential scans).

        Raises UnreachableError when the server does not answer, UnsupportedError when it is older than 15.
        """
        settings = server_settings(kind, lease_seconds, hot=hot)

        async def begin(connection: Any) -> None:
            if pooler == "session":
                await set_all(connection, settings, local=False)
            if hot and pooler != "transaction":
                await _learn_types(connection)

        try:
            pool = await asyncpg.create_pool(
                url,
                min_size=0 if pooler != "none" else 1,
                max_size=max_size,
                max_inactive_connection_lifetime=15.0,
                init=begin,
                timeout=5.0,
                reset=_leave_as_is,
                **session_options(kind, lease_seconds, pooler, hot=hot),
            )
            async with pool.acquire() as connection:
                server = connection.get_server_version()
        except CONNECTING as error:
            raise unreachable(url, error) from error
        if server.major < OLDEST_SERVER:
            await pool.close()
            raise UnsupportedError(
                f"PostgreSQL {server.major} is too old",
                where=public_address(url),
                remedy=f"use PostgreSQL {OLDEST_SERVER} or newer",
            )
        return cls(pool, url, settings if pooler == "transaction" else None)

    async def close(self) -> None:
        try:
            async with asyncio.timeout(3):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()

    async def __aenter__(self) -> Database:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """A READ COMMITTED transaction. No user code and no other await than statements inside."""
        async with self._acquire() as raw, self._begun(raw):
            yield Connection(raw)

    async def fetch(self, name: str, *args: Any) -> list[Record]:
        sql = statements.text(name)
        async with self._alone() as raw:
            return await raw.fetch(sql, *args)

    async def fetchrow(self, name: str, *args: Any) -> Record | None:
        sql = statements.text(name)
        async with self._alone() as raw:
            return await raw.fetchrow(sql, *args)

    async def fetchval(self, name: str, *args: Any) -> Any:
        sql = statements.text(name)
        async with self._alone() as raw:
            return await raw.fetchval(sql, *args)

    async def execute(self, name: str, *args: Any) -> str:
        sql = statements.text(name)
        async with self._alone() as raw:
            return await raw.execute(sql, *args)

    @asynccontextmanager
    async def cursor(self, name: str, *args: Any, prefetch: int = 1000) -> AsyncIterator[AsyncIterator[Record]]:
        """Rows of a long listing, a thousand at a time."""
        sql = statements.text(name)
        async with self._acquire() as raw, raw.transaction(isolation="read_committed", readonly=True):
            yield raw.cursor(sql, *args, prefetch=prefetch)

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[Any]:
        """A connection for a single statement, which is READ COMMITTED too: by the session's settings, if they last."""
        async with self._acquire() as raw:
            if self._local:
                async with self._begun(raw):
                    yield raw
            else:
                yield raw

    @asynccontextmanager
    async def _begun(self, raw: Any) -> AsyncIterator[None]:
        async with raw.transaction(isolation="read_committed"):
            if self._local:
                await set_all(raw, self._local, local=True)
            yield

    @asynccontextmanager
    async def _acquire(self) -> AsyncIterator[Any]:
        try:
            async with self._pool.acquire(timeout=10) as raw:
                yield raw
        except asyncpg.PostgresError as error:
            raise translate(error) from error
        except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            raise unreachable(self.url, error) from error


async def _learn_types(connection: Any) -> None:
    """Look up the array types of our parameters when a connection is new, not in the first statement with one."""
    await connection.prepare(statements.text("server/parameter_types"))


async def _leave_as_is(_connection: object) -> None:
    """No reset when a connection goes back to the pool: no statement of ours changes the session."""


def session_options(kind: str, lease_seconds: float, pooler: str, *, hot: bool) -> dict[str, Any]:
    """Arguments for a connection. A pooler refuses settings at its start, and one by transactions keeps no statements.

    There they are set when it is open, or in each transaction.
    """
    if pooler == "transaction":
        return {"statement_cache_size": 0}
    return {} if pooler == "session" else {"server_settings": server_settings(kind, lease_seconds, hot=hot)}


async def set_all(connection: Any, settings: Mapping[str, str], *, local: bool) -> None:
    """Make settings, for the session or for the present transaction."""
    await connection.execute(statements.text("server/set"), list(settings), list(settings.values()), local)


def server_settings(kind: str, lease_seconds: float, *, hot: bool) -> dict[str, str]:
    """Timeouts that free a frozen client's locks within half a lease, and how statements are planned.

    A client that died while its statement waits for a lock is noticed too, and what it locked before is free.
    """
    milliseconds = int(lease_seconds * 500)
    settings = {
        "application_name": kind,
        "default_transaction_isolation": "read committed",
        "idle_in_transaction_session_timeout": str(milliseconds),
        "tcp_user_timeout": str(int(lease_seconds * 1000)),
        "timezone": "UTC",
        "jit": "off",
    }
    settings["plan_cache_mode"] = "force_generic_plan" if hot else "force_custom_plan"
    if hot:
        settings |= {
            "enable_seqscan": "off",
            "lock_timeout": str(milliseconds),
            "client_connection_check_interval": "250",
            "statement_timeout": "60000",
        }
    return settings


def translate(error: asyncpg.PostgresError) -> Exception:
    """Our error for a SQLSTATE of ours; any other error as it is."""
    code = getattr(error, "sqlstate", "")
    if code == "OF001":
        return FencedError(str(error), remedy="stop: another process owns this now")
    if code == "OF004":
        return StaleError(str(error), remedy="read it again")
    if code in {"OF002", "OF003"}:
        return OnceflowError(str(error), code="broken_invariant", remedy="nothing was written; run `onceflow verify`")
    return error


SECRETS = re.compile(r"(?<=[?&])(password|sslpassword)=[^&]*")


def public_address(url: str) -> str:
    """The URL without its passwords."""
    url = SECRETS.sub(r"\1=…", url)
    scheme, separator, rest = url.partition("://")
    credentials, at, host = rest.rpartition("@")
    return f"{scheme}{separator}{credentials.partition(':')[0]}{at}{host}"


REFUSALS = {
    "53300": "raise its max_connections, run fewer processes, or put a pooler in between (ONCEFLOW_DATABASE_POOLER)",
    "28P01": "correct the password in ONCEFLOW_DATABASE_URL",
    "28000": "correct the user in ONCEFLOW_DATABASE_URL, or let it in by the server's pg_hba.conf",
    "3D000": "create this database, or correct ONCEFLOW_DATABASE_URL",
    "57P03": "wait: it starts or stops",
}
"""What to do when the server answers and lets nobody in, by SQLSTATE."""


def unreachable(url: str, error: BaseException) -> UnreachableError:
    refused = REFUSALS.get(getattr(error, "sqlstate", None) or "")
    what = "lets nobody in" if refused else "does not answer"
    return UnreachableError(
        f"the database {what}: {str(error) or 'no answer in time'}",
        where=public_address(url),
        remedy=refused or "start it, or correct ONCEFLOW_DATABASE_URL",
    )
