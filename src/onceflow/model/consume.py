"""How a consumer's pending events become runs.

    each   one run per event; what matters is only whether that event's asset satisfies the condition by itself
    all    once the condition holds, one run takes every pending event of the condition's assets

Pending events of assets that the condition does not name (any more) are left alone: they stay pending.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from onceflow.model.asset_expr import assets_of, explain, has_and, holds
from onceflow.model.dagspec import AssetSchedule, Condition
from onceflow.model.errors import DagError

Policy = Literal["each", "all"]


@dataclass(frozen=True)
class Pending:
    event_id: int
    asset: str


@dataclass(frozen=True)
class Group:
    """The events of one run. `start_event` is the one that completed the condition; `members` include it, in order."""

    start_event: int
    members: tuple[int, ...]


@dataclass(frozen=True)
class Judgement:
    groups: tuple[Group, ...]
    explanation: dict[str, Any]


def default_policy(condition: Condition) -> Policy:
    """What an author who says nothing gets: "all" where events must come together, else "each"."""
    return "all" if has_and(condition) else "each"


def check_policy(condition: Condition, policy: str, where: str = "") -> Policy:
    """The policy, if it exists and fits the condition. Raises DagError."""
    if policy not in ("each", "all"):
        raise DagError(f"unknown policy {policy!r}", where=where, remedy="allowed: each, all")
    if policy == "each" and has_and(condition):
        message = "Each() makes one run per event, but the condition joins assets by &, which takes several events"
        raise DagError(message, where=where, remedy="use All(), or join the assets by |")
    return "each" if policy == "each" else "all"


def judge(schedule: AssetSchedule, pending: Sequence[Pending]) -> Judgement:
    """Group the pending events, given in the order of their commit, into runs; say why in a few words of JSON.

    Every event is in one group at most. The explanation has `policy`, `condition` (a tree with the truth of each part),
    `pending` (events per asset of the condition) and `ignored` (events per asset that it does not name, if any).
    """
    condition = schedule.condition
    named = set(assets_of(condition))
    ours = [p for p in pending if p.asset in named]
    groups = _each(condition, ours) if schedule.policy == "each" else _all(condition, ours)
    counts = Counter(p.asset for p in ours)
    explanation: dict[str, Any] = {
        "policy": schedule.policy,
        "condition": explain(condition, counts),
        "pending": dict(counts),
    }
    if len(ours) < len(pending):
        explanation["ignored"] = dict(Counter(p.asset for p in pending if p.asset not in named))
    return Judgement(groups, explanation)


def _each(condition: Condition, pending: list[Pending]) -> tuple[Group, ...]:
    alone = {asset: holds(condition, (asset,)) for asset in {p.asset for p in pending}}
    return tuple(Group(p.event_id, (p.event_id,)) for p in pending if alone[p.asset])


def _all(condition: Condition, pending: list[Pending]) -> tuple[Group, ...]:
    firsts: dict[str, int] = {}
    for p in pending:
        firsts.setdefault(p.asset, p.event_id)
    if not holds(condition, firsts):
        return ()
    members = tuple(p.event_id for p in pending)
    return (Group(firsts[_completing(condition, list(firsts))], members),)


def _completing(condition: Condition, assets: list[str]) -> str:
    """The asset, in order of first appearance, that makes the condition true; found by halving, as that is monotone."""
    low, high = 1, len(assets)
    while low < high:
        middle = (low + high) // 2
        if holds(condition, set(assets[:middle])):
            high = middle
        else:
            low = middle + 1
    return assets[low - 1]
