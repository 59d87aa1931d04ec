"""What DAG files say about an asset's changes: what identifies one, how long its event and its identity are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onceflow.model.key import Key


@dataclass(frozen=True)
class Rules:
    """The rules of one asset; those that no file states have their default."""

    key: Key | None = None

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Rules:
        """The rules that `as_dict` wrote."""
        key = stored.get("key")
        return cls(key and Key(tuple(key.get("paths", ())), key.get("function", ""), key.get("file", "")))

    def as_dict(self) -> dict[str, Any]:
        """As JSON's own types, without what has its default: {} if nothing is stated."""
        return {"key": _key(self.key)} if self.key else {}


def _key(key: Key) -> dict[str, Any]:
    return {"paths": list(key.paths)} if key.paths else {"function": key.function, "file": key.file}
