"""Where the logs of attempts are: paths made of ids, not of user strings, a thousand runs to a folder."""

from __future__ import annotations

from pathlib import Path

RUNS_PER_FOLDER = 1000


def attempt_log(home: Path, run: int, task: int, attempt: int) -> str:
    """HOME/logs/runs=<first id of the folder>/run=<id>.task=<id>.attempt=<number>.log."""
    first = run // RUNS_PER_FOLDER * RUNS_PER_FOLDER
    return f"{home}/logs/runs={first}/run={run}.task={task}.attempt={attempt}.log"
