"""Why a DAG has had no run, or not more, since a time: from what stands in its way now, and what was decided then."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from onceflow.model.times import from_rfc3339
from onceflow.queries import explain
from onceflow.queries.dags import no_such_dag, schedule_text
from onceflow.queries.processes import health
from onceflow.queries.rows import Row, collect, plain, stream
from onceflow.queries.watchers import stream_watchers
from onceflow.store.database import Database

HISTORY = 100
REASONS = 20


async def why_not(database: Database, dag_id: str, since: datetime | None = None) -> dict[str, Any]:
    """What keeps the DAG from a run. `since` None: since its last run was made, or it was first read.

    `because` are sentences, the most decisive first. `dag`: as it stands; `assets`: those it is subscribed to, with
    their watchers; `open`: deliveries that wait or are held, `decided`: what became of others; `history`: judgements
    without a run, decisions, what people did, versions, the newest first. Raises NotFoundError.
    """
    found = await database.fetchrow("dags/why_not", dag_id)
    if found is None:
        raise await no_such_dag(database, dag_id)
    dag = plain(found, ("id",))
    begin = since or _begin(dag)
    key = found["id"]
    assets = await collect(stream(database, "assets/of_consumer", key, begin))
    for asset in assets:
        asset["watchers"] = await collect(stream_watchers(database, asset["asset"]))
    waiting = await collect(stream(database, "deliveries/open_of_dag", key))
    decided = await collect(stream(database, "deliveries/decided_of_dag", key, begin, REASONS))
    history = await collect(stream(database, "dags/history", key, begin, HISTORY))
    schedulers = (await health(database))["scheduler"]["live"]
    since_text = f"{begin:%Y-%m-%dT%H:%M:%SZ}"
    return {
        "dag": dag | {"schedule_text": schedule_text(dag["schedule"])},
        "since": since_text,
        "schedulers": schedulers,
        "because": [
            *_in_the_way(dag, schedulers),
            *_by_schedule(dag, assets, waiting),
            *_since(since_text, dag, assets, decided, history),
        ],
        "assets": assets,
        "open": waiting,
        "decided": decided,
        "history": history,
    }


def _begin(dag: Row) -> datetime:
    """Right after its last run was made, so that the making of that run is not told; else when it was first read."""
    if dag["last_run_at"]:
        return from_rfc3339(dag["last_run_at"]) + timedelta(microseconds=1)
    return from_rfc3339(dag["created_at"])


def _in_the_way(dag: Row, schedulers: int) -> list[str]:
    """What would keep a DAG with any schedule from a run."""
    told = []
    if not dag["active"]:
        gone = "was removed" if not dag["file_present"] else "does not define it any more"
        told.append(f"no DAG file defines it: {dag['file']} {gone}; it gets no new events until it returns")
    if dag["failure"]:
        failure = dag["failure"]
        told.append(
            f"its file {dag['file']} cannot be read since {dag['parsed_at']} ({failure.get('message')}); "
            "the version before it goes on"
        )
    if not schedulers:
        told.append("no scheduler is running")
    if dag["paused"]:
        by = f", by {explain.origin(dag['paused_by'])} at {dag['paused_at']}" if dag["paused_by"] else ""
        reason = f" ({dag['paused_reason']})" if dag["paused_reason"] else ""
        told.append(f"it is paused{by}{reason}; `onceflow dags unpause {dag['dag_id']}` lets it go on")
    if dag["storm_at"]:
        told.append(f"it is in a storm since {dag['storm_at']}: {_way_out(dag)}")
    if dag["queued"]:
        full = dag["running"] >= dag["max_active_runs"]
        cap = f", as many as max_active_runs allows are running ({dag['running']})" if full else ""
        told.append(f"queued: {_number(dag['queued'], 'run')}{cap}")
    return told


def _way_out(dag: Row) -> str:
    """How a storm ends: by a person, or by itself, as a person has released it slowly."""
    if dag["release_at"] is None:
        return f"`onceflow dags release {dag['dag_id']}` ends it"
    return f"what it holds is being released, {dag['release_rate']:g} a minute, the next at {dag['release_at']}"


def _by_schedule(dag: Row, assets: list[Row], waiting: list[Row]) -> list[str]:
    kind = dag["schedule_kind"]
    if kind == "none":
        return ["it has no schedule: it runs only when it is triggered by hand"]
    if not kind.startswith("asset:"):
        return [f"its schedule is {schedule_text(dag['schedule'])}; {_next_slot(dag)}"]
    unjudged = sum(w["deliveries"] for w in waiting if w["disposition"] == "pending" and not w["judged"])
    told = [f"waiting to be judged: {_number(unjudged, 'event')}"] if unjudged else []
    told += _judged(dag, assets, waiting)
    for held in (w for w in waiting if w["disposition"] == "held"):
        reason = explain.held_text(held["reason"], dag["dag_id"])
        told.append(f"{_number(held['deliveries'], 'event')} of {held['asset']}: {reason}")
    return told


def _next_slot(dag: Row) -> str:
    if dag["schedule_kind"] == "continuous":
        return "a run follows as soon as the one before has ended"
    return f"the next slot is {dag['next_slot_at']}" if dag["next_slot_at"] else "it has no further slot"


def _judged(dag: Row, assets: list[Row], waiting: list[Row]) -> list[str]:
    """What the last judgement without a run said; without one: that nothing waits."""
    judgement = dag["last_judgement"]
    if waiting and not any(w["disposition"] == "pending" and w["judged"] for w in waiting):
        return []
    if not judgement or "condition" not in judgement or not waiting:
        known = [f"{a['asset']} {_last_event(a)}" for a in assets]
        return [f"nothing waits for it: {'; '.join(known)}" if known else "it is subscribed to no asset"]
    lines = explain.waiting_lines(judgement, dag["last_judged_at"])
    absent = set(explain.missing(judgement["condition"]))
    lines += [f"{a['asset']} {_last_event(a)}" for a in assets if a["asset"] in absent]
    if dag["paused"] or not dag["active"]:
        lines.append(f"it is judged again when it {'is unpaused' if dag['active'] else 'returns'}")
    elif dag["waits_for_a_run"]:
        lines.append(
            f"it is judged again when a run has ended ({dag['running']} of {dag['max_active_runs']} are running)"
        )
    elif dag["judge_at"]:
        lines.append(f"it is judged again at {dag['judge_at']}, or when an event comes")
    return lines


def _last_event(asset: Row) -> str:
    last = f"had its last event at {asset['last_event_at']}" if asset["last_event"] else "never had an event"
    watchers = [f"watcher {w['watcher']} is {w['state']}" for w in asset["watchers"]]
    return f"{last} ({', '.join(watchers)})" if watchers else last


def _since(since: str, dag: Row, assets: list[Row], decided: list[Row], history: list[Row]) -> list[str]:
    told = [f"since {since}: {', '.join(_came(a) for a in assets)}"] if assets else []
    for row in decided:
        reason = f", {row['reason']}" if row["reason"] else ""
        told.append(f"since {since}: {_number(row['deliveries'], 'event')} {row['disposition']}{reason}")
    runs = sum(entry["runs"] for entry in history)
    if runs:
        told.append(f"since {since}: {_number(runs, 'run')} made of events")
    if dag["last_run_id"]:
        told.append(f"its last run is {dag['last_run_id']}, which is {dag['last_run_state']}")
    return told


def _came(asset: Row) -> str:
    seen = _number(asset["witnesses"], "more sighting")
    again = f" ({seen} of changes that were known)" if asset["witnesses"] else ""
    return f"{_number(asset['events'], 'event')} of {asset['asset']}{again}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
