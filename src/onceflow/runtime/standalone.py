"""Everything on one machine with one command: PostgreSQL (embedded unless an address is given) and all roles."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from onceflow.config import Settings, child_environment, to_values
from onceflow.model.clock import boot_seconds
from onceflow.model.errors import ConfigError
from onceflow.runtime.postgres import EmbeddedPostgres
from onceflow.runtime.supervisor import Supervisor

SCAN_SECONDS = 10.0


def run(settings: Settings) -> int:
    """Start all roles and serve until SIGTERM or SIGINT; prints `ready http://…` once the API server answers.

    Returns the exit code. New DAGs start unpaused here unless `new_dags_paused` says otherwise.
    """
    settings = replace(settings, new_dags_paused=bool(settings.new_dags_paused))
    _make(settings.home, "home", mode=0o700)
    _make(settings.dags_folder, "dags")
    if settings.database_url:
        return _run(settings, None)
    with EmbeddedPostgres(settings.home, settings.pg_bindir) as postgres:
        return _run(replace(settings, database_url=postgres.url), postgres)


def _make(folder: Path, setting: str, mode: int = 0o777) -> None:
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        problem = f"the folder cannot be made: {error.strerror or error}"
        raise ConfigError(
            problem, where=str(folder), remedy=f"set {setting} to a folder that this user may write to"
        ) from error


def _run(settings: Settings, postgres: EmbeddedPostgres | None) -> int:
    prepared = subprocess.run(
        [sys.executable, "-m", "onceflow.runtime.prepare"],
        input=json.dumps({"settings": to_values(settings)}).encode(),
        env=child_environment(),
        check=False,
    )
    if prepared.returncode:
        return prepared.returncode
    supervisor = Supervisor(settings, _kinds(settings))
    readiness = Readiness(supervisor)

    def watch() -> None:
        readiness.check()
        if postgres is not None:
            _keep_running(postgres)

    supervisor.on_message = readiness.hear
    supervisor.watch = watch
    return supervisor.run()


class Readiness:
    """Says `ready` once, when the API server serves and the DAG folder was read for the first time.

    Reading many files may take long: then ready means that the API server serves, and the rest follows.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._address = ""
        self._scanned = False
        self._said = False
        self._give_up = boot_seconds() + SCAN_SECONDS

    def hear(self, message: dict[str, Any]) -> None:
        """A child's message: {"ready": address} or {"scanned": number of files}."""
        self._scanned = self._scanned or "scanned" in message
        if address := message.get("ready"):
            self._address = address
            port = int(address.rpartition(":")[2])  # a restarted API server serves where it did before
            self._supervisor.settings = replace(self._supervisor.settings, port=port)
        self.check()

    def check(self) -> None:
        """Say it, if it is time."""
        if not self._said and self._address and (self._scanned or boot_seconds() > self._give_up):
            self._said = True
            print(f"ready {self._address}", flush=True)


def _keep_running(postgres: EmbeddedPostgres) -> None:
    """Start the server again if it was killed; what was committed is there."""
    if not postgres.check():
        print("PostgreSQL ended; starting it again", file=sys.stderr, flush=True)
        postgres.start()


def _kinds(settings: Settings) -> list[str]:
    return [
        "api-server",
        "dag-processor",
        *["scheduler"] * settings.schedulers,
        *["worker"] * settings.workers,
        *["triggerer"] * settings.triggerers,
    ]
