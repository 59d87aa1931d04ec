"""How events that a person chose become runs of a DAG, by its present condition and policy. Pure.

    each                 one run per event
    all, window          one run of all that were chosen; a window's limits are about time, which a choice has not
    latest               one run of the newest event of each asset

What the DAG's filters do not accept is left out, and told. Nothing limits a replay: keys block machines, never people.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from onceflow.model.asset_expr import assets_of, explain, to_text
from onceflow.model.consume import Pending
from onceflow.model.dagspec import AssetSchedule, Schedule
from onceflow.model.errors import ConflictError
from onceflow.model.event_filter import to_text as filter_text

Downstream = Literal["emit", "hold", "tag"]
DOWNSTREAM: tuple[Downstream, ...] = ("emit", "hold", "tag")


@dataclass(frozen=True)
class Plan:
    """The runs to make, each as its events in the order of commit, and how that came about (JSON's own types)."""

    runs: tuple[tuple[int, ...], ...]
    explanation: dict[str, Any]


def consumer_schedule(dag_id: str, schedule: Schedule) -> AssetSchedule:
    """The schedule by which the DAG consumes. Raises ConflictError if it consumes nothing."""
    if isinstance(schedule, AssetSchedule):
        return schedule
    raise ConflictError(
        f"DAG {dag_id!r} consumes no assets, its schedule is {schedule.kind}",
        where="dag",
        remedy=f"`onceflow dags trigger {dag_id}` makes a run by hand, `onceflow runs rerun` repeats one",
    )


def plan(dag_id: str, schedule: AssetSchedule, chosen: Sequence[Pending], unwanted: Mapping[int, str]) -> Plan:
    """What becomes of the chosen events; `unwanted`: those that a filter does not accept, with the reason.

    Raises ConflictError when there is an event of an asset that the DAG does not consume, or when those that are wanted
    do not meet its condition.
    """
    named = set(assets_of(schedule.condition))
    foreign = next((p for p in chosen if p.asset not in named), None)
    if foreign is not None:
        raise ConflictError(
            f"event {foreign.event_id} is of asset {foreign.asset!r}, which DAG {dag_id!r} does not consume",
            where="dag",
            remedy=f"it consumes {to_text(schedule.condition)}",
        )
    wanted = [p for p in chosen if p.event_id not in unwanted]
    counts = Counter(p.asset for p in wanted)
    tree = explain(schedule.condition, counts)
    if schedule.policy != "each" and wanted and not tree["holds"]:
        missing = ", ".join(sorted(named - counts.keys()))
        raise ConflictError(
            f"the chosen events do not meet the condition {to_text(schedule.condition)}: there is nothing of {missing}",
            where="events",
            remedy="choose events of these assets, too",
        )
    explanation: dict[str, Any] = {"policy": schedule.policy, "condition": tree, "chosen": dict(counts)}
    if schedule.filters:
        explanation["filters"] = {asset: filter_text(f) for asset, f in schedule.filters.items()}
        explanation["filtered"] = len(unwanted)
    return Plan(tuple(_runs(schedule, wanted)), explanation)


def _runs(schedule: AssetSchedule, wanted: Sequence[Pending]) -> list[tuple[int, ...]]:
    if not wanted:
        return []
    match schedule.policy:
        case "each":
            return [(p.event_id,) for p in wanted]
        case "latest":
            return [tuple(sorted({p.asset: p.event_id for p in wanted}.values()))]
        case _:
            return [tuple(p.event_id for p in wanted)]
