"""No role writes without a crash point on both sides: found in the source, so that no new transaction is forgotten.

A store function writes if one of its statements does, or a function that it calls; a statement writes if it says so, or
calls a function of the schema that does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from onceflow.store import statements
from support import SOURCE

PACKAGE = SOURCE / "onceflow"
ROLES = ("api", "parse", "scheduler", "triggerer", "worker", "runtime")
WRITES = re.compile(r"\b(insert\s+into|delete\s+from|update\s+\w+(\s+(as\s+)?\w+)?\s+set|truncate)\b", re.IGNORECASE)
COMMENT = re.compile(r"--.*")
FUNCTION = re.compile(r"create\s+(?:or\s+replace\s+)?function\s+(\w+)\s*\(.*?\$\$(.*?)\$\$", re.IGNORECASE | re.DOTALL)
RUNNERS = frozenset({"fetch", "fetchrow", "fetchval", "execute"})
OF_EXECUTOR = frozenset({"claim", "finish", "renew"})
WRAPPER = "intervene"
"""What is awaited in it has its points there."""

EXCEPTIONS: Mapping[str, str] = {
    "scheduler/prune.py:_steps": "its points are around each step, in run_once",
    "worker/finish.py:_store": "its points are around the batch, in run_once",
    "runtime/release.py:release": "a helper of the parent, and no role: without it the leases run out",
    "runtime/postgres_cluster.py": "administers the embedded server, before any role is there",
    "api/services.py:intervene": "the wrapper itself",
}
"""Functions (`<file>:<name>`) that write and have no points of their own, and why."""


def test_every_transaction_of_a_role_has_points_on_both_sides() -> None:
    """The table of tests/fault/test_crash_points.py is complete."""
    bare = {place for file in _files(ROLES) for place in _bare(file)}
    assert bare - EXCEPTIONS.keys() == set(), "give each a crash_point before and after its commit"
    assert not {e for e in EXCEPTIONS if ":" in e} - bare - {"api/services.py:intervene"}, "no longer exceptions"


def test_the_check_sees_what_writes() -> None:
    """It tells reading from writing, in the schema's functions, in statements and in the store."""
    assert {"record_events", "prune_keys", "release_slowly"} <= _writing_functions()
    assert "watchers/claim" in _writing_statements() and "watchers/share" not in _writing_statements()
    assert {"watchers.observed", "storms.release_slowly", "tasks.rescue"} <= _writing_store()
    assert not {"watchers.share", "tasks.find_unsettled", "files.known"} & _writing_store()


@cache
def _writing_functions() -> frozenset[str]:
    """Functions of the schema that write, by themselves or by one that they call."""
    text = "\n".join(p.read_text() for p in sorted((PACKAGE / "store" / "migrations").glob("*.sql")))
    bodies = {name: COMMENT.sub("", body) for name, body in FUNCTION.findall(text)}
    return _closure({n for n, b in bodies.items() if WRITES.search(b)}, {n: _called(b) for n, b in bodies.items()})


@cache
def _writing_statements() -> frozenset[str]:
    texts = {name: COMMENT.sub("", statements.text(name)) for name in statements.names()}
    return frozenset(n for n, t in texts.items() if WRITES.search(t) or _called(t) & _writing_functions())


@cache
def _writing_store() -> frozenset[str]:
    """Functions of the store that write, as `<module>.<name>`."""
    writing: set[str] = set()
    calls: dict[str, set[str]] = {}
    for path in (PACKAGE / "store").glob("*.py"):
        tree = ast.parse(path.read_text())
        imported = _imported(tree)
        own = {f.name for f in tree.body if isinstance(f, ast.AsyncFunctionDef)}
        for function in (f for f in tree.body if isinstance(f, ast.AsyncFunctionDef)):
            name = f"{path.stem}.{function.name}"
            texts = {n.value for n in ast.walk(function) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
            if texts & _writing_statements():
                writing.add(name)
            called = {_target(c, imported) for c in _calls(function)}
            calls[name] = {f"{path.stem}.{c}" if c in own else c for c in called}
    return _closure(writing, calls)


def _closure(writing: set[str], calls: Mapping[str, set[str]]) -> frozenset[str]:
    """With everything that calls one of them."""
    while more := {name for name, called in calls.items() if called & writing} - writing:
        writing |= more
    return frozenset(writing)


def _called(sql: str) -> set[str]:
    return set(re.findall(r"\b(\w+)\s*\(", sql))


def _files(roles: Iterable[str]) -> Iterator[Path]:
    for role in roles:
        yield from sorted((PACKAGE / role).rglob("*.py"))


def _bare(path: Path) -> Iterator[str]:
    """Functions of a file that write and lack a point before or after it."""
    tree = ast.parse(path.read_text())
    imported = _imported(tree)
    for function in [n for n in ast.walk(tree) if isinstance(n, ast.AsyncFunctionDef)]:
        wrapped = {id(c) for w in _calls(function) if _target(w, imported) == WRAPPER for c in _calls(w) if c is not w}
        calls = list(_calls(function))
        writes = [c.lineno for c in calls if id(c) not in wrapped and _writes(c, imported)]
        writes += [w.end_lineno or 0 for w in ast.walk(function) if isinstance(w, ast.AsyncWith) and _is_transaction(w)]
        points = [c.lineno for c in calls if _target(c, imported) == "crash_point"]
        if writes and not (points and min(points) <= min(writes) and max(points) > max(writes)):
            yield f"{path.relative_to(PACKAGE)}:{function.name}"


def _writes(call: ast.Call, imported: Mapping[str, str]) -> bool:
    """Whether it writes, in a transaction of its own; what is given one is a part of that."""
    if call.args and isinstance(call.args[0], ast.Name) and call.args[0].id == "tx":
        return False
    target = _target(call, imported)
    *_, owner, name = ["", *target.split(".")]
    if name in RUNNERS and owner != "tx":
        first = call.args[0] if call.args else None
        return isinstance(first, ast.Constant) and first.value in _writing_statements()
    return target in _writing_store() or (owner == "_executor" and name in OF_EXECUTOR)


def _is_transaction(block: ast.AsyncWith) -> bool:
    """It commits at its end."""
    found = [i.context_expr for i in block.items if isinstance(i.context_expr, ast.Call)]
    return any(_target(c, {}).endswith("transaction") for c in found)


def _calls(function: ast.AST) -> Iterator[ast.Call]:
    """Calls in a function, without those of functions inside it."""
    inner = {
        id(n)
        for f in ast.walk(function)
        if isinstance(f, ast.AsyncFunctionDef) and f is not function
        for n in ast.walk(f)
    }
    return (n for n in ast.walk(function) if isinstance(n, ast.Call) and id(n) not in inner)


def _target(call: ast.Call, imported: Mapping[str, str]) -> str:
    """What is called: a name, or the last two parts of a dotted one; of the store, `<module>.<name>`."""
    match call.func:
        case ast.Name(id=name):
            return imported.get(name, name)
        case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=name):
            return f"{imported.get(owner, owner)}.{name}"
        case ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _imported(tree: ast.Module) -> dict[str, str]:
    """Names that come from the store, as `<module>` or `<module>.<name>`."""
    found: dict[str, str] = {}
    for node in [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]:
        module = node.module or ""
        for alias in node.names:
            if module == "onceflow.store":
                found[alias.asname or alias.name] = alias.name
            elif module.startswith("onceflow.store."):
                found[alias.asname or alias.name] = f"{module.rpartition('.')[2]}.{alias.name}"
    return found
