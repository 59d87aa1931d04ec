"""The database server as `onceflow db check` sees it: whether it can keep the promise."""

from __future__ import annotations

from typing import Any

from onceflow.model.errors import UnreachableError
from onceflow.store.database import Database, public_address
from onceflow.store.migrate import check, migrations

REMEDIES = {
    "fsync": "a crash of the machine would lose committed events: set fsync = on",
    "full_page_writes": "a crash of the machine could tear pages: set full_page_writes = on",
    "synchronous_commit": "a crash of the server would lose committed events: set synchronous_commit = on",
}
REFUSED = frozenset({"off"})
POOLER = "set ONCEFLOW_DATABASE_POOLER to session or transaction, as the pooler works"
MANY_CONNECTIONS = 60


async def check_server(url: str, pooler: str) -> dict[str, Any]:
    """Version, schema and settings, with `problems` that must be mended, `hints` and `ok`.

    Raises UnreachableError, or UnsupportedError for a server older than 15.
    """
    schema_problem = await check(url)
    try:
        database = await Database.connect(url, max_size=1, kind="cli", pooler=pooler, hot=False)
    except UnreachableError as error:
        if "startup parameter" in str(error):
            raise UnreachableError(error.message, where=error.where, remedy=POOLER) from error
        raise
    async with database:
        seen = await database.fetchrow("server/settings")
        assert seen is not None
        number = 0 if "no Onceflow schema" in schema_problem else await database.fetchval("server/schema")
    problems = [f"{name} is {seen[name]}: {why}" for name, why in REMEDIES.items() if seen[name] in REFUSED]
    if schema_problem:
        problems.append(schema_problem)
    if seen["standby"]:
        problems.append("the server is a standby, which takes no writes: give the address of the primary")
    return {
        "ok": not problems,
        "address": public_address(url),
        "server_version": seen["version"],
        "schema": number,
        "schema_wanted": migrations()[-1].number,
        **{name: seen[name] for name in REMEDIES},
        "pooler": pooler,
        "problems": problems,
        "hints": _hints(seen, pooler),
    }


def _hints(seen: Any, pooler: str) -> list[str]:
    hints = []
    if pooler != "transaction" and seen["jit"] != "off":
        hints.append(f"settings of our sessions do not arrive, so there is a pooler between: {POOLER}")
    if pooler == "transaction":
        hints.append("with a transaction pooler nothing wakes a process at once: it looks every second")
    if seen["max_connections"] < MANY_CONNECTIONS:
        hints.append(f"max_connections is {seen['max_connections']}; every process takes up to 5")
    return hints
