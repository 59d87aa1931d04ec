"""What importing Onceflow pulls in, in fresh interpreters. The time it takes is in the benchmarks."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import onceflow

HEAVY = {"asyncio", "asyncpg", "cronsim", "fastapi", "jinja2", "pendulum", "pydantic", "rich", "structlog", "uvicorn"}
ALL = "import onceflow; [getattr(onceflow, name) for name in onceflow.__all__]"


def imported(code: str) -> set[str]:
    """The modules that a fresh interpreter has after the code."""
    command = [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_the_package_alone_imports_nothing_else_of_ours() -> None:
    assert {name for name in imported("import onceflow") if name.startswith("onceflow")} == {"onceflow"}


@pytest.mark.parametrize("code", [ALL, "from onceflow import DAG, task; DAG('d', schedule='@once')"])
def test_authoring_imports_nothing_heavy(code: str) -> None:
    assert not imported(code) & HEAVY


def test_what_runs_tasks_imports_no_driver_and_no_server() -> None:
    heavy = {"asyncpg", "fastapi", "pydantic", "uvicorn", "rich", "jinja2"}
    assert not imported("import onceflow.sdk.runtime, onceflow.guest.loader, onceflow.parse.load") & heavy


def test_every_public_name_is_there_for_type_checkers_too() -> None:
    for name in onceflow.__all__:
        assert getattr(onceflow, name) is not None
    assert set(onceflow.__all__) == set(onceflow._NAMES) <= set(dir(onceflow))
    tree = ast.parse(Path(onceflow.__file__).read_text())
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    names = {
        a.asname or a.name
        for block in blocks
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for a in node.names
    }
    assert names == set(onceflow.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="DAGG"):
        onceflow.__getattr__("DAGG")


def test_windows_is_refused_by_name() -> None:
    code = "import sys; sys.platform = 'win32'; import onceflow"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "UnsupportedError: win32: Onceflow does not run on Windows" in done.stderr
    assert "WSL" in done.stderr
