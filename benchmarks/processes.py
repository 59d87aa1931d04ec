"""Memory and CPU of a tree of processes, by what they are, from /proc."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICK = os.sysconf("SC_CLK_TCK")
KINDS = (
    ("onceflow.scheduler.main", "scheduler"),
    ("onceflow.triggerer.main", "triggerer"),
    ("onceflow.triggerer.guest", "trigger guest"),
    ("onceflow.worker.main", "worker"),
    ("onceflow.worker.guest", "templates and task guests"),
    ("onceflow.parse.main", "dag-processor"),
    ("onceflow.parse.load", "parse guest"),
    ("onceflow.api.main", "api-server"),
    ("onceflow.runtime", "helpers"),
    ("standalone", "parent"),
    ("postgres", "postgres"),
)


@dataclass(frozen=True)
class Cpu:
    """Seconds of user and system time."""

    user: float = 0.0
    system: float = 0.0

    @property
    def total(self) -> float:
        return self.user + self.system

    def __add__(self, other: Cpu) -> Cpu:
        return Cpu(self.user + other.user, self.system + other.system)

    def __sub__(self, other: Cpu) -> Cpu:
        return Cpu(self.user - other.user, self.system - other.system)


def tree(root: int) -> Iterator[int]:
    """The process and all its descendants."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children[int(fields[1])].append(int(entry.name))
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        waiting += children[pid]
        yield pid


def kind(pid: int) -> str:
    """What the process is."""
    try:
        command = (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return "gone"
    return next((name for mark, name in KINDS if mark in command), "other")


def memory(root: int) -> dict[str, float]:
    """PSS in MiB by kind."""
    found: dict[str, float] = defaultdict(float)
    for pid in tree(root):
        try:
            lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        found[kind(pid)] += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    return dict(found)


def cpu(root: int, names: Mapping[int, str] | None = None) -> dict[str, Cpu]:
    """CPU time so far by kind, that of ended and reaped children with their parent; `names` overrides kinds by pid."""
    found: dict[str, Cpu] = defaultdict(Cpu)
    for pid in tree(root):
        if fields := _stat(pid):
            user, system, child_user, child_system = (int(x) / TICK for x in fields[11:15])
            name = (names or {}).get(pid) or kind(pid)
            found[name] += Cpu(user + child_user, system + child_system)
    return dict(found)


def spent(before: Mapping[str, Cpu], after: Mapping[str, Cpu]) -> dict[str, Cpu]:
    """CPU time between two readings, most first. What ended meanwhile counts with its parent: postgres for backends."""
    used = {name: after.get(name, Cpu()) - before.get(name, Cpu()) for name in {*before, *after}}
    for name in [n for n, c in used.items() if c.total < 0]:
        used["postgres"] = used.get("postgres", Cpu()) + used.pop(name)
    return dict(sorted(used.items(), key=lambda item: -item[1].total))


def total(used: Mapping[str, Cpu]) -> float:
    """All CPU seconds."""
    return sum(c.total for c in used.values())


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on: state, ppid, …, utime (11), stime, cutime, cstime."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
