"""A figure: one number of one measure, with what it is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.yardstick import AIRFLOW, LIMITS, Airflow, Limit


@dataclass(frozen=True)
class Figure:
    """`name` is "<measure>.<what>"; `variant` says under which circumstances, for instance "2 schedulers"."""

    name: str
    value: float
    unit: str
    variant: str = ""

    @property
    def limit(self) -> Limit | None:
        return LIMITS.get(self.name)

    @property
    def airflow(self) -> Airflow | None:
        return AIRFLOW.get(self.name)

    @property
    def missed(self) -> bool:
        return self.limit is not None and not self.limit.holds(self.value)

    def as_json(self) -> dict[str, Any]:
        limit, airflow = self.limit, self.airflow
        return {
            "name": self.name,
            "variant": self.variant,
            "value": round(self.value, 3),
            "unit": self.unit,
            "limit": str(limit) if limit else None,
            "ok": not self.missed if limit else None,
            "airflow": {"a": airflow.a, "b": airflow.b, "t": airflow.t} if airflow else None,
            "times_better": round(ratio, 2) if airflow and (ratio := airflow.ratio(self.value)) else None,
        }


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: the smallest value that at least so many percent of the values do not exceed."""
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(0, int(rank) - 1)]


def spread(name: str, seconds: Sequence[float], variant: str = "") -> list[Figure]:
    """Median, 95th and 99th percentile of durations, in milliseconds."""
    return [Figure(f"{name} p{p}", percentile(seconds, p) * 1000, "ms", variant) for p in (50, 95, 99)]
