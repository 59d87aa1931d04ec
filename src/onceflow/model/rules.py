"""What DAG files say about an asset's changes: what identifies one, how long it is kept, its payload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onceflow.model.key import Key

HIGH_WATER = "high-water"


@dataclass(frozen=True)
class Rules:
    """The rules of one asset; None is what holds if no file says otherwise.

    retention:  seconds for which events are kept; None: as the setting says
    protection: seconds for which identities are kept at least, so that a change is known again; None: for ever
    schema:     the JSON Schema that payloads keep, or are quarantined; None: any will do
    high_water: of pruned events only the highest message id of each source is kept: what is not above it is known
    """

    key: Key | None = None
    retention: float | None = None
    protection: float | None = None
    schema: Mapping[str, Any] | None = None
    high_water: bool = False

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Rules:
        """The rules that `as_dict` wrote."""
        key = stored.get("key")
        protection = stored.get("protection")
        return cls(
            key and Key(tuple(key.get("paths", ())), key.get("function", ""), key.get("file", "")),
            stored.get("retention"),
            None if protection == HIGH_WATER else protection,
            stored.get("schema"),
            protection == HIGH_WATER,
        )

    def as_dict(self) -> dict[str, Any]:
        """As JSON's own types: {} if nothing is stated."""
        values = {
            "key": self.key and _key(self.key),
            "retention": self.retention,
            "protection": HIGH_WATER if self.high_water else self.protection,
            "schema": self.schema,
        }
        return {name: value for name, value in values.items() if value is not None}

    def __str__(self) -> str:
        told = self.as_dict() | ({"key": self.key} if self.key else {})
        return "; ".join(f"{name} {value}" for name, value in told.items())

    def horizon(self, default_retention: float | None) -> float | None:
        """Seconds after which a change that is told again may be a new event; None: never.

        An identity stays while its event does.
        """
        retention = self.retention if self.retention is not None else default_retention
        return None if self.protection is None or retention is None else max(self.protection, retention)


def _key(key: Key) -> dict[str, Any]:
    return {"paths": list(key.paths)} if key.paths else {"function": key.function, "file": key.file}
