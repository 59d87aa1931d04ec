"""The forms of requests and answers, for checking and for OpenAPI. Names are those of Airflow's API v2."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, WithJsonSchema

Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""RFC 3339 UTC with microseconds and `Z`, as it is stored."""


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class DagPatch(Request):
    """`pending` says what becomes of the events that wait when a DAG is resumed; `reason` is kept for the record."""

    is_paused: bool
    pending: Literal["each", "join", "discard"] = "each"
    reason: str | None = None


class TriggerDagRun(Request):
    """A run made by hand; `conf` must fit the DAG's params. Run ids are given by Onceflow."""

    conf: dict[str, Any] | None = None
    logical_date: str | None = None


class CreateAssetEvent(Request):
    """A change of the asset named by exactly one of `asset_id`, `name` and `uri`."""

    asset_id: int | None = None
    name: str | None = None
    uri: str | None = None
    key: str | None = None
    extra: Any = None


Downstream = Literal["emit", "hold", "tag"]


class Rerun(Request):
    """`downstream`: what becomes of the events that the run makes; `reason` is kept for the record."""

    reason: str | None = None
    downstream: Downstream = "emit"


class Replay(Rerun):
    """The events of these assets (names or URIs), recorded between two times (inclusive), or with these ids.

    `rehearse` only says which runs it would make.
    """

    assets: list[str] | None = None
    since: str | None = None
    until: str | None = None
    events: list[int] | None = None
    rehearse: bool = False


class Settle(Request):
    """Only deliveries of these events, or of this asset (name or URI)."""

    events: list[int] | None = None
    asset: str | None = None
    reason: str | None = None


class Release(Request):
    """`each`: judged as ever; `join`: all into one run; `slowly`: `rate` a minute, in their order; `discard`."""

    how: Literal["each", "join", "slowly", "discard"]
    rate: float | None = None
    reason: str | None = None


class Fix(Request):
    """Either `extra`, the payload that it should have had, or `as_is`; `key`: what no field of the payload gives."""

    extra: Any = None
    as_is: bool = False
    key: str | None = None
    reason: str | None = None


class Recheck(Request):
    """The asset by name or URI."""

    asset: str
    reason: str | None = None


class Mended(BaseModel):
    event_id: int
    key: str | None
    same_as: int | None


class StillFlawed(BaseModel):
    event_id: int
    flaw: str


class Rechecked(BaseModel):
    """`released`: what went on, or is the same change as the event `same_as`; `left`: what is still wrong."""

    asset: str
    released: list[Mended]
    left: list[StillFlawed]


class ReleaseWatchers(Request):
    """The watchers of this asset (name or URI), or the one of this name."""

    asset: str
    watcher: str | None = None
    reason: str | None = None


class ReleasedWatchers(BaseModel):
    asset: str
    released: list[str]


class FedAsset(BaseModel):
    asset: str
    watcher: str
    match: list[Any] | None


class Watcher(BaseModel):
    """One watcher, whatever it feeds; `asset` and `watcher` name the first. `health`: healthy, starting, unproven, red.

    `flawed`: how many of its changes went to quarantine; `flaw`: what is wrong with the last, while that is the reason.
    """

    model_config = ConfigDict(extra="allow")

    id: int
    asset: str | None
    watcher: str | None
    assets: list[FedAsset]
    mode: Literal["single", "all"]
    state: str
    health: str
    reason: str
    owner: str | None
    term: int
    cursor: Any
    last_observation: Time | None
    last_event_at: Time | None
    last_error: Any
    last_error_at: Time | None
    next_try_at: Time | None
    strikes: int
    lag: float | None
    unmatched: int
    flawed: int
    flaw: str | None
    storm: Any
    active: bool


class WatcherCollection(BaseModel):
    watchers: list[Watcher]
    total_entries: int


class WhyRun(BaseModel):
    """`because`: the reasons in sentences; `decision`: what was stored when it was made; `events`: those of the run."""

    run: dict[str, Any]
    because: list[str]
    decision: dict[str, Any] | None
    events: list[dict[str, Any]]


class WhyEvent(BaseModel):
    """`because`: of the event; each of `deliveries`, `runs_beside` and `not_subscribed` has one of its own."""

    event: dict[str, Any]
    because: list[str]
    witnesses: list[dict[str, Any]]
    deliveries: list[dict[str, Any]]
    runs_beside: list[dict[str, Any]]
    not_subscribed: list[dict[str, Any]]


class WhyNot(BaseModel):
    """`because`: the most decisive first; `open`: what waits or is held; `decided`: the rest; `history`: since then."""

    dag: dict[str, Any]
    since: Time
    schedulers: int
    because: list[str]
    assets: list[dict[str, Any]]
    open: list[dict[str, Any]]
    decided: list[dict[str, Any]]
    history: list[dict[str, Any]]


class ReplayRun(BaseModel):
    dag_run_id: str | None
    events: list[int]


class FilteredEvent(BaseModel):
    event_id: int
    reason: str


class Replayed(BaseModel):
    """`dag_run_id` is null in a rehearsal; `filtered`: events that the DAG's filters do not accept."""

    runs: list[ReplayRun]
    filtered: list[FilteredEvent]


class SettledDeliveries(BaseModel):
    dag_id: str
    deliveries: int


class Tag(BaseModel):
    name: str
    dag_id: str


class Dag(BaseModel):
    dag_id: str
    dag_display_name: str
    is_paused: bool
    is_stale: bool
    has_import_errors: bool
    last_parsed_time: Time | None
    fileloc: str
    relative_fileloc: str
    bundle_name: str
    description: str | None
    timetable_summary: str
    tags: list[Tag]
    owners: list[str]
    max_active_runs: int
    next_dagrun_run_after: Time | None
    version: int | None
    queued_runs: int
    running_runs: int
    open_deliveries: int
    held_deliveries: int
    storm_since: Time | None


class DagCollection(BaseModel):
    dags: list[Dag]
    total_entries: int


class DagRun(BaseModel):
    dag_run_id: str
    dag_id: str
    run_type: str
    state: str
    logical_date: Time | None
    queued_at: Time
    run_after: Time
    start_date: Time | None
    end_date: Time | None
    conf: dict[str, Any]
    triggered_by: str
    note: str | None
    of_run: str | None
    reason: str | None
    downstream: str
    events: list[int]
    pruned_events: int
    version: int | None


class DagRunCollection(BaseModel):
    dag_runs: list[DagRun]
    total_entries: int


class DagReference(BaseModel):
    dag_id: str


class WatcherReference(BaseModel):
    name: str


class Asset(BaseModel):
    """Of what is in seconds, null is for ever. `horizon_seconds`: later than that a change may be a new event."""

    id: int
    name: str
    uri: str
    group: str
    extra: Any
    active: bool
    created_at: Time
    events: int
    last_event_at: Time | None
    declared_key: str | None
    retention_seconds: float | None
    protection_seconds: float | None
    horizon_seconds: float | None
    scheduled_dags: list[DagReference]
    watchers: list[WatcherReference]


class AssetCollection(BaseModel):
    assets: list[Asset]
    total_entries: int


class RunReference(BaseModel):
    dag_id: str
    run_id: str


class Delivery(BaseModel):
    dag_id: str | None
    disposition: str
    run_id: str | None
    reason: str | None


class AssetEvent(BaseModel):
    id: int
    asset_id: int
    name: str
    uri: str
    group: str
    key: str | None
    extra: Any
    timestamp: Time
    seq: int
    witnesses: int
    flaw: str | None
    quarantined: bool
    differing: int
    last_seen_at: Time | None
    behind_seconds: float | None
    source: dict[str, Any]
    source_dag_id: str | None
    source_run_id: str | None
    source_task_id: str | None
    source_map_index: int | None
    created_dagruns: list[RunReference]
    deliveries: list[Delivery]


class RecordedAssetEvent(AssetEvent):
    """`status`: "stored" if this request made the event, "duplicate" if it was known and has one more witness.

    "released": it was known, in quarantine, and goes on with the payload of this request.
    """

    status: str


class MendedAssetEvent(AssetEvent):
    """`same_as`: the event that had the key already; this one is the same change, and is discarded."""

    same_as: int | None


class PrunedAssetEvent(BaseModel):
    """The answer for a change that is known, while its event is pruned."""

    id: int
    name: str
    key: str | None
    status: str
    pruned: bool


class Sighting(BaseModel):
    source: dict[str, Any]
    seen_at: Time
    behind_seconds: float
    differs: bool


class ShownAssetEvent(AssetEvent):
    """`sightings`: the first, which made the event, and the later ones; `differs`: with another payload."""

    sightings: list[Sighting]


class AssetEventCollection(BaseModel):
    asset_events: list[AssetEvent]
    total_entries: int


class Error(BaseModel):
    """What every refusal looks like."""

    detail: Any
    code: str
    where: str
    remedy: str
