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
    """Reads versions by id, the latest used from memory."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, Version] = OrderedDict()

    async def read(self, connection: Connection | Database, ids: Iterable[int]) -> dict[int, Version]:
        """The versions with these ids."""
        wanted = set(ids)
        missing = wanted - self._known.keys()
        if missing:
            for row in await connection.fetch("versions/read", sorted(missing)):
                spec = dag_spec_from_json(json.loads(row["spec"]))
                self._known[row["id"]] = Version(row["id"], spec, Graph(spec))
        found = {i: self._known[i] for i in wanted}
        for i in wanted:
            self._known.move_to_end(i)
        while len(self._known) > max(KEPT, len(wanted)):
            self._known.popitem(last=False)
        return found
