"""What a chaos run came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Report:
    """`lost`: acknowledged changes without an event; `violations`: what `verify` found; `unsettled`: what still waits
    though nothing keeps it. `longest_gap`: seconds from an event to the run it started, of DAGs that run for each."""

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
    replaced: Sequence[float] = ()
    violations: Sequence[dict[str, Any]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not (self.lost or self.doubled or self.unsettled or self.violations)

    def lines(self) -> list[str]:
        """The report for people."""
        faults = ", ".join(f"{n} {_many(deed, n)}" for deed, n in sorted(self.struck.items())) or "none"
        times = sorted(self.replaced)
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
        if times:
            found.append(f"replaced    {times[len(times) // 2]:.1f} s p50, {times[-1]:.1f} s at most, after a kill")
        found += [f"VIOLATION   {v['kind']}: {v['meaning']}" for v in self.violations]
        return [*found, "ok" if self.ok else "not ok"]


def _many(deed: str, count: int) -> str:
    name = {"slow": "slow phase"}.get(deed, deed)
    return name if count == 1 else f"{name}s"
