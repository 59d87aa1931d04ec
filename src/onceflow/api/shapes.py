"""Rows of the read models in the words of Airflow's API v2."""

from __future__ import annotations

from typing import Any

from onceflow.queries.rows import Row

TRIGGERED_BY = {"scheduler": "timetable", "cli": "cli", "api": "rest_api"}


def dag(row: Row) -> dict[str, Any]:
    return {
        "dag_id": row["dag_id"],
        "dag_display_name": row["dag_id"],
        "is_paused": row["paused"],
        "is_stale": not row["active"],
        "has_import_errors": row["broken"],
        "last_parsed_time": row["parsed_at"],
        "fileloc": row["file"],
        "relative_fileloc": row["file"],
        "bundle_name": row["bundle"],
        "description": row["description"] or None,
        "timetable_summary": row["schedule_text"],
        "tags": [{"name": name, "dag_id": row["dag_id"]} for name in row["tags"] or ()],
        "owners": [row["owner"]] if row["owner"] else [],
        "max_active_runs": row["max_active_runs"],
        "next_dagrun_run_after": row["next_slot_at"],
        "version": row["version"],
        "queued_runs": row["queued"],
        "running_runs": row["running"],
        "open_deliveries": row["open_deliveries"],
        "held_deliveries": row["held"],
        "storm_since": row["storm_at"],
    }


def dag_run(row: Row) -> dict[str, Any]:
    asset_triggered = row["run_type"] == "asset_triggered"
    return {
        "dag_run_id": row["run_id"],
        "dag_id": row["dag_id"],
        "run_type": row["run_type"],
        "state": row["state"],
        "logical_date": row["logical_date"],
        "queued_at": row["created_at"],
        "run_after": row["created_at"],
        "start_date": row["started_at"],
        "end_date": row["finished_at"],
        "conf": row["conf"] or {},
        "triggered_by": "asset" if asset_triggered else TRIGGERED_BY.get(row["created_by"].get("kind"), "operator"),
        "note": row["end_reason"],
        "of_run": row["of_run"],
        "reason": row["reason"],
        "downstream": row["downstream"],
        "events": row["events"],
        "pruned_events": row["pruned_events"],
        "version": row["version"],
    }


def asset(row: Row) -> dict[str, Any]:
    names = ("id", "name", "uri", "group", "extra", "active", "created_at", "events", "last_event_at")
    names += ("declared_key", "retention_seconds", "protection_seconds", "horizon_seconds")
    return {name: row[name] for name in names} | {
        "scheduled_dags": [{"dag_id": dag_id} for dag_id in row["consumers"]],
        "watchers": [{"name": name} for name in row["watchers"]],
    }


def asset_event(row: Row) -> dict[str, Any]:
    source = row["source"]
    of_task = source if source.get("kind") == "task" else {}
    names = (
        "id",
        "asset_id",
        "uri",
        "group",
        "key",
        "extra",
        "seq",
        "witnesses",
        "source",
        "deliveries",
        "flaw",
        "quarantined",
        "differing",
        "last_seen_at",
        "behind_seconds",
    )
    return {name: row[name] for name in names} | {
        "name": row["asset"],
        "timestamp": row["created_at"],
        "source_dag_id": of_task.get("dag_id"),
        "source_run_id": of_task.get("run_id"),
        "source_task_id": of_task.get("task_id"),
        "source_map_index": of_task.get("map_index"),
        "created_dagruns": [
            {"dag_id": d["dag_id"], "run_id": d["run_id"]} for d in row["deliveries"] if d["run_id"] is not None
        ],
    }
