"""DAG specs as plain JSON objects and back, and the hash that decides whether a DAG has a new version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from onceflow.model.dagspec import (
    FORMAT,
    AssetSchedule,
    AssetSpec,
    ContinuousSchedule,
    CronSchedule,
    DagSpec,
    FileSpec,
    IntervalSchedule,
    NoSchedule,
    OnceSchedule,
    ParseFailure,
    Schedule,
    TaskSpec,
    WatcherSpec,
)
from onceflow.model.errors import UnsupportedError
from onceflow.model.key import Key
from onceflow.model.states import TriggerRule
from onceflow.model.times import from_rfc3339, to_rfc3339

SCHEDULES: Mapping[str, type[Any]] = {
    "none": NoSchedule,
    "once": OnceSchedule,
    "continuous": ContinuousSchedule,
    "cron": CronSchedule,
    "interval": IntervalSchedule,
    "asset": AssetSchedule,
}


def to_json(spec: FileSpec | DagSpec | ParseFailure) -> dict[str, Any]:
    """The spec as JSON's own types; `*_from_json` give an equal spec back."""
    return {f.name: _plain(getattr(spec, f.name)) for f in fields(spec)}


def file_spec_from_json(value: Mapping[str, Any]) -> FileSpec:
    """The FileSpec that `to_json` wrote. Fields it does not know are ignored, missing ones have their default."""
    dags = tuple(dag_spec_from_json(d) for d in value.get("dags", ()))
    assets = tuple(_asset(a) for a in value.get("assets", ()))
    return _build(FileSpec, value, dags=dags, assets=assets)


def dag_spec_from_json(value: Mapping[str, Any]) -> DagSpec:
    """The DagSpec that `to_json` wrote. Raises UnsupportedError if a newer Onceflow wrote it in a form unknown here."""
    if value.get("format", FORMAT) > FORMAT:
        message = (
            f"DAG {value.get('dag_id')!r} is stored in format {value['format']}, the newest known here is {FORMAT}"
        )
        raise UnsupportedError(message, where=value.get("file", ""), remedy="upgrade this process")
    return _build(
        DagSpec,
        value,
        schedule=_schedule(value["schedule"]),
        tasks=tuple(_task(t) for t in value.get("tasks", ())),
        start_date=_time(value.get("start_date")),
        end_date=_time(value.get("end_date")),
    )


def failure_from_json(value: Mapping[str, Any]) -> ParseFailure:
    """The ParseFailure that `to_json` wrote."""
    return _build(ParseFailure, value)


def spec_hash(dag: DagSpec) -> str:
    """Hex BLAKE2b-128 of what the DAG says, wherever in its file it says so: every `where` is left out."""
    import hashlib  # loads OpenSSL, and guests that only read specs need none

    value = to_json(dag)
    del value["where"]
    for task in value["tasks"]:
        del task["where"]
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, datetime):
        return to_rfc3339(value)
    return value.value if isinstance(value, Enum) else value


def _build(cls: type[Any], value: Mapping[str, Any], **converted: Any) -> Any:
    """An instance of a spec class: lists become tuples where its field is one, `converted` goes before `value`."""
    arguments: dict[str, Any] = {}
    for f in fields(cls):
        if f.name in converted:
            arguments[f.name] = converted[f.name]
        elif f.name in value:
            given = value[f.name]
            arguments[f.name] = tuple(given) if str(f.type).startswith("tuple") else given
    return cls(**arguments)


def _schedule(value: Mapping[str, Any]) -> Schedule:
    return _build(SCHEDULES[value["kind"]], value)


def _task(value: Mapping[str, Any]) -> TaskSpec:
    return _build(TaskSpec, value, trigger_rule=TriggerRule(value.get("trigger_rule", TriggerRule.ALL_SUCCESS)))


def _asset(value: Mapping[str, Any]) -> AssetSpec:
    watchers = tuple(_build(WatcherSpec, w, key=_key(w.get("key"))) for w in value.get("watchers", ()))
    return _build(AssetSpec, value, watchers=watchers, key=_key(value.get("key")))


def _key(value: Mapping[str, Any] | None) -> Key | None:
    return None if value is None else _build(Key, value)


def _time(text: str | None) -> datetime | None:
    return None if text is None else from_rfc3339(text)
