"""Which faults there are, and when: the same for the same seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

Deed = Literal["kill", "freeze", "restart", "cut", "slow"]
ROLES = ("scheduler", "triggerer", "worker", "dag-processor", "api-server")
WEIGHTS = (5, 4, 4, 1, 1)
SLOW_SECONDS = 2.0
SLOW_DELAY = 0.05
FROZEN_LEASES = 2.0


@dataclass(frozen=True)
class Faults:
    """How many of each: processes killed and frozen, restarts of PostgreSQL, cuts of all connections, slow phases."""

    kills: int = 20
    freezes: int = 5
    restarts: int = 1
    cuts: int = 2
    slow: int = 1


@dataclass(frozen=True)
class Fault:
    """One of them, so many seconds after the start. `role` is what a kill or a freeze strikes."""

    at: float
    deed: Deed
    role: str = ""


def plan(seed: int, faults: Faults, seconds: float) -> list[Fault]:
    """All faults in their order, spread over the time but for its very end."""
    chance = random.Random(seed)
    counts: tuple[tuple[Deed, int], ...] = (
        ("kill", faults.kills),
        ("freeze", faults.freezes),
        ("restart", faults.restarts),
        ("cut", faults.cuts),
        ("slow", faults.slow),
    )
    deeds = [deed for deed, count in counts for _ in range(count)]
    made = [
        Fault(chance.uniform(0, 0.95 * seconds), deed, chance.choices(ROLES, WEIGHTS)[0] if deed in AIMED else "")
        for deed in deeds
    ]
    return sorted(made, key=lambda fault: fault.at)


AIMED = ("kill", "freeze")
