"""Every SQL statement lives in a file `sql/<noun>/<verb>.sql` and is known by that name: "events/record"."""

from __future__ import annotations

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "sql"


@cache
def text(name: str) -> str:
    """The statement called `name`, as "<noun>/<verb>"."""
    return (FOLDER / f"{name}.sql").read_text(encoding="utf-8")


def names() -> list[str]:
    """All statements, for the test that prepares every one of them."""
    return sorted(str(p.relative_to(FOLDER).with_suffix("")) for p in FOLDER.rglob("*.sql"))
