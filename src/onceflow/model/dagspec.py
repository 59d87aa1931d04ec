"""What a DAG file says, as plain values: the form in which a DAG is stored, versioned, scheduled and shown.

A `FileSpec` is the parse of one file. Everything here is immutable and turns into JSON and back without loss
(`to_json`, `from_json` in `model/serialize.py`); the hash of the canonical JSON decides whether there is a new version.
Durations are seconds, times are aware UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from onceflow.model.key import Key
from onceflow.model.rules import Rules
from onceflow.model.states import TriggerRule

FORMAT = 1


@dataclass(frozen=True)
class WatcherSpec:
    """A trigger that watches an asset. `file` is the DAG file to load first if the trigger's class lives in one.

    `key`: what of its payloads identifies a change, if the watcher says so itself.
    """

    name: str
    classpath: str  # "package.module.Class"
    kwargs: dict[str, Any]  # encoded by model/serialize.encode
    mode: Literal["single", "all"] = "single"
    file: str = ""  # relative to the DAG folder; "" = importable module
    code: str = ""  # hash of what the DAG folder says about the class; "" = importable module
    where: str = ""  # "file.py:12", for messages
    key: Key | None = None
    match: list[Any] | None = None  # which changes are the asset's, as in model/event_filter; None = all
    keep_cursor: bool = False
    silent_after: float | None = None  # seconds without an observation; None = it promises none
    canary: float | None = None  # seconds from one synthetic change to the next; None = none
    max_events_per_minute: int | None = None  # before it is a storm; 0 = any number, None = as the setting says


@dataclass(frozen=True)
class AssetSpec:
    """An asset is its name; `key`, `retention`, `protection` and `schema` as in `model/rules.py`.

    `outlet`: a task of this file makes its events.
    """

    name: str
    uri: str = ""
    group: str = "asset"
    extra: dict[str, Any] = field(default_factory=dict)
    watchers: tuple[WatcherSpec, ...] = ()
    where: str = ""
    key: Key | None = None
    retention: float | None = None
    protection: float | None = None
    schema: dict[str, Any] | None = None
    high_water: bool = False
    outlet: bool = False

    @property
    def rules(self) -> Rules:
        """What is said here about the asset's changes."""
        return Rules(self.key, self.retention, self.protection, self.schema, self.high_water)


# A condition over assets, as nested plain lists: ["asset", name] | ["and", [..]] | ["or", [..]]
Condition = list[Any]


@dataclass(frozen=True)
class NoSchedule:
    kind: Literal["none"] = "none"


@dataclass(frozen=True)
class OnceSchedule:
    kind: Literal["once"] = "once"


@dataclass(frozen=True)
class ContinuousSchedule:
    kind: Literal["continuous"] = "continuous"


@dataclass(frozen=True)
class CronSchedule:
    expression: str
    timezone: str = "UTC"
    kind: Literal["cron"] = "cron"


@dataclass(frozen=True)
class IntervalSchedule:
    seconds: float
    kind: Literal["interval"] = "interval"


Policy = Literal["each", "all", "window", "latest"]


@dataclass(frozen=True)
class AssetSchedule:
    """Consumes assets: the policy says how events become runs (`model/consume.py`).

    `filters` say which events of an asset are wanted (`model/event_filter.py`), by its name; an asset without one is
    wanted whole. `quiet`, `max_wait` (seconds) and `max_size` (events) are those of the policy "window".
    """

    condition: Condition
    policy: Policy
    quiet: float | None = None
    max_wait: float | None = None
    max_size: int | None = None
    filters: dict[str, list[Any]] = field(default_factory=dict)
    kind: Literal["asset"] = "asset"


Schedule = NoSchedule | OnceSchedule | ContinuousSchedule | CronSchedule | IntervalSchedule | AssetSchedule


@dataclass(frozen=True)
class TaskSpec:
    task_id: str
    upstream: tuple[str, ...] = ()
    trigger_rule: TriggerRule = TriggerRule.ALL_SUCCESS
    retries: int = 0
    retry_delay: float = 300.0
    retry_exponential_backoff: float = 0.0  # 0 = off, else the factor per retry
    max_retry_delay: float | None = None
    execution_timeout: float | None = None
    outlets: tuple[str, ...] = ()  # asset names
    inlets: tuple[str, ...] = ()
    priority_weight: int = 1
    queue: str = "default"
    executor: str = "local"
    isolation: Literal["auto", "fork", "fresh"] = "auto"
    is_setup: bool = False
    is_teardown: bool = False
    on_failure_fail_dagrun: bool = False
    ignore_downstream_trigger_rules: bool = True  # short circuit: skip everything below, whatever the rules
    operator: str = "task"  # what it is, for people: "task", "branch", "BaseOperator subclass"
    doc: str = ""
    where: str = ""


@dataclass(frozen=True)
class DagSpec:
    dag_id: str
    schedule: Schedule
    tasks: tuple[TaskSpec, ...]
    file: str  # relative to the DAG folder
    where: str = ""
    description: str = ""
    doc: str = ""
    tags: tuple[str, ...] = ()
    owner: str = ""
    start_date: datetime | None = None
    end_date: datetime | None = None
    catchup: bool = False
    max_active_runs: int = 16
    max_active_tasks: int = 16
    max_rounds: int = 5  # runs of it in the causes of an event that it gets, before it is a loop; 0 = any number
    max_runs_per_minute: int | None = None  # that its events start, before it is a storm; 0 = any number
    dagrun_timeout: float | None = None
    params: dict[str, Any] = field(default_factory=dict)  # defaults, encoded
    param_schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    paused_on_creation: bool | None = None
    while_paused: Literal["hold", "discard"] = "hold"  # what becomes of the events that come meanwhile
    previous_id: str = ""
    format: int = FORMAT

    def task(self, task_id: str) -> TaskSpec:
        return next(t for t in self.tasks if t.task_id == task_id)


@dataclass(frozen=True)
class FileSpec:
    """One parsed DAG file: the DAGs it defines and every asset it names."""

    path: str
    source_hash: str  # hex BLAKE2b-128 of the file's bytes
    dags: tuple[DagSpec, ...] = ()
    assets: tuple[AssetSpec, ...] = ()
    warnings: tuple[str, ...] = ()
    starts_threads: bool = False  # a thread runs after import: tasks need a fresh interpreter


@dataclass(frozen=True)
class ParseFailure:
    """A DAG file that could not become a FileSpec. `where` is "file.py:line"."""

    path: str
    source_hash: str
    code: str
    message: str
    where: str
    remedy: str = ""
    traceback: str = ""
