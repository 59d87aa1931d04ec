"""Executors: who runs queued tasks. The local one hands them to Onceflow's own workers through the database."""

from __future__ import annotations

from onceflow.runtime.wakeups import Wakeups


def notify_queued(wakeups: Wakeups) -> None:
    """Tell the executors that tasks were queued; call it after the commit."""
    wakeups.notify("task")
