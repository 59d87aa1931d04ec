"""Sentences for people, made from stored values. Pure; `queries/why.py` reads the values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceflow.model.asset_expr import to_text
from onceflow.queries.rows import Row

HELD = {
    "pause": "held because the DAG is paused; `onceflow dags unpause {dag_id}` gives it back",
    "inactive": "held because no DAG file defines this DAG any more; it is judged when the DAG returns",
    "quarantine": "held in quarantine, as its payload breaks the asset's schema; `onceflow events fix` lets it go on",
    "unscheduled": "held because the DAG's schedule does not name this asset any more; judged when it does again",
}


def condition_text(tree: Row) -> str:
    """A judged condition as people write it: `orders & (prices | stock)`."""
    return to_text(_condition(tree))


def missing(tree: Row) -> list[str]:
    """The assets of a judged condition that had nothing pending, each once."""
    return list(dict.fromkeys(name for name, there in _leaves(tree) if not there))


def present(tree: Row) -> list[str]:
    """The assets of a judged condition that had something pending, each once."""
    return list(dict.fromkeys(name for name, there in _leaves(tree) if there))


def decision_lines(explanation: Row | None) -> list[str]:
    """What a decision was made of: condition, policy, what was pending."""
    if not explanation or "condition" not in explanation:
        return []
    policy = {"each": "one run per event", "all": "every pending event into one run"}
    tree = explanation["condition"]
    absent = f", without {', '.join(missing(tree))}" if missing(tree) else ""
    lines = [
        f"condition {condition_text(tree)} was met, by {', '.join(present(tree))}{absent}",
        f"policy {explanation['policy']}: {policy.get(explanation['policy'], 'as named')}",
        f"pending then: {_counts(explanation.get('pending', {}))}",
    ]
    if explanation.get("ignored"):
        lines.append(f"not named by the condition: {_counts(explanation['ignored'])}")
    return lines


def origin(created_by: Row) -> str:
    """Who made a run, in a few words."""
    match created_by.get("kind"):
        case "scheduler":
            return f"scheduler {str(created_by.get('process', ''))[:8]}"
        case "cli":
            return f"{created_by.get('user') or 'somebody'} on {created_by.get('host', '?')} by command"
        case "api":
            return f"a request to the API from {created_by.get('client', '?')}"
        case kind:
            return str(kind or "unknown")


def source_text(source: Row) -> str:
    """Where a change was noticed, in a few words."""
    match source.get("kind"):
        case "task":
            return f"task {source.get('task_id')} of run {source.get('run_id')} of DAG {source.get('dag_id')}"
        case "watcher":
            return f"watcher {source.get('watcher', source.get('name', ''))}, term {source.get('term', '?')}"
        case _:
            return origin(source)


def quarantine_lines(event: Row) -> list[str]:
    """That an event is, or was, in quarantine, and why. `event` is one of `events/show`."""
    if event["flaw"] is None:
        return []
    lines = [f"quarantined at {event['held_at']}, as its payload breaks the asset's schema: {event['flaw']}"]
    if event["released_at"]:
        how = "as it came" if event["extra"] == event["extra_as_it_came"] else "with another payload"
        why = f" ({event['released_because']})" if event["released_because"] else ""
        lines.append(f"released at {event['released_at']} {how}, by {source_text(event['released_by'])}{why}")
    return lines


def delivery_text(row: Row, schedulers: int) -> str:
    """Why a delivery stands as it does. `row` is one of `deliveries/of_event`."""
    match row["disposition"]:
        case "started":
            return f"completed the condition and started run {row['run_id']}, which is {row['run_state']}"
        case "joined" if row["reason"] == "pruned":
            return "joined a run that was pruned when it was old"
        case "joined":
            return f"joined run {row['run_id']}, which is {row['run_state']}"
        case "held":
            return held_text(row["reason"], row["dag_id"])
        case "pending":
            return _pending_text(row, schedulers)
        case disposition:
            return f"{disposition}: {row['reason']}"


def held_text(reason: str, dag_id: str) -> str:
    """Why a delivery to a DAG is held, and what lets it go on."""
    return HELD.get(reason, f"held: {reason}").format(dag_id=dag_id)


def waiting_lines(judgement: Row, judged_at: str | None) -> list[str]:
    """What a judgement without a run said: the condition with what was missing, the policy, window or limit."""
    tree = judgement["condition"]
    at = f"judged at {judged_at}, " if judged_at else ""
    pending = f"({at}pending then: {_counts(judgement.get('pending', {}))})"
    if not tree["holds"]:
        return [f"{condition_text(tree)} is not met, there is nothing of {', '.join(missing(tree))} {pending}"]
    lines = [f"{condition_text(tree)} is met, but policy {judgement['policy']} waits {pending}"]
    if window := judgement.get("window"):
        lines.append(f"its window began at {window['first_at']} and ends at {window['due_at']} unless more comes")
    if limit := judgement.get("limit"):
        lines.append(f"as many runs as max_active_runs={limit['max_active_runs']} allows are going on")
    return lines


def _pending_text(row: Row, schedulers: int) -> str:
    if not row["judged"]:
        return "not judged yet: " + _why_unjudged(row, schedulers)
    judgement = row["last_judgement"]
    if not judgement or "condition" not in judgement:
        return "judged, and waiting for more events"
    tree = judgement["condition"]
    return (
        f"waiting: {condition_text(tree)} is not met, there is nothing yet of {', '.join(missing(tree))} "
        f"(judged at {row['last_judged_at']}, pending then: {_counts(judgement.get('pending', {}))})"
    )


def _why_unjudged(row: Row, schedulers: int) -> str:
    if not schedulers:
        return "no scheduler is running"
    return "a scheduler does it as soon as it can"


def queued_text(row: Row) -> str:
    """Why a queued run has not started. `row` is one of `runs/why`."""
    if not row["active"]:
        return "no DAG file defines this DAG any more; the run waits for its return"
    if row["paused"]:
        return "the DAG is paused; the run waits until it is unpaused"
    if row["running"] >= row["max_active_runs"]:
        cap = row["max_active_runs"]
        return f"{row['running']} runs are running, max_active_runs is {cap}; {row['before']} wait before it"
    return f"{row['before']} wait before it; a scheduler starts it as soon as it can"


def _counts(counts: dict[str, Any]) -> str:
    return ", ".join(f"{n} of {asset}" for asset, n in counts.items()) or "nothing"


def _condition(tree: Row) -> list[Any]:
    if tree["op"] == "asset":
        return ["asset", tree["asset"]]
    return [tree["op"], [_condition(item) for item in tree["items"]]]


def _leaves(tree: Row) -> Iterator[tuple[str, bool]]:
    if tree["op"] == "asset":
        yield tree["asset"], tree["holds"]
    else:
        for item in tree["items"]:
            yield from _leaves(item)


def history_text(entry: Row) -> str:
    """One line of a DAG's history. `entry` is one of `dags/history`."""
    match entry["what"]:
        case "judged":
            lines = waiting_lines(entry["explanation"], None) if "condition" in (entry["explanation"] or {}) else []
            return f"judged without a run by scheduler {entry['process'][:8]}: {'; '.join(lines)}"
        case "decided":
            tree = (entry["explanation"] or {}).get("condition")
            met = f", {condition_text(tree)} was met" if tree else ""
            return f"{entry['runs']} runs made by scheduler {entry['process'][:8]}{met}"
        case "intervention":
            pending = f", pending: {entry['pending']}" if entry["pending"] else ""
            reason = f" ({entry['reason']})" if entry["reason"] else ""
            return f"{entry['intervention']} by {origin(entry['by'])}{pending}{reason}"
        case _:
            return f"version {entry['version']} of the DAG"
