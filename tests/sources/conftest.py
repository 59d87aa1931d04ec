"""A git repository and ways to reach it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from git_remotes import Repo, fake_ssh, http_git
from onceflow.sources import _wake
from onceflow.sources.git import GitHeadTrigger

Watched = Callable[..., GitHeadTrigger]


@pytest.fixture(autouse=True)
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's git configuration or credentials take part."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))


@pytest.fixture(autouse=True)
async def no_listeners() -> AsyncIterator[None]:
    """Tests that ask a trigger directly have no host to clean up after it."""
    yield
    for hub in _wake._HUBS.values():
        for listener in list(hub._listeners):
            listener.close()


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """An empty bare repository."""
    return Repo.make(tmp_path / "site.git")


@pytest.fixture(params=["path", "http", "whole", "ssh"])
def watched(request: pytest.FixtureRequest, repo: Repo, tmp_path: Path) -> Iterator[Watched]:
    """Makes triggers on the repository: read in place; over http, without and with files; by git's older protocol."""
    with ExitStack() as stack:
        url, given = str(repo.path), dict[str, Any]()
        if request.param in ("http", "whole"):
            repo.allow_partial(request.param == "http")
            url = f"{stack.enter_context(http_git(tmp_path)).url}/site.git"
        elif request.param == "ssh":
            url, given = f"git@here:{repo.path}", {"ssh_command": fake_ssh(tmp_path, old=True)}
        yield lambda **arguments: GitHeadTrigger(url, **{"interval": 0.05, **given, **arguments})
