"""One real source of each kind."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from harness import Source
from kinds import KINDS


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
async def source(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Source]:
    """A source of each kind, with something to watch."""
    if request.param.__name__ == "GitSsh" and shutil.which("ssh") is None:
        pytest.skip("no ssh program")
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    async with AsyncExitStack() as stack:
        made = request.param(tmp_path, stack)
        await made.start()
        yield made
