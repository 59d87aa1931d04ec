"""What a chaos run came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Report:
    """`lost`: acknowledged changes without an event; `violations`: what `verify` found; `unsettled`: what still waits
    though nothing keeps it. `numbers`: what watchers told that count (`told`, `missing`, `doubled`). `longest_gap`:
    seconds from an event to the run it started, of DAGs that run for each. `failover`: seconds by what was struck.
    `left_alone`: assets of which no change was emitted, as only their watcher may tell one. `broken`:
    DAG files that could not be read, so that nothing of them was tried."""

    seed: int
    seconds: float
    sightings: int
    changes: int
    events: int
    runs: int
    struck: dict[str, int]
    inside: int
    lost: int
    doubled: int
    unsettled: int
    longest_gap: float
    numbers: dict[str, int] = field(default_factory=dict)
    failover: dict[str, dict[str, float | int | None]] = field(default_factory=dict)
    violations: Sequence[dict[str, Any]] = field(default_factory=list)
    left_alone: Sequence[str] = ()
    broken: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        amiss = self.numbers.get("missing") or self.numbers.get("doubled")
        return not (self.broken or self.lost or self.doubled or self.unsettled or amiss or self.violations)

    def lines(self) -> list[str]:
        """The report for people."""
        faults = ", ".join(f"{n} {_many(deed, n)}" for deed, n in sorted(self.struck.items())) or "none"
        found = [
            f"seed        {self.seed}, {self.seconds:.0f} s",
            f"faults      {faults}; {self.inside} of them inside a transaction",
            f"changes     {self.changes}, told {self.sightings} times",
            f"events      {self.events}",
            f"runs        {self.runs}",
            f"lost        {self.lost}",
            f"doubled     {self.doubled}",
            f"unsettled   {self.unsettled}",
            f"longest gap {self.longest_gap:.1f} s from an event to its run",
        ]
        if self.left_alone:
            found.append(f"left alone  {', '.join(self.left_alone)}: only a watcher tells their changes")
        if self.broken:
            found.append(f"broken      {', '.join(self.broken)}: could not be read, so nothing of it was tried")
        if self.numbers.get("told"):
            told, missing, doubled = (self.numbers[name] for name in ("told", "missing", "doubled"))
            found.append(f"numbers     {told} told by watchers that count; {missing} missing, {doubled} doubled")
        found += [f"failover    {kind}: {_times(times)}" for kind, times in sorted(self.failover.items())]
        found += [f"VIOLATION   {v['kind']}: {v['meaning']}" for v in self.violations]
        return [*found, "ok" if self.ok else "not ok"]


def _many(deed: str, count: int) -> str:
    name = {"slow": "slow phase"}.get(deed, deed)
    return name if count == 1 else f"{name}s"


def _times(times: Mapping[str, float | int | None]) -> str:
    never = f"; {times['never']} not within a minute" if times["never"] else ""
    if not times["count"]:
        return f"none{never}"
    return f"{times['count']}, {times['p50']:.1f} s p50, {times['p99']:.1f} s p99, {times['max']:.1f} s at most{never}"
