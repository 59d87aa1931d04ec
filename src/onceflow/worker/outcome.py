"""What an attempt's end means: from the guest's result and exit to the report that is stored. Pure."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid5

from onceflow.model import retry
from onceflow.model.change import Change
from onceflow.model.dagspec import TaskSpec
from onceflow.model.errors import OnceflowError
from onceflow.model.limits import check_extra, check_key, check_xcom
from onceflow.model.states import Outcome, TaskState
from onceflow.model.upstream import Graph, skipped_by, skipped_by_short_circuit
from onceflow.store.tasks import ClaimedTask, Report

USER_FAILURES = frozenset({Outcome.FAILED, Outcome.TIMED_OUT, Outcome.KILLED, Outcome.CRASHED})


@dataclass(frozen=True)
class Ending:
    """How a guest ended. `result`: what it reported, if it did; `exit_code`: negative = by that signal.

    `ended_by_us` is "" or "timeout" or "stop": why we killed it.
    """

    result: Mapping[str, Any] | None
    exit_code: int
    ended_by_us: str = ""


def report(task: ClaimedTask, graph: Graph, ending: Ending) -> Report:
    """The report to store for this end of an attempt."""
    spec = graph.tasks[task.task_id]
    outcome, error = _outcome(ending, spec)
    result = ending.result or {}
    if outcome is Outcome.SUCCESS:
        try:
            return _success(task, graph, result, ending.exit_code)
        except OnceflowError as problem:
            outcome = Outcome.FAILED
            error = {"type": type(problem).__name__, "message": str(problem), "traceback": ""}
    state, delay = _next_state(outcome, spec, task.failures, bool(result.get("retry_allowed", True)))
    return Report(
        task.id,
        task.attempt,
        task.token,
        state,
        outcome,
        ending.exit_code,
        json.dumps(error) if error else None,
        delay,
    )


def _outcome(ending: Ending, spec: TaskSpec) -> tuple[Outcome, dict[str, str] | None]:
    if ending.ended_by_us == "stop":
        return Outcome.STOPPED, _error("Stopped", "the worker was told to stop")
    if ending.result is not None:
        return Outcome(ending.result["outcome"]), ending.result.get("error")
    if ending.ended_by_us == "timeout":
        message = f"ran longer than its execution_timeout of {spec.execution_timeout} s and did not give in"
        return Outcome.TIMED_OUT, _error("TaskTimeout", message)
    if ending.exit_code < 0:
        return Outcome.KILLED, _error("Killed", f"ended by signal {_signal_name(-ending.exit_code)}")
    return Outcome.CRASHED, _error("Crashed", f"ended with exit code {ending.exit_code} without a result")


def _next_state(outcome: Outcome, spec: TaskSpec, failures: int, retry_allowed: bool) -> tuple[TaskState, float | None]:
    if outcome is Outcome.STOPPED:
        return TaskState.QUEUED, None
    if outcome is Outcome.SKIPPED:
        return TaskState.SKIPPED, None
    if retry_allowed and retry.may_retry(spec, failures + 1):
        return TaskState.UP_FOR_RETRY, retry.delay(spec, failures + 1)
    return TaskState.FAILED, None


def _success(task: ClaimedTask, graph: Graph, result: Mapping[str, Any], exit_code: int) -> Report:
    value = None
    if result.get("value") is not None:
        value = json.dumps(result["value"])
        check_xcom(value, f"return value of task {task.task_id!r}")
    return Report(
        task.id,
        task.attempt,
        task.token,
        TaskState.SUCCESS,
        Outcome.SUCCESS,
        exit_code,
        value=value,
        skip=_skip(task.task_id, graph, result.get("skip")),
        changes=[_change(task, i, e) for i, e in enumerate(result.get("events", ()))],
        source=json.dumps(_source(task)),
    )


def _skip(task_id: str, graph: Graph, skip: Mapping[str, Any] | None) -> str | None:
    if skip is None:
        return None
    if "branch" in skip:
        return json.dumps(sorted(skipped_by(graph, task_id, skip["branch"])))
    return json.dumps(sorted(skipped_by_short_circuit(graph, task_id, bool(skip["short_circuit"]))))


def _change(task: ClaimedTask, index: int, event: Mapping[str, Any]) -> Change:
    """An outlet event. Its sighting comes from the attempt's token, so that a report sent twice records it once."""
    where = f"outlet event of task {task.task_id!r}"
    extra = json.dumps(event.get("extra"))
    check_extra(extra, where)
    key = event.get("key")
    if key is not None:
        check_key(key, where)
    return Change(event["asset"], extra, key, uuid5(task.token, str(index)))


def _source(task: ClaimedTask) -> dict[str, Any]:
    lane = {"lane": task.run_fields["run_type"]} if task.run_fields.get("downstream") == "tag" else {}
    return lane | {
        "kind": "task",
        "dag_id": task.dag_id,
        "run_id": task.run_fields["run_name"],
        "task_id": task.task_id,
        "map_index": task.map_index,
        "attempt": task.attempt,
    }


def _error(kind: str, message: str) -> dict[str, str]:
    return {"type": kind, "message": message, "traceback": ""}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
