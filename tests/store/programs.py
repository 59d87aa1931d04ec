"""What random programs are made of: what authors write and sources tell, steps, and processes that end anywhere."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from onceflow.model.change import Change
from onceflow.model.dagspec import AssetSchedule, AssetSpec, Policy
from onceflow.store import events
from onceflow.store.database import Connection
from onceflow.store.deliveries import Claimed

Value = TypeVar("Value")

ASSETS = ("a", "b", "c")
STRICT = "a"
SCHEMA = {"properties": {"value": {"minimum": 0}}}
DECLARED = tuple(AssetSpec(name, schema=SCHEMA if name == STRICT else None, where="assets.py:1") for name in ASSETS)
EVERY_POLICY: tuple[Policy, ...] = ("each", "each", "all", "window", "window", "latest", "latest")
RATES = (None, None, None, 1, 2, 3)
VALUES = (-1, -1, 0, 1, 2, 3, 4)

Chance = random.Random
"""Every step draws from one that Hypothesis seeds: it can leave steps out, and does not prefer some of them."""

Declared = tuple[AssetSchedule, int, str, int | None]
"""A schedule, `max_active_runs`, `while_paused`, `max_runs_per_minute`."""

Sighting = tuple[str, str | None, int]
"""An asset, a key, the value in the payload, which an asset's schema wants to be 0 or more."""


def condition(chance: Chance, leaves: int) -> list[Any]:
    if leaves == 1:
        return ["asset", chance.choice((STRICT, *ASSETS))]
    first = chance.randint(1, leaves - 1)
    return [chance.choice(["and", "or"]), [condition(chance, first), condition(chance, leaves - first)]]


def schedule(chance: Chance) -> AssetSchedule:
    """Any schedule that an author may write; a filter wants values of 2 or more."""
    tree = condition(chance, chance.choice([1, 1, 1, 2, 2, 3, 4]))
    joins = "and" in json.dumps(tree)
    policy: Policy = chance.choice(["all", "window", "window", "latest", "latest"] if joins else EVERY_POLICY)
    how: dict[str, Any] = {}
    if policy == "window":
        how = chance.choice([{"quiet": 10.0}, {"max_wait": 25.0}, {"quiet": 10.0, "max_wait": 25.0}])
        if not joins:
            how |= chance.choice([{}, {"max_size": 2}, {"max_size": 3}])
    wanted = [name for name in ASSETS if name in json.dumps(tree[1]) and chance.random() < 0.2]
    return AssetSchedule(tree, policy, filters={name: [">=", "value", 2] for name in wanted}, **how)


def consumer(chance: Chance) -> Declared:
    return schedule(chance), chance.randint(1, 3), chance.choice(["hold", "hold", "discard"]), chance.choice(RATES)


def sightings(chance: Chance, most: int) -> list[Sighting]:
    keys = [None, None, "k1", "k2", "k3", "k4", "k5"]
    number = chance.randint(1, most)
    return [(chance.choice(ASSETS), chance.choice(keys), chance.choice(VALUES)) for _ in range(number)]


class Killed(Exception):
    """The process ends here."""


class Mortal(Connection):
    """A connection of a process that ends before its n-th statement: cleanly, so that it rolls back, or cut off."""

    def __init__(self, raw: Any, lives: int, cut: Any) -> None:
        super().__init__(raw)
        self._lives = lives
        self._cut = cut
        self._pid = raw.get_server_pid()

    async def fetch(self, name: str, *args: Any) -> list[Any]:
        await self._live()
        return await super().fetch(name, *args)

    async def execute(self, name: str, *args: Any) -> str:
        await self._live()
        return await super().execute(name, *args)

    async def _live(self) -> None:
        self._lives -= 1
        if self._lives < 0:
            if self._cut is not None:
                await self._cut(self._pid)
            raise Killed


@dataclass
class Open:
    """A transaction that stands open. `held`: the consumers a scheduler has locked, or the assets of a source."""

    transaction: Any
    tx: Connection
    held: set[str]
    pid: int
    claimed: list[Claimed] = field(default_factory=list)
    read: dict[str, list[int]] = field(default_factory=dict)
    caught: dict[str, set[int]] = field(default_factory=dict)
    answers: list[events.Recorded] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    now: datetime | None = None


@dataclass(frozen=True)
class Action:
    """A step of a program: how often it is chosen, and when it can be."""

    name: str
    weight: int
    when: Callable[[Any], Any]


ACTIONS: list[Action] = []
"""Chosen by weight, not as Hypothesis chooses rules: it leaves some out of each program, and little would be done."""


def action(weight: int, when: Callable[[Any], Any] = lambda _: True) -> Callable[[Value], Value]:
    """Make a method an action; it is given what to draw its arguments from."""

    def add(method: Value) -> Value:
        ACTIONS.append(Action(method.__name__, weight, when))  # type: ignore[attr-defined]
        return method

    return add
