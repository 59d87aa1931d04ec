"""What DAG files declare of watchers: which there are, which assets each feeds, under which name, with what match.

A watcher is its mode, class and arguments: declared for several assets or in several files it is one, with one cursor.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from onceflow.model.dagspec import AssetSpec, FileSpec, WatcherSpec
from onceflow.model.errors import DagError
from onceflow.model.rules import Rules
from onceflow.model.serialize import dumps
from onceflow.store.database import Connection

CONFLICT = "conflict"
MOST = 2**31 - 1


@dataclass(frozen=True)
class Watch:
    """A watcher that feeds an asset, as a file declares it.

    definition: what makes the watcher the same one: not its name, its place, or what it feeds
    said:       what files may not contradict each other about
    key_file:   the file whose key function its events need, "" if none; `key_code`: the hash of that file
    """

    asset: int
    spec: WatcherSpec
    definition: str
    said: str
    key_file: str = ""
    key_code: str = ""

    @property
    def match(self) -> str | None:
        return json.dumps(self.spec.match) if self.spec.match else None

    @property
    def key(self) -> str | None:
        return _key_text(self.spec) or None


def watches_of(file: FileSpec, ids: Mapping[str, int]) -> list[Watch]:
    """Every watch that a file declares."""
    return [_watch(ids[a.name], w, _key_file(a, w), file.source_hash) for a in file.assets for w in a.watchers]


def definitions_of(assets: Sequence[AssetSpec]) -> list[str]:
    """The watchers that a file declares, to be locked before its assets."""
    return sorted({_definition(w) for a in assets for w in a.watchers})


def _watch(asset: int, spec: WatcherSpec, key_file: str, source_hash: str) -> Watch:
    definition = _definition(spec)
    said = _hash(definition, spec.match, _key_text(spec))
    return Watch(asset, spec, definition, said, key_file, source_hash if key_file else "")


def _definition(spec: WatcherSpec) -> str:
    return _hash(spec.mode, spec.classpath, spec.kwargs)


def _key_text(spec: WatcherSpec) -> str:
    return dumps(Rules(spec.key).as_dict()["key"]) if spec.key else ""


def _key_file(asset: AssetSpec, spec: WatcherSpec) -> str:
    """The file whose key function the watcher's guest has to call; the watcher's own key goes before the asset's."""
    key = spec.key or asset.key
    return key.file if key is not None else ""


async def declare(tx: Connection, file: int, watches: Sequence[Watch], beside: Collection[str] = ()) -> None:
    """Make these the file's watches; the watchers and assets concerned are locked by the caller.

    `beside`: files that changed, too, and are registered next, so that what they said before contradicts nothing.
    Raises DagError with code "conflict" when another file says something else under the same name.
    """
    assets, names = [w.asset for w in watches], [w.spec.name for w in watches]
    definitions, said = [w.definition for w in watches], [w.said for w in watches]
    await _check(tx, file, watches, beside)
    await _declare_watchers(tx, watches)
    before = [(r["asset_id"], r["name"]) for r in await tx.fetch("watchers/declared_by", file)]
    changed = await tx.fetch(
        "watchers/feed",
        assets,
        names,
        definitions,
        [w.match for w in watches],
        [w.key for w in watches],
        [w.key_file for w in watches],
        [w.key_code for w in watches],
    )
    await tx.execute("watchers/link", file, assets, names, said, [w.spec.where for w in watches])
    gone = sorted(set(before) - set(zip(assets, names, strict=True)))
    starved = await tx.fetch("watchers/starve", [a for a, _ in gone], [n for _, n in gone])
    rerouted = {r["id"] for r in changed} | {r["watcher_id"] for r in starved}
    await tx.execute("watchers/reroute", sorted(rerouted), sorted({r["id"] for r in changed if r["restart"]}))


async def _check(tx: Connection, file: int, watches: Sequence[Watch], beside: Collection[str]) -> None:
    names, said = [w.spec.name for w in watches], [w.said for w in watches]
    conflict = await tx.fetchrow("watchers/conflicts", file, [w.asset for w in watches], names, said, sorted(beside))
    if conflict is not None:
        raise DagError(
            f"watcher {conflict['name']!r} is declared otherwise in {conflict['path']} ({conflict['place']})",
            where=next(w.spec.where for w in watches if w.spec.name == conflict["name"]),
            remedy="give one of them another name, or the same trigger, arguments, match and key",
            code=CONFLICT,
        )


async def _declare_watchers(tx: Connection, watches: Sequence[Watch]) -> None:
    specs = {w.definition: w.spec for w in watches}
    definitions, files, codes = list(specs), [s.file for s in specs.values()], [s.code for s in specs.values()]
    await tx.execute(
        "watchers/become",
        [w.asset for w in watches],
        [w.spec.name for w in watches],
        [w.definition for w in watches],
        [w.spec.mode for w in watches],
        [w.spec.classpath for w in watches],
        [json.dumps(w.spec.kwargs) for w in watches],
        [w.spec.keep_cursor for w in watches],
        [w.spec.file for w in watches],
        [w.spec.code for w in watches],
    )
    await tx.execute(
        "watchers/add",
        definitions,
        [s.mode for s in specs.values()],
        [s.classpath for s in specs.values()],
        [json.dumps(s.kwargs) for s in specs.values()],
        files,
        codes,
    )
    kept = [w for w in watches if w.spec.keep_cursor]
    await tx.execute(
        "watchers/keep_cursors", [w.asset for w in kept], [w.spec.name for w in kept], [w.definition for w in kept]
    )
    silences, canaries = _least(watches, "silent_after"), _least(watches, "canary")
    limits = _limits(watches)
    await tx.execute(
        "watchers/declare",
        definitions,
        files,
        codes,
        [silences.get(d) for d in definitions],
        [limits.get(d) for d in definitions],
        [canaries.get(d) for d in definitions],
    )


def _least(watches: Sequence[Watch], what: Literal["silent_after", "canary"]) -> dict[str, float]:
    """By definition the shortest time that is declared."""
    found: dict[str, float] = {}
    for watch in watches:
        seconds: float | None = getattr(watch.spec, what)
        if seconds is not None:
            found[watch.definition] = min(found.get(watch.definition, seconds), seconds)
    return found


def _limits(watches: Sequence[Watch]) -> dict[str, int]:
    """By definition the least number of events a minute that is declared; 0 is any number."""
    found: dict[str, int] = {}
    for watch in watches:
        limit = watch.spec.max_events_per_minute
        if limit is not None:
            found[watch.definition] = min(limit or MOST, found.get(watch.definition, MOST))
    return {definition: limit % MOST for definition, limit in found.items()}


def _hash(*parts: object) -> str:
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()
