"""What tests of the authoring layer share: DAG files on disk, specs of DAGs, a channel in memory."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from onceflow.model.dagspec import DagSpec, FileSpec, TaskSpec
from onceflow.sdk.dag import DAG
from onceflow.sdk.runtime import Result, execute
from onceflow.sdk.spec import Compiler

NOW = "2026-01-31T09:30:00.000000Z"


def spec_of(dag: DAG) -> DagSpec:
    """The DAG as it is stored."""
    return Compiler(Path("/nowhere")).dag(dag, "test.py")


def task_of(dag: DAG, task_id: str) -> TaskSpec:
    """One of its tasks as it is stored."""
    return spec_of(dag).task(task_id)


def edges(dag: DAG) -> set[tuple[str, str]]:
    """Each (before, after)."""
    return {(up, task.task_id) for task in spec_of(dag).tasks for up in task.upstream}


def file_of(*dags: DAG, assets: Any = ()) -> FileSpec:
    """A file that declares these DAGs and assets."""
    return Compiler(Path("/nowhere")).file("test.py", "0", dags, assets)


def write(folder: Path, name: str, text: str) -> Path:
    """A file in the DAG folder."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text).lstrip())
    return path


class Store:
    """The channel's protocol on dictionaries: what a host does, without the host."""

    def __init__(self, events: Any = (), inlets: Any = ()) -> None:
        self.xcoms: dict[tuple[str, str], Any] = {}
        self.events = list(events)
        self.inlets = list(inlets)
        self.asked: list[tuple[Any, ...]] = []
        self.task_id = ""

    def xcom_get(self, task_id: str, key: str, run_id: str | None = None) -> Any:
        self.asked.append(("xcom", task_id, key))
        return self.xcoms.get((task_id, key))

    def xcom_set(self, key: str, value: Any) -> None:
        self.xcoms[self.task_id, key] = value

    def triggering_events(self) -> list[dict[str, Any]]:
        self.asked.append(("events",))
        return self.events

    def inlet_events(self, asset: str, limit: int | None) -> list[dict[str, Any]]:
        self.asked.append(("inlet", asset, limit))
        found = [event for event in self.inlets if event["asset"] == asset]
        return found if limit is None else found[-limit:]


def event(number: int, asset: str, extra: Any = None, key: str | None = None) -> dict[str, Any]:
    """An event as the channel gives it."""
    return {
        "id": number,
        "asset": asset,
        "uri": "",
        "key": key,
        "extra": extra,
        "created_at": NOW,
        "source": {"kind": "task", "dag_id": "up", "task_id": "t"},
    }


def run_task(dag: DAG, task_id: str, store: Store | None = None, **request: Any) -> Result:
    """Run one task, and keep its result as the host would."""
    store = Store() if store is None else store
    store.task_id = task_id
    run = {"id": 7, "run_id": "manual__1", "run_type": "manual", "logical_date": None, "conf": {}, "created_at": NOW}
    run |= request.pop("run", {})
    result = execute(dag, {"run": run, "dag_id": dag.dag_id, "task_id": task_id, **request}, store)
    if result.outcome == "success" and result.value is not None:
        store.xcoms[task_id, "return_value"] = result.value
    return result
