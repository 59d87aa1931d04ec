"""Executors: how queued tasks reach workers. Found by name: the local one here, others as entry points."""

from __future__ import annotations

from importlib.metadata import entry_points
from uuid import UUID

from onceflow.executors.base import Executor
from onceflow.executors.local import LocalExecutor
from onceflow.model.errors import ConfigError
from onceflow.runtime.wakeups import Wakeups
from onceflow.store.database import Database

GROUP = "onceflow.executors"


def load(name: str, database: Database, worker: UUID, lease_seconds: float) -> Executor:
    """The executor of this name for a worker. Raises ConfigError naming those there are."""
    if name == LocalExecutor.name:
        return LocalExecutor(database, worker, lease_seconds)
    found = {e.name: e for e in entry_points(group=GROUP)}
    if name not in found:
        allowed = ", ".join(sorted({LocalExecutor.name, *found}))
        raise ConfigError(f"there is no executor {name!r}", where="setting executor", remedy=f"allowed: {allowed}")
    return found[name].load()(database, worker, lease_seconds)


def notify_queued(wakeups: Wakeups) -> None:
    """Tell the executors that tasks were queued; call it after the commit."""
    wakeups.notify("task")
