"""Everything on one machine with one command: PostgreSQL (embedded unless an address is given) and all roles."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

from onceflow.config import Settings, child_environment, to_values
from onceflow.runtime.postgres import EmbeddedPostgres
from onceflow.runtime.supervisor import Supervisor


def run(settings: Settings) -> int:
    """Start all roles and serve until SIGTERM or SIGINT; prints `ready http://…` once the API server answers.

    Returns the exit code. New DAGs start unpaused here unless `new_dags_paused` says otherwise.
    """
    settings = replace(settings, new_dags_paused=bool(settings.new_dags_paused))
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings.dags_folder.mkdir(parents=True, exist_ok=True)
    if settings.database_url:
        return _run(settings, None)
    with EmbeddedPostgres(settings.home, settings.pg_bindir) as postgres:
        return _run(replace(settings, database_url=postgres.url), postgres)


def _run(settings: Settings, postgres: EmbeddedPostgres | None) -> int:
    prepared = subprocess.run(
        [sys.executable, "-m", "onceflow.runtime.prepare"],
        input=json.dumps({"settings": to_values(settings)}).encode(),
        env=child_environment(),
        check=False,
    )
    if prepared.returncode:
        return prepared.returncode
    supervisor = Supervisor(settings, _kinds(settings), _announce)
    if postgres is not None:
        supervisor.watch = lambda: _keep_running(postgres)
    return supervisor.run()


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


def _announce(line: str) -> None:
    print(f"ready {json.loads(line)['ready']}", flush=True)
