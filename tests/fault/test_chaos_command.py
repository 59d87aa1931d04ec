"""`onceflow chaos`: a short one of what `make chaos` does at length, and what it says when something is amiss."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from onceflow.chaos.failover import Times, percentile
from onceflow.chaos.plan import Faults, plan
from onceflow.chaos.report import Report

DAGS = Path(__file__).with_name("chaos_dags")


def test_a_plan_repeats_by_its_seed() -> None:
    faults = Faults(kills=30, freezes=10, restarts=2, cuts=3, slow=1)
    made = plan(7, faults, 100)
    assert made == plan(7, faults, 100) and made != plan(8, faults, 100)
    assert len(made) == 46 and all(0 <= f.at <= 100 for f in made) and made == sorted(made, key=lambda f: f.at)
    assert all(bool(f.role) == (f.deed in ("kill", "freeze")) for f in made)


@pytest.mark.parametrize("amiss", ["lost", "doubled", "unsettled"])
def test_a_report_with_anything_amiss_is_not_ok(amiss: str) -> None:
    good = {"lost": 0, "doubled": 0, "unsettled": 0}
    rest = {"seed": 1, "seconds": 1.0, "sightings": 9, "changes": 8, "events": 8, "runs": 8, "struck": {"kill": 2}}
    assert Report(**rest, **good, inside=1, longest_gap=0.5).ok  # type: ignore[arg-type]
    report = Report(**rest, **good | {amiss: 1}, inside=1, longest_gap=0.5)  # type: ignore[arg-type]
    assert not report.ok and report.lines()[-1] == "not ok"


def test_a_scratch_installation_survives(tmp_path: Path) -> None:
    """argo-events#1747, airflow #54491, #65103: kills, freezes, a crash of PostgreSQL, cuts, a slow database."""
    command = [sys.executable, "-m", "onceflow.cli.main", "--home", str(tmp_path), "chaos", "--dags", str(DAGS)]
    command += ["--seconds", "12", "--events", "500", "--kills", "5", "--freezes", "2", "--cuts", "2", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["ok"] and report["sightings"] == 500 and report["changes"] < 450 and report["runs"] > 200
    assert report["left_alone"] == ["tape"]
    assert report["numbers"]["told"] > 50 and report["failover"]["watchers after a cut"]["count"] > 0
    assert report["failover"]["processes killed"]["count"] >= 3
    assert report["struck"]["restart"] == 1 and report["struck"]["cut"] == 2 and report["struck"]["kill"] >= 3
    assert list(tmp_path.iterdir()) == [], "nothing is written into the home"


def test_what_could_not_be_read_was_not_tried() -> None:
    rest = {"seed": 1, "seconds": 1.0, "sightings": 9, "changes": 8, "events": 8, "runs": 8, "struck": {}, "inside": 0}
    report = Report(**rest, lost=0, doubled=0, unsettled=0, longest_gap=0.5, broken=["bad.py"])  # type: ignore[arg-type]
    assert not report.ok and "bad.py: could not be read" in "\n".join(report.lines())


@pytest.mark.parametrize("amiss", ["missing", "doubled"])
def test_a_number_that_a_watcher_told_has_one_event(amiss: str) -> None:
    numbers = {"told": 9, "missing": 0, "doubled": 0}
    rest = {"seed": 1, "seconds": 1.0, "sightings": 9, "changes": 8, "events": 8, "runs": 8, "struck": {}, "inside": 0}
    rest |= {"lost": 0, "doubled": 0, "unsettled": 0, "longest_gap": 0.5}
    assert Report(**rest, numbers=numbers).ok  # type: ignore[arg-type]
    report = Report(**rest, numbers=numbers | {amiss: 1})  # type: ignore[arg-type]
    assert not report.ok and f"1 {amiss}" in "\n".join(report.lines())


def test_failovers_are_told_by_percentiles() -> None:
    assert percentile([], 0.5) is None
    assert [percentile([3.0], part) for part in (0.5, 0.99)] == [3.0, 3.0]
    assert [percentile(range(100, 0, -1), part) for part in (0.5, 0.99, 1)] == [50, 99, 100]
    times = Times([0.5, 1.0], never=1).as_dict()
    assert times == {"count": 2, "p50": 0.5, "p99": 1.0, "max": 1.0, "never": 1}


def test_without_dag_files_it_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "onceflow.cli.main", "--home", str(tmp_path), "chaos"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "there is no DAG file" in done.stderr
