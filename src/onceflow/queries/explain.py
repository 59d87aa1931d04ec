"""Sentences for people, made from stored values. Pure; `queries/why.py` reads the values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from onceflow.model.asset_expr import to_text
from onceflow.queries.rows import Row

HELD = {
    "pause": "held because the DAG is paused; `onceflow dags unpause {dag_id}` gives it back",
    "inactive": "held because no DAG file defines this DAG any more; it is judged when the DAG returns",
    "quarantine": "held in quarantine, as something is wrong with its payload; `onceflow events fix` lets it go on",
    "unscheduled": "held because the DAG's schedule does not name this asset any more; judged when it does again",
    "storm": "held because the events of DAG {dag_id} started more runs in a minute than max_runs_per_minute allows; "
    "`onceflow dags release {dag_id}` lets it go on, unless that was done and it waits for its turn",
    "loop": "held as an event loop: its causes have max_rounds runs of this DAG already; "
    "`onceflow events release --dag {dag_id}` lets it through",
    "rerun": "held because the rerun that made it was told to (--downstream hold); "
    "`onceflow events release --dag {dag_id}` lets it through",
    "replay": "held because the replay that made it was told to (--downstream hold); "
    "`onceflow events release --dag {dag_id}` lets it through",
}
DOWNSTREAM = {
    "hold": "the events that it makes are held for their consumers",
    "tag": "the events that it makes are tagged: their source names the lane",
}


POLICIES = {
    "each": "one run per event",
    "all": "every pending event into one run",
    "window": "the events that come close together into one run",
    "latest": "the newest event of each asset; older ones are superseded",
}
ENDINGS = {
    None: "it ends at {due_at}",
    "quiet": "it ended with the quiet, at {due_at}",
    "max_wait": "it ended with the longest wait, at {due_at}",
    "max_size": "it was full",
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


def decision_lines(explanation: Row | None, own: Sequence[str]) -> list[str]:
    """What a decision was made of: condition, policy, what was pending. `own`: the assets of the run's own events, as a
    decision may be of many runs, each of one event.
    """
    if not explanation or "condition" not in explanation:
        return []
    tree = explanation["condition"]
    each = explanation["policy"] == "each"
    met_by, without = (list(dict.fromkeys(own)), []) if each else (present(tree), missing(tree))
    absent = f", without {', '.join(without)}" if without else ""
    found = "chosen" if "chosen" in explanation else "pending"
    lines = [
        f"condition {condition_text(tree)} was met, by {', '.join(met_by)}{absent}",
        f"policy {explanation['policy']}: {POLICIES.get(explanation['policy'], 'as named')}",
        f"{found} then: {_counts(explanation.get(found, {}))}",
    ]
    lines += [f"filter on {asset}: {wanted}, which they passed" for asset, wanted in _filters(explanation, found)]
    if window := explanation.get("window"):
        lines.append(f"window: {window_text(window)}")
    if resumed := explanation.get("resumed"):
        lines.append(f"one run of everything, because {intervention_text(resumed)}")
    return lines


def window_text(window: Row) -> str:
    """A window's limits, its times, and what ended it."""
    limits = []
    if "quiet" in window:
        limits.append(f"{window['quiet']:g} s of quiet")
    if "max_wait" in window:
        limits.append(f"at most {window['max_wait']:g} s")
    if "max_size" in window:
        limits.append(f"at most {window['max_size']} events")
    text = f"{', '.join(limits)}; first event at {window['first_at']}, last at {window['last_at']}"
    return f"{text}; {ENDINGS[window['closed_by']].format(**window)}"


def intervention_text(made: Row) -> str:
    """What a person did to a DAG: who, what, when, why. `made` has `by`, `pending`, `at`, `reason`."""
    match made["kind"]:
        case "unpause":
            did = f"resumed it with --pending {made['pending']}"
        case "pause":
            did = "paused it"
        case "release":
            did = "released it" if made["pending"] == "each" else f"released it ({made['pending']})"
        case kind:
            did = f"{kind}ed it"
    return f"{origin(made['by'])} {did} at {made['at']}{because(made['reason'])}"


def because(reason: str | None) -> str:
    """A person's reason, to be put behind what the person did."""
    return f", because: {reason}" if reason else ""


def lane_text(made: Row) -> str:
    """What a run in a lane of people is. `made` is its intervention."""
    details = made["details"]
    if made["kind"] == "rerun":
        return f"run {details['run_id']} again, with exactly its events{because(made['reason'])}"
    parts = [f"of {', '.join(details['assets'])}"] if "assets" in details else []
    parts += [f"{word} {details[name]}" for name, word in (("since", "from"), ("until", "to")) if name in details]
    parts += [f"{len(details['events'])} by id"] if "events" in details else []
    return f"a replay of chosen events ({', '.join(parts)}){because(made['reason'])}"


def origin(created_by: Row) -> str:
    """Who made a run, in a few words."""
    match created_by.get("kind"):
        case "scheduler":
            return f"scheduler {str(created_by.get('process', ''))[:8]}"
        case "cli":
            return f"{created_by.get('user') or 'somebody'} on {created_by.get('host', '?')} by command"
        case "api":
            actor = f" by {created_by['actor']}" if created_by.get("actor") else ""
            return f"a request to the API from {created_by.get('client', '?')}{actor}"
        case "author":
            return "the DAG's author (is_paused_upon_creation)"
        case "setting":
            return f"the setting {created_by.get('name')}"
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
    why = "as its payload gives no key" if event["keyless"] else "as something is wrong with its payload"
    lines = [f"quarantined at {event['held_at']}, {why}: {event['flaw']}"]
    if event["released_at"]:
        how = "as it came" if event["extra"] == event["extra_as_it_came"] else "with another payload"
        why = f" ({event['released_because']})" if event["released_because"] else ""
        did = "released" if event["same_as"] is None else f"found to be the same change as event {event['same_as']}"
        lines.append(f"{did} at {event['released_at']} {how}, by {source_text(event['released_by'])}{why}")
    return lines


def identity_text(event: Row) -> str:
    """What tells whether a sighting is of this event."""
    if event["key"]:
        return f"key {event['key']}"
    if event["keyless"]:
        return "no key, known by its payload" + ("" if event["released_at"] else " until it is mended")
    if message := event["source"].get("message"):
        epoch = f" of epoch {message['epoch']}" if "epoch" in message else ""
        return f"no key, known by message {message['id']} of {message['source']}{epoch}"
    return "no key, so that every sighting is a change of its own"


def seconds_text(seconds: float) -> str:
    """A span of time in the unit that suits it."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def sighting_text(row: Row) -> str:
    """A later sighting: who, when, how far behind the first, and whether it said something else."""
    doubt = ", with another payload" if row["differs"] else ""
    behind = seconds_text(row["behind_seconds"])
    return f"at {row['seen_at']}, {behind} behind the first, by {source_text(row['source'])}{doubt}"


def delivery_text(row: Row, schedulers: int) -> str:
    """Why a delivery stands as it does. `row` is one of `deliveries/of_event`."""
    match row["disposition"]:
        case "started":
            return f"completed the condition and started run {row['run_id']}, which is {row['run_state']}{_let_go(row)}"
        case "joined" if row["reason"] == "pruned":
            return "joined a run that was pruned when it was old"
        case "joined":
            return f"joined run {row['run_id']}, which is {row['run_state']}{_let_go(row)}"
        case "held":
            paused = row["reason"] == "pause" and row["pause_made"]
            told = f" ({intervention_text(row['pause_made'])})" if paused else ""
            return held_text(row["reason"], row["dag_id"]) + told
        case "pending":
            return _pending_text(row, schedulers) + _let_go(row)
        case "filtered":
            return f"filtered at {row['decided_at']}: {row['reason']}"
        case "discarded":
            return f"discarded at {row['decided_at']}: {row['reason']}{_let_go(row)}"
        case disposition:
            return f"{disposition} at {row['decided_at']}: {row['reason']}"


def _let_go(row: Row) -> str:
    """What a person did that touched this delivery, if anybody did."""
    return f" ({intervention_text(row['intervention_made'])})" if row["intervention_made"] else ""


def held_text(reason: str, dag_id: str) -> str:
    """Why a delivery to a DAG is held, and what lets it go on."""
    return HELD.get(reason, f"held: {reason}").format(dag_id=dag_id)


def not_subscribed_text(row: Row) -> str:
    """Why an event has no delivery for a DAG of its asset. `row` is one of `assets/not_subscribed`."""
    if row["catching_up"]:
        return "gets it when it has caught up with the stored events before it"
    gone = ", when no file defined the DAG" if row["lapsed"] else ""
    spans = [f"it was until {row['until']}{gone}"] if row["until"] else []
    spans += [f"it is since {row['since']}"] if row["since"] else []
    return f"was not subscribed when the event was stored: {', '.join(spans)}"


def waiting_lines(judgement: Row, judged_at: str | None) -> list[str]:
    """What a judgement without a run said: the condition with what was missing, the policy, window or limit."""
    tree = judgement["condition"]
    at = f"judged at {judged_at}, " if judged_at else ""
    pending = f"({at}pending then: {_counts(judgement.get('pending', {}))})"
    if not tree["holds"]:
        return [f"{condition_text(tree)} is not met, there is nothing of {', '.join(missing(tree))} {pending}"]
    lines = [f"{condition_text(tree)} is met, but policy {judgement['policy']} waits {pending}"]
    if window := judgement.get("window"):
        lines.append(f"window: {window_text(window)}, unless more comes")
    if limit := judgement.get("limit"):
        cap = limit["max_active_runs"]
        lines.append(
            f"as many runs as max_active_runs={cap} allows are going on; when one ends the newest event starts"
        )
    return lines


def _pending_text(row: Row, schedulers: int) -> str:
    if not row["judged"]:
        return "not judged yet: " + _why_unjudged(row, schedulers)
    judgement = row["last_judgement"]
    if not judgement or "condition" not in judgement:
        return f"{_stopped(row)}judged, and waiting for more events"
    return f"{_stopped(row)}waiting: {'; '.join(waiting_lines(judgement, row['last_judged_at']))}"


def _stopped(row: Row) -> str:
    """What keeps a delivery's DAG from being judged at all, to be put before what it waits for."""
    if not row["active"]:
        return "no DAG file defines its DAG any more; "
    return "its DAG is paused; " if row["paused"] else ""


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


def _filters(explanation: Row, found: str) -> list[tuple[str, str]]:
    """The filters of those assets of which something was pending, or chosen."""
    return [(a, f) for a, f in explanation.get("filters", {}).items() if a in explanation.get(found, {})]


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
        case "subscribed":
            return f"subscribed to {entry['asset']}"
        case "unsubscribed":
            return f"its subscription to {entry['asset']} ended{because(entry['reason'])}"
        case _:
            return f"version {entry['version']} of the DAG"
