"""One attempt of a task in its guest: its run, its instance, its context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from onceflow.model.limits import check_xcom
from onceflow.model.serialize import decode, dumps, encode
from onceflow.model.times import from_rfc3339
from onceflow.sdk.events import InletEvents, OutletEvents, TriggeringEvents
from onceflow.sdk.variable import VariableAccess

if TYPE_CHECKING:
    from onceflow.sdk.dag import DAG
    from onceflow.sdk.operator import BaseOperator

RETURN_VALUE = "return_value"


class Channel(Protocol):
    """How a running task reaches the outside; values are in the encoded form of `model.serialize`."""

    def xcom_get(self, task_id: str, key: str, run_id: str | None = None) -> Any:
        """The value, or None if there is none; `run_id` None: this run's."""
        ...

    def xcom_set(self, key: str, value: Any) -> None:
        """Store a value of this task."""
        ...

    def triggering_events(self) -> list[dict[str, Any]]:
        """The events of this run in the order of their commit: id, asset, uri, key, extra, created_at, source."""
        ...

    def inlet_events(self, asset: str, limit: int | None) -> list[dict[str, Any]]:
        """The newest `limit` events of an asset, oldest of them first; None: all."""
        ...


@dataclass(frozen=True)
class DagRun:
    """The run of a task."""

    id: int
    dag_id: str
    run_id: str
    run_type: str
    logical_date: datetime | None
    conf: dict[str, Any]
    created_at: datetime | None
    started_at: datetime | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    partition_key: str | None = None
    state: str = "running"

    @property
    def start_date(self) -> datetime | None:
        return self.started_at

    @property
    def queued_at(self) -> datetime | None:
        return self.created_at

    @property
    def run_after(self) -> datetime | None:
        return self.logical_date or self.created_at

    @classmethod
    def of(cls, dag_id: str, run: Mapping[str, Any]) -> DagRun:
        logical = time_of(run.get("logical_date"))
        return cls(
            id=run.get("id", 0),
            dag_id=dag_id,
            run_id=run["run_id"],
            run_type=run.get("run_type", "manual"),
            logical_date=logical,
            conf=decode(run.get("conf") or {}),
            created_at=time_of(run.get("created_at")),
            started_at=time_of(run.get("started_at")),
            data_interval_start=time_of(run.get("data_interval_start")) or logical,
            data_interval_end=time_of(run.get("data_interval_end")) or logical,
            partition_key=run.get("partition_key"),
        )


class TaskRun:
    """One attempt of one task, in its guest: what XComs, params and channel it has; each made when it is needed."""

    def __init__(self, dag: DAG, task: BaseOperator, request: Mapping[str, Any], channel: Channel) -> None:
        self.dag = dag
        self.task = task
        self.request = request
        self.channel = channel
        self._seen: dict[tuple[str, str], Any] = {}

    @cached_property
    def dag_run(self) -> DagRun:
        return DagRun.of(self.dag.dag_id, self.request["run"])

    @cached_property
    def params(self) -> dict[str, Any]:
        """The DAG's parameters, the task's own before them, what the run was started with before both."""
        own = {name: param.value for name, param in self.task.params.items() if param.has_value}
        return {**decode(self.request.get("params") or {}), **own, **self.dag_run.conf}

    @cached_property
    def outlet_events(self) -> OutletEvents:
        return OutletEvents(self.task.outlets)

    def xcom_get(self, task_id: str, key: str, run_id: str | None = None) -> Any:
        """A value that a task of this or another run stored; asked for once."""
        if run_id is not None:
            return decode(self.channel.xcom_get(task_id, key, run_id))
        if (task_id, key) not in self._seen:
            self._seen[task_id, key] = decode(self.channel.xcom_get(task_id, key))
        return self._seen[task_id, key]

    def xcom_set(self, key: str, value: Any) -> None:
        """Store a value of this task. Raises InputError if it is not JSON or too large."""
        self.channel.xcom_set(key, encoded_xcom(value, f"XCom {key!r}"))
        self._seen[self.task.task_id, key] = value


class TaskInstance:
    """The attempt as task code sees it: `ti.xcom_pull`, `ti.try_number`, `ti.fence_token`."""

    def __init__(self, run: TaskRun) -> None:
        request = run.request
        self._run = run
        self.task = run.task
        self.task_id = run.task.task_id
        self.dag_id = run.dag.dag_id
        self.run_id = run.dag_run.run_id
        self.dag_run = run.dag_run
        self.map_index: int = request.get("map_index", -1)
        self.attempt: int = request.get("attempt", 1)
        self.try_number: int = request.get("try_number", self.attempt)
        self.max_tries: int = request.get("max_tries", 0)
        self.fence_token: str = str(request.get("token", ""))
        self.start_date = time_of(request.get("started_at"))
        self.state = "running"
        self.hostname = request.get("host", "")

    def xcom_pull(
        self,
        task_ids: str | Sequence[str] | None = None,
        key: str = RETURN_VALUE,
        dag_id: str | None = None,
        *,
        run_id: str | None = None,
        default: Any = None,
        map_indexes: Any = None,
        include_prior_dates: bool = False,
    ) -> Any:
        """What a task stored under a key; a list if `task_ids` is a list; this task's own if it is left out."""
        if dag_id not in (None, self.dag_id):
            raise ValueError(f"xcom_pull reads only this DAG's tasks ({self.dag_id}), not {dag_id}'s")
        if task_ids is None or isinstance(task_ids, str):
            value = self._run.xcom_get(task_ids or self.task_id, key, run_id)
            return default if value is None else value
        return [self.xcom_pull(task_id, key, run_id=run_id, default=default) for task_id in task_ids]

    def xcom_push(self, key: str, value: Any) -> None:
        """Store a value for other tasks."""
        self._run.xcom_set(key, value)

    def get_dagrun(self) -> DagRun:
        return self.dag_run

    def __repr__(self) -> str:
        return f"<TaskInstance {self.dag_id}.{self.task_id} {self.run_id} try {self.try_number}>"


def context_of(run: TaskRun) -> dict[str, Any]:
    """The values of an attempt's context. What must be fetched is fetched when it is looked at."""
    ti, dag_run, task = TaskInstance(run), run.dag_run, run.task
    context = {
        "conf": dag_run.conf,
        "dag": run.dag,
        "dag_run": dag_run,
        "data_interval_end": dag_run.data_interval_end,
        "data_interval_start": dag_run.data_interval_start,
        "inlet_events": InletEvents(task.inlets, run.channel.inlet_events),
        "inlets": task.inlets,
        "logical_date": dag_run.logical_date,
        "map_index": ti.map_index,
        "outlet_events": run.outlet_events,
        "outlets": task.outlets,
        "params": run.params,
        "run_id": dag_run.run_id,
        "start_date": dag_run.start_date,
        "task": task,
        "task_instance": ti,
        "ti": ti,
        "triggering_asset_events": TriggeringEvents(run.channel.triggering_events),
        "try_number": ti.try_number,
        "var": {"value": VariableAccess(), "json": VariableAccess(as_json=True)},
    }
    at = dag_run.created_at if dag_run.run_type == "manual" else None
    if at := dag_run.logical_date or at:
        context.update(dated(at))
    return context


def dated(at: datetime) -> dict[str, str]:
    """Airflow's spellings of the logical date; for a manual run, which has none, of its creation."""
    return {
        "ds": at.strftime("%Y-%m-%d"),
        "ds_nodash": at.strftime("%Y%m%d"),
        "ts": at.isoformat(),
        "ts_nodash": at.strftime("%Y%m%dT%H%M%S"),
        "ts_nodash_with_tz": at.isoformat().replace("-", "").replace(":", ""),
    }


def encoded_xcom(value: Any, where: str) -> Any:
    """A value in its stored form. Raises InputError if it is not JSON or too large."""
    check_xcom(dumps(value, where), where)
    return encode(value, where)


def time_of(value: Any) -> datetime | None:
    """A time given as text or as a datetime."""
    return from_rfc3339(value) if isinstance(value, str) else value
