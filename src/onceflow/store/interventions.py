"""What people did to DAGs: who, when and why, so that what it changed can be explained."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from onceflow.model.times import to_rfc3339
from onceflow.store.database import Connection


async def read(tx: Connection, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Interventions by id, as they are put into an explanation: `id`, `pending`, `by`, `reason`, `at`."""
    if not ids:
        return {}
    return {
        r["id"]: {
            "id": r["id"],
            "pending": r["pending"],
            "by": json.loads(r["by"]),
            "reason": r["reason"],
            "at": to_rfc3339(r["made_at"]),
        }
        for r in await tx.fetch("interventions/read", list(ids))
    }
