"""What a statement touched, functions included: the plans of everything that ran, as auto_explain reports them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from onceflow.store import statements

SERVER_SETTINGS = """\
session_preload_libraries = 'auto_explain'
auto_explain.log_min_duration = 0
auto_explain.log_analyze = on
auto_explain.log_buffers = on
auto_explain.log_timing = off
auto_explain.log_format = json
auto_explain.log_nested_statements = on
auto_explain.log_level = notice
"""
"""With these, every statement of every session reports its plan to its client."""

DRIVER_S_OWN = "typeinfo_tree"  # asyncpg looks types up


@dataclass
class Touched:
    """Rows read by scans (returned or thrown away), pages used, indexes used, tables read from end to end."""

    rows: int = 0
    pages: int = 0
    indexes: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)
    most: list[tuple[int, str]] = field(default_factory=list)

    def add(self, node: dict[str, Any]) -> None:
        loops = node["Actual Loops"]
        if ("Relation Name" in node and "Scan" in node["Node Type"]) or node["Node Type"] == "Bitmap Index Scan":
            removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
            touched = round((node["Actual Rows"] + removed) * loops)
            self.rows += touched
            where = node.get("Index Name") or node.get("Relation Name", "")
            self.most = sorted([*self.most, (touched, f"{node['Node Type']} {where}")], reverse=True)[:3]
            if node["Node Type"] == "Seq Scan" and loops:
                self.whole.add(node["Relation Name"])
        if "Index Name" in node and loops:
            self.indexes.add(node["Index Name"])
        for child in node.get("Plans", ()):
            self.add(child)


async def touched_by(connection: Any, name: str, *args: Any) -> tuple[Touched, list[Any]]:
    """Run a statement in a transaction that is rolled back; what it touched, and its rows."""
    return await touched_by_text(connection, statements.text(name), *args)


async def touched_by_text(connection: Any, text: str, *args: Any) -> tuple[Touched, list[Any]]:
    """The same for any SQL."""
    plans: list[dict[str, Any]] = []

    def hear(_connection: object, message: Any) -> None:
        _, found, plan = message.message.partition("plan:")
        if found and DRIVER_S_OWN not in plan:
            plans.append(json.loads(plan)["Plan"])

    connection.add_log_listener(hear)
    try:
        transaction = connection.transaction(isolation="read_committed")
        await transaction.start()
        rows = await connection.fetch(text, *args)
        await transaction.rollback()  # a round trip later all plans were heard
    finally:
        connection.remove_log_listener(hear)
    return _sum(plans), rows


def _sum(plans: list[dict[str, Any]]) -> Touched:
    """The last plan is that of the statement itself: its pages are those of everything within."""
    touched = Touched(pages=plans[-1]["Shared Hit Blocks"] + plans[-1]["Shared Read Blocks"])
    for plan in plans:
        touched.add(plan)
    return touched
