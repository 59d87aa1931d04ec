"""`python -m benchmarks [measure …]`: run measures, print a table, write JSON."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.figures import Figure
from benchmarks.measures import NAMES, find
from benchmarks.stalls import Stalls
from benchmarks.system import Setup

RESULTS = Path(__file__).parent / "results"
QUICK = 0.1


def main() -> int:
    options = _options()
    figures: list[Figure] = []
    results: list[dict[str, Any]] = []
    failed = False
    for name in options.measures or NAMES:
        found = _run(name, options, results)
        failed |= found is None
        figures += found or []
    _finish(options, figures, results)
    return int(failed or (options.check and any(f.missed for f in figures)))


def _run(name: str, options: argparse.Namespace, results: list[dict[str, Any]]) -> list[Figure] | None:
    """Run one measure, print and keep what it found; None if it failed."""
    before = report.machine()
    print(f"— {name} — load {before['load'][0]:g}", flush=True)
    setup = Setup(Path(tempfile.mkdtemp(prefix="onceflow-bench-")), tuple(options.schedulers), _scale(options))
    with Stalls() as stalls:
        found = _found(name, setup)
    if stalls.seconds:
        setup.note(f"the machine stood still for {', '.join(map(str, stalls.seconds))} s: measure again")
    if found is None:
        return None
    if not options.keep:
        shutil.rmtree(setup.folder, ignore_errors=True)
    results.append(report.result(name, before, setup.scale, found, setup.notes))
    report.write(RESULTS / f"{name}.json", results[-1])
    print(report.table(found), flush=True)
    return found


def _found(name: str, setup: Setup) -> list[Figure] | None:
    try:
        return asyncio.run(find(name)(setup))
    except Exception:
        traceback.print_exc()
        print(f"{name} failed; its files are in {setup.folder}", file=sys.stderr, flush=True)
        return None


def _scale(options: argparse.Namespace) -> float:
    return QUICK if options.quick else 1.0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=f"which (default all): {', '.join(NAMES)}")
    parser.add_argument("--schedulers", type=int, nargs="+", default=[1, 2], metavar="N", help="how many (default 1 2)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, for a first look")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results there, too")
    parser.add_argument("--check", action="store_true", help="exit 1 when a limit is missed")
    parser.add_argument("--keep", action="store_true", help="keep the homes")
    options = parser.parse_args()
    unknown = set(options.measures) - set(NAMES)
    if unknown:
        parser.error(f"unknown measure {', '.join(sorted(unknown))}; known: {', '.join(NAMES)}")
    return options


def _finish(options: argparse.Namespace, figures: list[Figure], results: list[dict[str, Any]]) -> None:
    if len(results) > 1:
        print(f"\n{report.table(figures)}")
    if options.json:
        report.write(options.json, results)
    missed = [f"{f.name} ({f.variant})" if f.variant else f.name for f in figures if f.missed]
    if missed:
        print(f"\nlimits missed: {', '.join(missed)}")


if __name__ == "__main__":
    sys.exit(main())
