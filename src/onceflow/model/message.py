"""The identity that a broker gives a message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onceflow.model.errors import InputError


@dataclass(frozen=True)
class MessageId:
    """A message's id in its source: the same again is a redelivery, not another change.

    source: where `id` is unique, such as "kafka://prod/orders/3" (cluster, topic, partition)
    id:     the message's id or offset
    epoch:  which life of the source it is, if ids may begin anew there: a topic's id, a queue's creation time
    """

    source: str
    id: str | int
    epoch: str | int = ""

    def check(self, where: str = "") -> None:
        """Raise InputError unless source and id are given, as text or number."""
        for name, value in (("source", self.source), ("id", self.id), ("epoch", self.epoch)):
            kinds = str if name == "source" else (str, int)
            if not isinstance(value, kinds) or isinstance(value, bool) or (value == "" and name != "epoch"):
                remedy = (
                    'give MessageId(source="kafka://prod/orders/3", id=42): texts, or whole numbers for id and epoch'
                )
                raise InputError(f"the message's {name} is {value!r}", where=where, remedy=remedy)

    def as_dict(self) -> dict[str, Any]:
        """As events keep it in their `source`."""
        return {"source": self.source, "id": self.id} | ({"epoch": self.epoch} if self.epoch != "" else {})

    @classmethod
    def of(cls, given: dict[str, Any]) -> MessageId:
        """What `as_dict` wrote."""
        return cls(given["source"], given["id"], given.get("epoch", ""))
