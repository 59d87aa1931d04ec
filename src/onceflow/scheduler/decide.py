"""What becomes of a run's tasks: the rules of `model/upstream.py` within `max_active_tasks`. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from onceflow.model.states import TaskState
from onceflow.model.upstream import plan
from onceflow.store.versions import Version


def decide(version: Version, states: Mapping[str, TaskState], due: frozenset[str]) -> dict[str, TaskState]:
    """The new states of a run's tasks; `due` are those to be tried again.

    Ready tasks are queued by priority, then in topological order, while fewer than `max_active_tasks` of the run are
    queued or running.
    """
    known = dict(states) | dict.fromkeys(due, TaskState.READY)
    changed = dict.fromkeys(due, TaskState.READY) | plan(version.graph, known)
    known |= changed
    room = version.spec.max_active_tasks - sum(s.active for s in known.values())
    ready = [t for t in version.graph.order if known[t] is TaskState.READY]
    ready.sort(key=lambda t: -version.graph.tasks[t].priority_weight)
    return changed | dict.fromkeys(ready[: max(0, room)], TaskState.QUEUED)
