"""What of the DAG folder a trigger's class is made of, as one hash: it changes when the class behaves otherwise.

Of the class's own module count the statements that the class needs: its own, those that define what these name, and
those that change it. So an edited DAG beside it, or another watcher's arguments, change nothing. Modules of the folder
that these statements import count as a whole, with what they import in turn.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
IMPORTS = (ast.Import, ast.ImportFrom)


def code_hash(kind: type, folder: Path) -> str:
    """The hash of a class's code; "" if its module is not in the folder."""
    path = Path(getattr(sys.modules.get(kind.__module__), "__file__", None) or "/")
    if not path.is_relative_to(folder):
        return ""
    statements = needed(ast.parse(_source(kind.__module__, path)), kind.__qualname__.partition(".")[0])
    digest = hashlib.blake2b(digest_size=16)
    for statement in statements:
        digest.update(ast.dump(statement).encode())
    for other in sorted(_imported(statements, path, folder) - {path}):
        digest.update(f"\0{other.relative_to(folder)}\0".encode() + other.read_bytes())
    return digest.hexdigest()


def needed(module: ast.Module, name: str) -> list[ast.stmt]:
    """The top-level statements that `name` needs, in order."""
    wanted, chosen = {name}, set[int]()
    while True:
        new = [
            i for i, s in enumerate(module.body) if i not in chosen and (_defined(s) | _changed(s)) & wanted | _star(s)
        ]
        if not new:
            return [module.body[i] for i in sorted(chosen)]
        chosen.update(new)
        wanted |= {node.id for i in new for node in ast.walk(module.body[i]) if isinstance(node, ast.Name)}


def _star(statement: ast.stmt) -> set[str]:
    """Not empty for `from … import *`, which may define anything."""
    return {"*"} if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*" else set()


def _defined(statement: ast.stmt) -> set[str]:
    """The names that a top-level statement gives a meaning, whatever it takes to get there."""
    if isinstance(statement, DEFINITIONS):
        return {statement.name}
    names = set[str]()
    for node in ast.walk(statement):
        if isinstance(node, DEFINITIONS):
            names.add(node.name)
        elif isinstance(node, IMPORTS):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def _changed(statement: ast.stmt) -> set[str]:
    """The names whose objects a statement changes: `NAME[…] = …`, `NAME.attribute = …`, `NAME.method(…)`."""
    if isinstance(statement, (*DEFINITIONS, *IMPORTS)):
        return set()
    targets: list[ast.expr] = []
    for node in ast.walk(statement):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            targets.append(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            targets.append(node.value.func)
    return {
        root.id for t in targets if isinstance(t, (ast.Attribute, ast.Subscript)) and (root := _root(t)) is not None
    }


def _root(node: ast.expr) -> ast.Name | None:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _imported(statements: Iterable[ast.AST], path: Path, folder: Path) -> set[Path]:
    """The files of the folder that statements of the file at `path` import, and those that these import, and so on."""
    found: set[Path] = set()
    todo = [(statements, path)]
    while todo:
        some, where = todo.pop()
        new = {file for statement in some for file in _files(statement, where, folder)} - found - {where}
        found |= new
        todo += [(_body(file), file) for file in new]
    return found


def _body(file: Path) -> list[ast.stmt]:
    try:
        return ast.parse(file.read_bytes()).body
    except (SyntaxError, ValueError):
        return []


def _files(statement: ast.AST, where: Path, folder: Path) -> Iterator[Path]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _modules(folder, alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = where.parents[node.level - 1] if node.level else folder
            start = (node.module or "").split(".") if node.module else []
            for alias in node.names:
                yield from _modules(base, [*start, alias.name])


def _modules(base: Path, parts: list[str]) -> Iterator[Path]:
    """The files that are imported on the way to a dotted name, as far as they are below `base`."""
    for length in range(1, len(parts) + 1):
        place = base.joinpath(*parts[:length])
        for file in (place.with_name(place.name + ".py"), place / "__init__.py"):
            if file.is_file():
                yield file


def _source(module: str, path: Path) -> bytes:
    """What was executed as the module, or else what is in its file."""
    executed: bytes = getattr(getattr(sys.modules.get(module), "__loader__", None), "executed", b"")
    return executed or path.read_bytes()
