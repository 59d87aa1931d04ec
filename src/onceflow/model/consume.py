"""How a consumer's pending events become runs.

    each     one run per event; what matters is only whether that event's asset satisfies the condition by itself
    all      once the condition holds, one run takes every pending event
    window   like all, but not before it was quiet for so long, or the first event waited so long, or there are so many
    latest   once the condition holds and a run may start at once, it takes the newest event of each asset; the older
             ones are superseded

The last three gather: events that were judged wait, and are looked at per asset (`Waiting`), not one by one, so that a
judgement costs what the condition is large, not what has piled up. A person who resumes a paused consumer can ask for
one run of everything, whatever the policy (`resumed`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from onceflow.model.asset_expr import assets_of, explain, has_and, holds
from onceflow.model.dagspec import AssetSchedule, Condition, Policy
from onceflow.model.errors import DagError
from onceflow.model.event_filter import to_text
from onceflow.model.times import to_rfc3339


class Pending(NamedTuple):
    """An event that waits. `at`: when it was recorded, where that matters. There may be tens of thousands."""

    event_id: int
    asset: str
    at: datetime | None = None


@dataclass(frozen=True)
class Waiting:
    """What waits of one asset: how many events, the oldest and the newest with the times when they were recorded."""

    count: int
    first: int
    last: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True)
class Situation:
    """What a gathering consumer is judged on. `room`: how many more runs `max_active_runs` allows.

    `fresh`: those of the waiting events that nobody has judged before, in order. `resumed`: who asked for one run of
    everything.
    """

    now: datetime
    waiting: Mapping[str, Waiting]
    fresh: tuple[int, ...] = ()
    room: int = 1
    cap: int = 1
    resumed: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Group:
    """The events of one run. `start_event` is the one that completed the condition.

    `members` are its events in order. `others`: how many were judged before and go in as well, all that wait.
    """

    start_event: int
    members: tuple[int, ...]
    others: int = 0


@dataclass(frozen=True)
class Judgement:
    """The runs to make, and why in a few words of JSON.

    `superseded`: the event of each asset to which those that wait and are older give way. `due`: when to judge again
    though nothing new came; `for_room`: when a run has ended. `in_parts`: `parts` is to make the runs.
    """

    groups: tuple[Group, ...]
    explanation: dict[str, Any]
    superseded: Mapping[str, int] = field(default_factory=dict)
    due: datetime | None = None
    for_room: bool = False
    in_parts: bool = False


@dataclass(frozen=True)
class Parts:
    """Runs of a part each of what waits, with what explains each; when to judge the rest, and what it waits for."""

    groups: tuple[tuple[Group, dict[str, Any]], ...]
    due: datetime | None = None
    rest: dict[str, Any] | None = None


def default_policy(condition: Condition) -> Policy:
    """What an author who says nothing gets: "all" where events must come together, else "each"."""
    return "all" if has_and(condition) else "each"


def check_policy(condition: Condition, policy: Policy, where: str = "", *, max_size: int | None = None) -> Policy:
    """The policy, if it fits the condition. Raises DagError."""
    if policy not in ("each", "all", "window", "latest"):
        raise DagError(f"unknown policy {policy!r}", where=where, remedy="allowed: each, all, window, latest")
    if policy == "each" and has_and(condition):
        message = "Each() makes one run per event, but the condition joins assets by &, which takes several events"
        raise DagError(message, where=where, remedy="use All(), Window() or Latest(), or join the assets by |")
    named = len(assets_of(condition))
    if max_size is not None and has_and(condition) and max_size < named:
        message = f"max_size={max_size} leaves no place for an event of each of the {named} assets in the condition"
        raise DagError(message, where=where, remedy=f"make max_size {named} or more")
    return policy


def judge_each(schedule: AssetSchedule, pending: Sequence[Pending]) -> Judgement:
    """One run per pending event, in the order given, which is that of their commit.

    The explanation has `policy`, `condition` (a tree with the truth of each part), `pending` (events per asset) and
    `filters`, if there are any.
    """
    alone = {asset: holds(schedule.condition, (asset,)) for asset in {p.asset for p in pending}}
    groups = tuple(Group(p.event_id, (p.event_id,)) for p in pending if alone[p.asset])
    return Judgement(groups, _explanation(schedule, Counter(p.asset for p in pending)))


def judge_gathered(schedule: AssetSchedule, situation: Situation) -> Judgement:
    """One run of what waits, or of a part of it, or none yet.

    Beside what `judge_each` explains there is `window` (its limits, when it began and when it ends), `limit` (the
    runs that are in the way), `resumed`.
    """
    waiting = situation.waiting
    explanation = _explanation(schedule, {a: w.count for a, w in waiting.items()})
    met = bool(waiting) and explanation["condition"]["holds"]
    if situation.resumed is not None:
        explanation["resumed"] = dict(situation.resumed)
        return Judgement(_everything(schedule, situation) if met else (), explanation)
    match schedule.policy:
        case "window":
            return _judge_window(schedule, situation, waiting, explanation, met=met)
        case "latest":
            return _judge_latest(schedule, situation, waiting, explanation, met=met)
        case _:
            return Judgement(_everything(schedule, situation) if met else (), explanation)


def with_fresh(waiting: Mapping[str, Waiting], fresh: Sequence[Pending], at: datetime) -> dict[str, Waiting]:
    """What waits, and with it what nobody has judged before, in order; when that was recorded does not matter here."""
    first = {p.asset: p.event_id for p in reversed(fresh)}
    last = {p.asset: p.event_id for p in fresh}
    found = dict(waiting)
    for asset, count in Counter(p.asset for p in fresh).items():
        old, new = found.get(asset), Waiting(count, first[asset], last[asset], at, at)
        found[asset] = new if old is None else _joined(old, new)
    return found


def _joined(one: Waiting, two: Waiting) -> Waiting:
    first, last = min(one.first, two.first), max(one.last, two.last)
    return Waiting(one.count + two.count, first, last, one.first_at, two.last_at)


def parts(schedule: AssetSchedule, oldest: Sequence[Pending], waiting: Mapping[str, Waiting], now: datetime) -> Parts:
    """Runs of at most `max_size` events each: of `oldest`, those that wait the longest, given in order.

    Where a condition joins assets, one run is made: of the first event of each asset, so that the condition is met, and
    of the oldest. What is left waits for its window, or is judged again at once if it was not read.
    """
    size = schedule.max_size or len(oldest)
    total = sum(w.count for w in waiting.values())
    together = has_and(schedule.condition)
    left = _with_firsts(oldest, waiting) if together else list(oldest)
    made: list[tuple[Group, dict[str, Any]]] = []
    while left:
        found = _gathered(left)
        window = _window(schedule, found, now)
        if window["closed_by"] is None:
            break
        members = left[:size] if not together else _part(left, waiting, size)
        group = Group(_completing(schedule.condition, _gathered(members)), tuple(p.event_id for p in members))
        made.append((group, _explanation(schedule, Counter(p.asset for p in members)) | {"window": window}))
        if together:
            return Parts(tuple(made), now if len(members) < total else None)
        left = left[size:]
    if len(oldest) < total:
        return Parts(tuple(made), now)
    if not left:
        return Parts(tuple(made))
    found = _gathered(left)
    rest = _explanation(schedule, {a: w.count for a, w in found.items()}) | {"window": _window(schedule, found, now)}
    return Parts(tuple(made), _due(schedule, found), rest)


def _judge_window(
    schedule: AssetSchedule,
    situation: Situation,
    waiting: Mapping[str, Waiting],
    explanation: dict[str, Any],
    *,
    met: bool,
) -> Judgement:
    if not waiting:
        return Judgement((), explanation)
    window = explanation["window"] = _window(schedule, waiting, situation.now)
    if not met:
        return Judgement((), explanation)
    if window["closed_by"] is None:
        return Judgement((), explanation, due=_due(schedule, waiting))
    if schedule.max_size is not None and sum(w.count for w in waiting.values()) > schedule.max_size:
        return Judgement((), explanation, in_parts=True)
    return Judgement(_everything(schedule, situation), explanation)


def _judge_latest(
    schedule: AssetSchedule,
    situation: Situation,
    waiting: Mapping[str, Waiting],
    explanation: dict[str, Any],
    *,
    met: bool,
) -> Judgement:
    if not met:
        return Judgement((), explanation)
    if situation.room <= 0:
        explanation["limit"] = {"max_active_runs": situation.cap}
        return Judgement((), explanation, for_room=True)
    newest = {a: w.last for a, w in waiting.items()}
    starter = _completing(schedule.condition, {a: _only_last(w) for a, w in waiting.items()})
    group = Group(starter, tuple(sorted(newest.values())))
    return Judgement((group,), explanation, superseded=newest)


def _everything(schedule: AssetSchedule, situation: Situation) -> tuple[Group, ...]:
    waiting = sum(w.count for w in situation.waiting.values())
    starter = _completing(schedule.condition, situation.waiting)
    return (Group(starter, situation.fresh, waiting - len(situation.fresh)),)


def _window(schedule: AssetSchedule, waiting: Mapping[str, Waiting], now: datetime) -> dict[str, Any]:
    """A window as it is explained: its limits, its times, and what closed it, if something did."""
    limits = {"quiet": schedule.quiet, "max_wait": schedule.max_wait, "max_size": schedule.max_size}
    first, last = _span(waiting)
    due = _due(schedule, waiting)
    closed_by = None
    if schedule.max_size is not None and sum(w.count for w in waiting.values()) >= schedule.max_size:
        closed_by = "max_size"
    elif due <= now:
        closed_by = "quiet" if schedule.quiet is not None and due == last + _seconds(schedule.quiet) else "max_wait"
    return {name: limit for name, limit in limits.items() if limit is not None} | {
        "first_at": to_rfc3339(first),
        "last_at": to_rfc3339(last),
        "due_at": to_rfc3339(due),
        "closed_by": closed_by,
    }


def _due(schedule: AssetSchedule, waiting: Mapping[str, Waiting]) -> datetime:
    """When the window ends by time: of its two limits the earlier."""
    first, last = _span(waiting)
    ends = [last + _seconds(schedule.quiet)] if schedule.quiet is not None else []
    if schedule.max_wait is not None:
        ends.append(first + _seconds(schedule.max_wait))
    return min(ends)


def _span(waiting: Mapping[str, Waiting]) -> tuple[datetime, datetime]:
    return min(w.first_at for w in waiting.values()), max(w.last_at for w in waiting.values())


def _seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def _with_firsts(oldest: Sequence[Pending], waiting: Mapping[str, Waiting]) -> list[Pending]:
    """What was read, and the first event of every asset, in order."""
    known = {p.event_id: p for p in oldest}
    for asset, w in waiting.items():
        known.setdefault(w.first, Pending(w.first, asset, w.first_at))
    return [known[event] for event in sorted(known)]


def _part(left: Sequence[Pending], waiting: Mapping[str, Waiting], size: int) -> list[Pending]:
    """So many of the events: the first of each asset, and of the others the oldest; in their order."""
    firsts = {w.first for w in waiting.values()}
    others = [p.event_id for p in left if p.event_id not in firsts]
    chosen = firsts.union(others[: size - len(firsts)])
    return [p for p in left if p.event_id in chosen]


def _gathered(pending: Iterable[Pending]) -> dict[str, Waiting]:
    found: dict[str, Waiting] = {}
    for p in pending:
        assert p.at is not None
        old = found.get(p.asset)
        new = Waiting(1, p.event_id, p.event_id, p.at, p.at)
        found[p.asset] = new if old is None else _joined(old, new)
    return found


def _only_last(waiting: Waiting) -> Waiting:
    return Waiting(1, waiting.last, waiting.last, waiting.last_at, waiting.last_at)


def _completing(condition: Condition, waiting: Mapping[str, Waiting]) -> int:
    """The first event of the asset, in the order of their first events, that makes the condition true.

    It is found by halving, as a condition that holds goes on to hold with more.
    """
    order = sorted(waiting, key=lambda asset: waiting[asset].first)
    low, high = 1, len(order)
    while low < high:
        middle = (low + high) // 2
        if holds(condition, set(order[:middle])):
            high = middle
        else:
            low = middle + 1
    return waiting[order[low - 1]].first


def _explanation(schedule: AssetSchedule, counts: Mapping[str, int]) -> dict[str, Any]:
    found = {
        "policy": schedule.policy,
        "condition": explain(schedule.condition, counts),
        "pending": dict(counts),
    }
    if schedule.filters:
        found["filters"] = {asset: to_text(wanted) for asset, wanted in schedule.filters.items()}
    return found
