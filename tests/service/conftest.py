"""Homes of an embedded PostgreSQL to start from."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from embedded import BINDIR

from onceflow.runtime.postgres import EmbeddedPostgres


@pytest.fixture(scope="session")
def stopped_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose server was started once and stopped: what a warm start begins with."""
    home = tmp_path_factory.mktemp("stopped") / "home"
    with EmbeddedPostgres(home, BINDIR):
        pass
    return home


@pytest.fixture
def home(stopped_home: Path, tmp_path: Path) -> Path:
    """A copy of a stopped home, this test's alone."""
    shutil.copytree(stopped_home, tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A temporary folder that other users can reach; pytest's own ones are private."""
    folder = Path(tempfile.mkdtemp(prefix="onceflow-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)
