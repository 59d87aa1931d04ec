"""Assets as those who record changes need them: their ids, and the rules that give a change its identity."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from onceflow.model.change import Change, identified
from onceflow.model.contract import flaw
from onceflow.model.errors import InputError, NotFoundError
from onceflow.model.key import Key
from onceflow.model.rules import Rules
from onceflow.store.database import Database


@dataclass(frozen=True)
class AssetRef:
    """An asset that was found by name or URI, and what its DAG files say about its changes."""

    id: int
    name: str
    rules: Rules


async def find(database: Database, names: Sequence[str]) -> dict[str, AssetRef]:
    """The assets with these names or URIs; raises NotFoundError naming the first unknown one."""
    rows = await database.fetch("assets/find", sorted(set(names)))
    found = {r["wanted"]: AssetRef(r["id"], r["name"], Rules.of(json.loads(r["rules"]))) for r in rows}
    for name in names:
        if name not in found:
            known = [r["name"] for r in await database.fetch("assets/names", 10)]
            raise NotFoundError(
                f"there is no asset {name!r}",
                remedy=f"assets are declared by DAG files; known: {', '.join(known) or 'none'}",
            )
    return found


async def by_rules(
    changes: Sequence[Change],
    assets: Mapping[str, AssetRef],
    watcher: Mapping[str, Key] | None = None,
    *,
    watched: bool = False,
) -> list[Change]:
    """As `judge_by_rules`; contracts are judged beside the loop, since a large payload may take long."""
    if any(assets[change.asset].rules.schema is not None for change in changes):
        return await asyncio.to_thread(judge_by_rules, changes, assets, watcher, watched=watched)
    return judge_by_rules(changes, assets, watcher, watched=watched)


def judge_by_rules(
    changes: Sequence[Change],
    assets: Mapping[str, AssetRef],
    watcher: Mapping[str, Key] | None = None,
    *,
    watched: bool = False,
) -> list[Change]:
    """The changes with the keys that are declared for them, by their watcher or their asset, and with their flaws.

    `watched`: a watcher tells of them, whom nobody can tell what is wrong: a payload that does not give the key that it
    should is a flaw then, too. Otherwise raises InputError for it; and always for a change that an asset with a
    high-water mark could not know again.
    """
    own, found = watcher or {}, []
    for change in changes:
        rules = assets[change.asset].rules
        if rules.high_water:
            _check_order(change, watched)
        known = identified(change, own.get(change.asset), rules.key, isolate=watched)
        found.append(_by_contract(known, rules.schema))
    return found


def _by_contract(change: Change, schema: Mapping[str, Any] | None) -> Change:
    """The change with what is wrong with its payload; one that is not as it was told breaks no contract."""
    if schema is None or (change.flaw is not None and not change.keyless):
        return change
    found = [text for text in (change.flaw, flaw(schema, change.extra)) if text is not None]
    return replace(change, flaw="; ".join(found) or None)


def _check_order(change: Change, watched: bool) -> None:
    number = change.message is not None and isinstance(change.message.id, int) and abs(change.message.id) < 2**63
    if watched and number and change.key is None:
        return
    told = "its watcher gives no MessageId with a whole number, or a key" if watched else "it has no other entrance"
    raise InputError(
        f"asset {change.asset!r} knows its changes by a high-water mark of its watcher's message ids, and {told}",
        where=f"asset {change.asset!r} with protection='high-water'",
        remedy="let the watcher tell of it, or choose another protection for the asset",
    )


def source_of(change: Change, source: Mapping[str, Any]) -> dict[str, Any]:
    """Where a change was noticed, with its broker's message id if it has one."""
    return dict(source) if change.message is None else {**source, "message": change.message.as_dict()}
