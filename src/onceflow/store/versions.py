"""DAG versions: immutable, so a process keeps the ones it used lately."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from onceflow.model.dagspec import DagSpec
from onceflow.model.spec_json import dag_spec_from_json
from onceflow.model.upstream import Graph
from onceflow.store.database import Connection, Database

KEPT = 512


@dataclass(frozen=True)
class Version:
    id: int
    spec: DagSpec
    graph: Graph


class Versions:
    """Reads versions by id, the latest used from memory. `unreadable`: why the others could not be read, by id."""

    def __init__(self) -> None:
        self.unreadable: dict[int, str] = {}
        self._known: OrderedDict[int, Version] = OrderedDict()

    async def read(self, connection: Connection | Database, ids: Iterable[int]) -> dict[int, Version]:
        """The versions with these ids, without those that this process cannot read."""
        wanted = set(ids)
        missing = wanted - self._known.keys()
        if missing:
            for row in await connection.fetch("versions/read", sorted(missing)):
                self._add(row["id"], row["spec"])
        wanted &= self._known.keys()
        found = {i: self._known[i] for i in wanted}
        for i in wanted:
            self._known.move_to_end(i)
        while len(self._known) > max(KEPT, len(wanted)):
            self._known.popitem(last=False)
        return found

    def _add(self, number: int, text: str) -> None:
        try:
            spec = dag_spec_from_json(json.loads(text))
            self._known[number] = Version(number, spec, Graph(spec))
        except Exception as error:  # one bad version harms no other; its users say so
            self.unreadable[number] = f"version {number} cannot be read: {error}"
        else:
            self.unreadable.pop(number, None)
