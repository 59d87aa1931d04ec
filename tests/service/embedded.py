"""What the tests of the embedded PostgreSQL share."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import asyncpg

from onceflow.config import load
from onceflow.runtime.postgres import find_bindir
from support import python

BINDIR = load().pg_bindir

OWNER = """
import json, os, sys
from pathlib import Path
from onceflow.runtime.postgres import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]), Path(sys.argv[2]))
try:
    url = server.start()
except Exception as error:
    print(json.dumps({"error": type(error).__name__, "text": str(error)}), flush=True)
else:
    print(json.dumps({"url": url, "pid": server.pid, "owner": os.getpid()}), flush=True)
    sys.stdin.read()
    server.stop()
"""


async def query(url: str, statement: str, **options: object) -> object:
    connection = await asyncpg.connect(url, **options)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def write_row(url: str) -> None:
    await query(url, "CREATE TABLE IF NOT EXISTS kept (n int)")
    await query(url, "INSERT INTO kept VALUES (1)")


async def rows(url: str) -> object:
    return await query(url, "SELECT count(*) FROM kept")


def owner(home: Path, **options: object):
    """A process that owns the home's server until its standard input is closed."""
    return python(options.pop("before", "") + OWNER, home, find_bindir(BINDIR), **options)


def report(process: subprocess.Popen[str]) -> dict:
    return json.loads(process.stdout.readline())


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777
