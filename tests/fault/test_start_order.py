"""Roles that start in any order, each long after the others: who comes late misses nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from support import eventually
from system import System
from watched import MODULE, TRIGGER, append, pipeline

FOLLOWS = """
    from onceflow import DAG, Asset, task

    with DAG("follows", schedule=Asset("orders"), max_active_runs=100):
        @task
        def work(): ...
        work()
"""
ROLES = ("dag-processor", "triggerer", "scheduler", "worker")
ORDERS = (ROLES[::-1], ("scheduler", "worker", "dag-processor", "triggerer"))
"""The system is then started a second time, in the opposite order."""


class Apart(System):
    """A system of which each role is started by itself."""

    roles: list[subprocess.Popen[bytes]]

    async def start_role(self, kind: str) -> None:
        """Start a role beside those that run, and wait until it does its work."""
        command = [sys.executable, "-m", "onceflow.cli.main", "--home", str(self.home), kind]
        with self.log.open("ab") as log:
            self.roles.append(
                subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, cwd=self.home.parent)
            )

        async def works() -> bool:
            return any(p["ready"] for p in await self.processes(kind))

        await eventually(works, every=0.1, why=f"a {kind} is ready")

    def end_roles(self) -> None:
        """Ask all of them to stop, the last one first."""
        for process in reversed(self.roles):
            process.terminate()
        for process in self.roles:
            assert process.wait(20) == 0
        self.roles.clear()


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
async def test_who_starts_late_misses_nothing(tmp_path: Path, database_url: str, order: Sequence[str]) -> None:
    """airflow#68888: changes come before, between and after the roles' starts, and while none of them runs."""
    system = Apart(tmp_path, database_url, dags=tmp_path / "dags", new_dags_paused="false")
    system.home.mkdir()
    system.roles = []
    lines, emitted = tmp_path / "lines", 0
    system.write(MODULE, TRIGGER)
    system.write("fed.py", pipeline("fed", lines))
    system.write("follows.py", FOLLOWS)
    append(lines, "first")
    told = ["first"]
    try:
        for number, roles in enumerate((order, order[::-1])):
            known = number > 0
            for kind in roles:
                await system.start_role(kind)
                known = known or kind == "dag-processor"
                told.append(f"{number} {kind}")
                append(lines, told[-1])
                if known:
                    await follows_is_known(system)
                    emitted += len(await system.emit("orders", f"{number} {kind}"))
            assert len(await system.finished("fed", len(told))) == len(told)
            assert len(await system.finished("follows", emitted)) == emitted
            assert [e["key"] for e in await system.events("fed")] == told
            system.end_roles()
            told.append(f"{number} nobody")
            append(lines, told[-1])
            emitted += len(await system.emit("orders", f"{number} nobody"))
        for kind in ROLES:
            await system.start_role(kind)
        await system.finished("fed", len(told))
        await system.finished("follows", emitted)
        assert await system.count_runs("fed") == {"success": len(told)}
        assert await system.count_runs("follows") == {"success": emitted}
        await system.verify()
    finally:
        print(system.log_tail())
        for process in system.roles:
            process.kill()
            process.wait()


async def follows_is_known(system: System) -> None:
    """Its consumer is registered: what comes from now on is its own."""

    async def known() -> bool:
        return "follows" in await system.dag_ids()

    await eventually(known, every=0.1, why="the consumer is registered")
