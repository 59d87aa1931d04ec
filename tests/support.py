"""What tests share: waiting for a condition, and processes that are really processes."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from onceflow.model.clock import boot_seconds

Value = TypeVar("Value")

SOURCE = Path(__file__).parents[1] / "src"

PATIENCE = 120.0
"""Seconds that a test waits for what has to come: a slow machine is no fault, and only who fails waits so long."""


async def eventually(
    condition: Callable[[], Value | Awaitable[Value]],
    *,
    timeout: float = PATIENCE,
    every: float = 0.02,
    why: str = "",
) -> Value:
    """Wait until `condition`, plain or async, returns something true, and return that. The only place that sleeps.

    An AssertionError inside the condition means "not yet". The last one, or the last value, is shown
    when the time is up.
    """
    deadline = boot_seconds() + timeout
    while True:
        seen: object
        try:
            found = condition()
            value: Value = await found if inspect.isawaitable(found) else found  # type: ignore[assignment]
            if value:
                return value
            seen = value
        except AssertionError as error:
            seen = error
        if boot_seconds() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {why or 'the condition'}; last seen: {seen!r}")
        await asyncio.sleep(every)


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@contextmanager
def python(code: str, *args: object, **options: object) -> Iterator[subprocess.Popen[str]]:
    """A Python process that runs `code` with `onceflow` importable; killed, if it still runs, and reaped on leaving.

    `options` are Popen's; `executable` chooses the interpreter and `env` adds to the environment.
    """
    program = str(options.pop("executable", sys.executable))
    extra = options.pop("env", {})
    env = os.environ | {"PYTHONPATH": str(SOURCE)} | extra  # type: ignore[operator]
    process = subprocess.Popen(
        [program, "-c", code, *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
        **options,  # type: ignore[call-overload]
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def with_database(url: str, name: str) -> str:
    """The same server's address for another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


async def drop_database(url: str, name: str) -> None:
    """Drop a database with whoever is connected; not while autovacuum is in it, which only a superuser may end."""
    await eventually(lambda: _dropped(url, name), why=f"dropping {name}")


async def _dropped(url: str, name: str) -> bool:
    try:
        await execute(url, f"DROP DATABASE {name} WITH (FORCE)")
    except asyncpg.InsufficientPrivilegeError:
        return False
    return True


async def execute(url: str, statement: str) -> None:
    """Run a statement in a session of its own."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
