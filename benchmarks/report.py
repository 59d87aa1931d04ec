"""The results as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from onceflow.model.clock import utcnow
from onceflow.model.times import to_rfc3339

HEADER = ("figure", "variant", "ours", "unit", "limit", "", "Airflow A", "B", "T", "times better")


def table(figures: Iterable[Figure]) -> str:
    """One line per figure; "!" marks a missed limit, the last column compares with the best of Airflow's three."""
    rows = [HEADER, *(_row(f) for f in figures)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
    left = {0, 1, 3, 5}
    return "\n".join(
        "  ".join(c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    )


def _row(figure: Figure) -> tuple[str, ...]:
    airflow = figure.airflow
    theirs = [_number(v) for v in (airflow.a, airflow.b, airflow.t)] if airflow else ["", "", ""]
    ratio = airflow.ratio(figure.value) if airflow else None
    limit = str(figure.limit) if figure.limit else ""
    mark = "" if figure.limit is None else "!" if figure.missed else "ok"
    return (
        figure.name, figure.variant, _number(figure.value), figure.unit, limit, mark, *theirs, _number(ratio)
    )  # fmt: skip


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 1 else f"{value:.2f}"


def machine() -> dict[str, Any]:
    """What the figures were measured on, and how busy it was with other things."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "at": to_rfc3339(utcnow()),
        "cores": os.cpu_count(),
        "memory_gib": round(pages * size / 2**30, 1),
        "system": platform.system(),
        "python": platform.python_version(),
        "load": [round(x, 2) for x in os.getloadavg()],
    }


def result(
    measure: str, before: dict[str, Any], scale: float, figures: Sequence[Figure], notes: Sequence[str]
) -> dict[str, Any]:
    """The results of one measure. `before`: the machine when it began; `scale`: how much was done, 1 being all."""
    return {
        "measure": measure,
        "scale": scale,
        "machine": before | {"load_after": [round(x, 2) for x in os.getloadavg()]},
        "figures": [f.as_json() for f in figures],
        "notes": list(notes),
    }


def write(path: Path, results: Any) -> None:
    """Write results as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")
