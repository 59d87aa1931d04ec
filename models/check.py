"""Checks the models with spin, exhaustively, and shows that the checker finds the fault in each one without a guard.

    python models/check.py [--deep] [NAME...]   a table; exit code 1 if anything is not as it should be
    python models/check.py --trail NAME         the steps of an execution in which NAME fails

See README.md beside it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
MEMORY = 1900
"""Megabytes that one check may use."""
INCOMPLETE = re.compile("search not completed|max search depth|out of memory|reached -DMEMLIM", re.I)


@dataclass(frozen=True)
class Check:
    """One model under some flags. `guard`: the rule it is checked without; then a fault has to be found, and named so.

    `ends`: also that no execution goes on for ever. `deep`: one of those that take minutes.
    """

    name: str
    model: str
    flags: str = ""
    guard: str = ""
    fault: str = ""
    ends: bool = False
    deep: bool = False


@dataclass(frozen=True)
class Result:
    """`fault`: the property that does not hold, "" if all do. `complete`: every state was visited, or a fault found."""

    states: int
    seconds: float
    megabytes: float
    fault: str
    complete: bool
    steps: str = ""

    def passes(self, check: Check) -> bool:
        """Whether this is what the check has to come to."""
        if not self.complete:
            return False
        return self.fault.startswith(check.fault) if check.guard else not self.fault and self.states > 0


WHOLE = (
    Check("watching", "watching", "-DFAULTS=3 -DLATE_ANSWERS", ends=True),
    Check("watching: 3 triggerers", "watching", "-DHOSTS=3 -DFAULTS=2 -DLATE_ANSWERS", ends=True),
    Check("watching: 3 triggerers, 3 faults", "watching", "-DHOSTS=3 -DFAULTS=3", deep=True),
    Check("watching: restarts", "watching", "-DRESTARTS -DFAULTS=3 -DLATE_ANSWERS"),
    Check("watching: somebody emits", "watching", "-DEMITS -DFAULTS=2"),
    Check("watching: keys", "watching", "-DKEYS -DFAULTS=2 -DLATE_ANSWERS", ends=True),
    Check("watching: keys, no cursor", "watching", "-DKEYS -DWITHOUT_CURSOR -DFAULTS=2"),
    Check("shared", "shared", "-DFAULTS=2"),
    Check("shared: 3 triggerers", "shared", "-DHOSTS=3 -DSHOWN=1 -DFAULTS=1"),
    Check("consuming", "consuming", "-DSCHEDULERS=2 -DFAULTS=2", ends=True),
    Check("consuming: 3 schedulers", "consuming", "-DSCHEDULERS=3 -DFAULTS=2"),
    Check("consuming: pause", "consuming", "-DPAUSES -DFAULTS=2"),
    Check("consuming: subscription", "consuming", "-DSUBSCRIBES -DFAULTS=2"),
    Check("consuming: locks alone", "consuming", "-DNO_CONSTRAINTS -DFAULTS=2"),
    Check("consuming: constraints alone", "consuming", "-DNO_REREAD -DRAISES -DFAULTS=2", ends=True),
    Check("gathering: windows", "gathering", "-DWINDOW -DSCHEDULERS=3 -DFAULTS=2"),
    Check("gathering: the latest", "gathering", "-DLATEST -DSCHEDULERS=3 -DFAULTS=2"),
    Check("gathering: joins", "gathering", "-DJOINS -DSCHEDULERS=3 -DFAULTS=2"),
    Check("executing", "executing", "-DFAULTS=2 -DLOST_LIMIT=2", ends=True),
    Check("executing: 3 faults", "executing", "-DFAULTS=3 -DLOST_LIMIT=3 -DRETRIES=0", deep=True),
    Check("executing: run over its time", "executing", "-DEXPIRES -DFAULTS=2"),
    Check("executing: 2 tasks", "executing", "-DTASKS=2 -DEXPIRES -DRETRIES=0 -DFAULTS=1"),
    Check("onceflow", "onceflow", "-DFAULTS=1", ends=True),
    Check("onceflow: 2 faults", "onceflow", "-DFAULTS=2", deep=True),
)

WITHOUT = (
    Check("NO_FENCE", "watching", "-DNO_FENCE", "the owner's write updates the row with its term", "G1"),
    Check("NO_UNIQUE_KEY", "watching", "-DNO_UNIQUE_KEY -DKEYS", "change_key's primary key", "G1"),
    Check("NO_SIGHTING", "watching", "-DNO_SIGHTING", "sent again under the same sighting", "G1"),
    Check("NO_SIGHTING: emit", "watching", "-DNO_SIGHTING -DEMITS -DFAULTS=1", "likewise, by an emitter", "G1"),
    Check("NO_COMPARISON", "watching", "-DNO_COMPARISON", "what is owned is compared with what is run", "G2"),
    Check("NO_BATCH_NUMBER", "watching", "-DNO_BATCH_NUMBER", "a late session does not move the cursor back", "G2"),
    Check("NO_EDIT_FENCE", "watching", "-DNO_EDIT_FENCE", "an edited watcher's owner is fenced", "G1"),
    Check("SIGHTING_BY_TERM", "watching", "-DSIGHTING_BY_TERM -DRESTARTS", "each start has sightings of its own", "G2"),
    Check("RESTART_AT_ONCE", "watching", "-DRESTART_AT_ONCE -DRESTARTS", "a batch is stored before a restart", "G1"),
    Check("NO_KEY", "shared", "-DNO_KEY -DFAULTS=0", "what all tell has a key", "G1"),
    Check("NO_FENCE: shared", "shared", "-DNO_FENCE -DFAULTS=1", "a process's write updates its own row", "G5"),
    Check(
        "NO_COMPARISON: shared", "shared", "-DNO_COMPARISON -DFAULTS=1", "rows are compared with what runs", "progress"
    ),
    Check("NO_REREAD", "consuming", "-DNO_REREAD", "read in a later statement than locked", "G4"),
    Check("NO_REREAD, bare", "consuming", "-DNO_REREAD -DNO_CONSTRAINTS", "likewise, nor any constraint", "G3"),
    Check("NO_EXACT_JUDGED", "consuming", "-DNO_EXACT_JUDGED", "exactly what was read is marked", "G3"),
    Check(
        "SUBSCRIBERS_UNLOCKED", "consuming", "-DSUBSCRIBERS_UNLOCKED -DSUBSCRIBES", "subscribers of a locked row", "G7"
    ),
    Check("NO_REREAD: windows", "gathering", "-DNO_REREAD -DWINDOW", "a window's end is judged by one", "G3"),
    Check("NO_REREAD: joins", "gathering", "-DNO_REREAD -DJOINS", "a join is read under the lock", "G"),
    Check("NO_DUE", "gathering", "-DNO_DUE -DWINDOW", "a window's end is noted", "progress"),
    Check("NO_ROOM_NOTE", "gathering", "-DNO_ROOM_NOTE -DLATEST", "that it waits for a run's end is noted", "progress"),
    Check("NO_GIVE_WAY", "gathering", "-DNO_GIVE_WAY -DLATEST", "what was overtaken is superseded", "G4"),
    Check("JOIN_TAKES_ALL", "gathering", "-DJOIN_TAKES_ALL -DJOINS", "a join is of what its intervention marked", "G4"),
    Check("NO_ATTEMPT_CAS", "executing", "-DNO_ATTEMPT_CAS", "finish is a compare-and-set", "G6"),
    Check("NO_TOKEN", "executing", "-DNO_TOKEN", "... on attempt and token, not on the owner alone", "G6"),
    Check("VALID_BY_TASK", "executing", "-DVALID_BY_TASK", "... for each report of a batch by itself", "G6"),
    Check("NO_RENEWAL_LIST: tasks", "executing", "-DNO_RENEWAL_LIST", "leases renewed by a list: tasks", "progress"),
    Check(
        "SETTLE_ALL", "executing", "-DSETTLE_ALL -DTASKS=2 -DFAULTS=0", "exactly what was read is settled", "progress"
    ),
    Check(
        "NO_LOCK_ORDER",
        "executing",
        "-DNO_LOCK_ORDER -DTASKS=2 -DEXPIRES -DFAULTS=0",
        "rows locked by id",
        "no deadlock",
    ),
)

CHECKS = WHOLE + WITHOUT


def missing() -> str:
    """Why the models cannot be checked here; "" if they can."""
    for tool, package in (("spin", "spin"), ("gcc", "gcc")):
        if shutil.which(tool) is None:
            return f"{tool} is not installed (Debian package {package!r})"
    return ""


def run(check: Check, *, steps: bool = False) -> Result:
    """Check one model: all its states, and with `ends` once more for executions without an end."""
    with tempfile.TemporaryDirectory(prefix="onceflow-model-") as place:
        result = _search(check, Path(place), "-DSAFETY", (), steps=steps)
        if not check.ends or result.fault or not result.complete:
            return result
        endless = _search(check, Path(place), "-DNP", ("-l",), steps=steps)
        return Result(
            result.states,
            result.seconds + endless.seconds,
            max(result.megabytes, endless.megabytes),
            endless.fault,
            endless.complete,
            endless.steps,
        )


def _search(check: Check, place: Path, kind: str, options: Sequence[str], *, steps: bool) -> Result:
    begin = time.perf_counter()
    model = HERE / f"{check.model}.pml"
    flags = check.flags.split()
    _do(["spin", *flags, "-a", str(model)], place)
    level = "-O2" if check.deep else "-O0"  # compiling takes longer than most searches
    _do(["gcc", "-w", level, kind, "-DCOLLAPSE", f"-DMEMLIM={MEMORY}", "-o", "pan", "pan.c"], place)
    trail = place / f"{model.name}.trail"
    trail.unlink(missing_ok=True)
    text = _do(["./pan", "-m100000", *options], place)
    fault = ""
    told = ""
    if trail.exists():
        fault, told = _explain(model, flags, trail, place)
    return Result(
        int(float(_find(r"([\d.e+]+) states, stored", text))),
        time.perf_counter() - begin,
        float(_find(r"([\d.]+)\s+total actual memory", text)),
        fault,
        bool(fault) or not INCOMPLETE.search(text),
        told if steps else "",
    )


def _explain(model: Path, flags: list[str], trail: Path, place: Path) -> tuple[str, str]:
    """The property that an execution breaks: what the failed assertion's line says about itself; and the steps."""
    text = _do(["spin", *flags, "-t", "-p", "-k", str(trail), str(model)], place)
    failed = re.search(r"spin: (\S+):(\d+), Error: assertion violated", text)
    if failed is None:
        return "an execution without end, or a process that is stuck", text
    line = Path(failed[1]).read_text().splitlines()[int(failed[2]) - 1]
    comment = re.search(r"/\*\s*(.*?)\s*\*/", line)
    return (comment[1] if comment else line.strip()), text


def _do(command: list[str], place: Path) -> str:
    nice = ["nice", "-n", "10"] if shutil.which("nice") else []
    done = subprocess.run([*nice, *command], cwd=place, capture_output=True, text=True, errors="replace", check=False)
    text = done.stdout + done.stderr
    if done.returncode and command[0] in {"spin", "gcc"} and "-t" not in command:
        raise RuntimeError(f"{' '.join(command)}:\n{text}")
    return text


def _find(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else "0"


def main() -> int:
    parser = argparse.ArgumentParser(description="Check the protocol's models exhaustively.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these checks")
    parser.add_argument("--deep", action="store_true", help="also those that take minutes")
    parser.add_argument("--trail", action="store_true", help="print the steps of the execution that was found")
    asked = parser.parse_args()
    if reason := missing():
        print(reason, file=sys.stderr)
        return 2
    known = {c.name: (c.name, c.name.split(":")[0]) for c in CHECKS}
    if unknown := [n for n in asked.names if not any(n in names for names in known.values())]:
        print(f"no such check: {', '.join(sorted(unknown))}; there are:", *(c.name for c in CHECKS), sep="\n  ")
        return 2
    if asked.names:
        chosen = [c for c in CHECKS if set(known[c.name]) & set(asked.names)]
    else:
        chosen = [c for c in CHECKS if asked.deep or not c.deep]
    return 0 if table(chosen, steps=asked.trail) else 1


def table(checks: Sequence[Check], *, steps: bool = False) -> bool:
    """Run the checks and print a line about each; whether all came out as they have to."""
    good, begin = True, time.perf_counter()
    for guarded, title in ((True, "the protocol"), (False, "without a guard")):
        rows = [c for c in checks if bool(c.guard) is not guarded]
        if rows:
            print(f"\n{title:<34}{'states':>10}{'seconds':>9}{'MB':>6}   ", end="")
            print("result" if guarded else "what the checker finds  (the guard that is missing)")
        for check in rows:
            result = run(check, steps=steps)
            passed = result.passes(check)
            good = good and passed
            found = result.fault or ("no fault" if result.complete else "NOT COMPLETE")
            note = f"  ({check.guard})" if check.guard else "; every execution ends" * (check.ends and not result.fault)
            print(
                f"{check.name:<34}{result.states:>10,}{result.seconds:>9.1f}{result.megabytes:>6.0f}   "
                f"{'' if passed else 'UNEXPECTED: '}{found}{note}",
                flush=True,
            )
            if result.steps:
                print(result.steps)
    took = time.perf_counter() - begin
    print(f"\n{len(checks)} checks in {took:.0f} s: {'all as they have to be' if good else 'NOT as they have to be'}")
    return good


if __name__ == "__main__":
    sys.exit(main())
