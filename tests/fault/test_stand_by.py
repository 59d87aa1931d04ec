"""A triggerer that owns no watcher is ready to: when the owner is killed, the trigger runs in a process that exists."""

from __future__ import annotations

import signal
from pathlib import Path

from support import eventually
from system import System, children, command_line
from watched import MODULE, TRIGGER, append, pipeline

GUEST = "onceflow.triggerer.guest"


def guests(pid: int) -> list[int]:
    return [child for child in children(pid) if GUEST in command_line(child)]


async def test_the_one_that_waits_has_a_guest_ready(tmp_path: Path, database_url: str) -> None:
    """dagster #9623: kill the only active node; the next takes over, and nothing is lost or doubled."""
    lines = tmp_path / "lines"
    async with System(tmp_path, database_url, triggerers=2) as system:
        system.write(MODULE, TRIGGER)
        await system.sound("good.py", pipeline("good", lines, keyed=False))
        append(lines, "0")
        await system.finished("good", 1)
        owner = await system.owner("good")
        [other] = [p for p in await system.processes("triggerer") if p["id"] != owner["id"]]
        [ready] = await eventually(lambda: guests(other["pid"]), every=0.05, why="the other one has a guest")
        system.freeze(system.parent.pid)  # it would start another triggerer, which might be the quicker one
        system.kill(owner["pid"], signal.SIGKILL)
        append(lines, "1")
        await system.finished("good", 2)
        assert (await system.owner("good"))["id"] == other["id"] and guests(other["pid"]) == [ready]
        system.thaw(system.parent.pid)
        assert [e["extra"]["line"] for e in await system.events("good")] == ["0", "1"]
        await system.verify()
