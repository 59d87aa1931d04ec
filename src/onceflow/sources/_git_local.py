"""A git repository on this machine's disk, bare or not, read in place."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from dulwich.objects import Commit as GitCommit
from dulwich.objects import ObjectID
from dulwich.refs import Ref
from dulwich.repo import Repo

from onceflow.model.errors import SourceError
from onceflow.sources._git_errors import explained
from onceflow.sources._git_history import ROOT, Commit, reachable
from onceflow.sources._git_repository import HEADS, Head, described, reference, short, without_branch
from onceflow.sources._git_url import Location


class LocalRepository:
    """Opens the repository anew for every question, so that nothing is held open and nothing is stale."""

    def __init__(self, location: Location) -> None:
        self._location = location

    def head(self, branch: str | None) -> Head:
        with self._open() as repo:
            chain, sha = repo.refs.follow(Ref(reference(branch).encode()))
            name = chain[-1].decode("utf-8", "replace") if chain else reference(branch)
            watchable = _watchable(repo, name)
            if sha is None:
                names = [ref.decode("utf-8", "replace") for ref in repo.get_refs()]
                return replace(without_branch(branch, names, self._location.shown), watchable=watchable)
            if name.startswith("refs/tags/"):
                sha = repo.get_peeled(chain[-1])
            return Head(sha.decode(), short(name), watchable)

    def commits(self, head: str, cursor: str) -> dict[str, Commit]:
        with self._open() as repo:
            if cursor != ROOT and _load(repo, cursor) is None:
                return {head: self._present(repo, head)}
            return reachable(head, cursor, lambda sha: _load(repo, sha))

    def interrupt(self) -> None:
        """Reading the disk is not interrupted."""

    def newest(self, head: str) -> Commit:
        with self._open() as repo:
            return self._present(repo, head)

    def _present(self, repo: Repo, sha: str) -> Commit:
        commit = _load(repo, sha)
        if commit is None:
            raise SourceError(f"commit {sha} is named by the branch but missing", where=self._location.shown)
        return commit

    @contextmanager
    def _open(self) -> Generator[Repo]:
        with explained(self._location):
            repo = Repo(self._location.path)
            try:
                yield repo
            finally:
                repo.close()


def _load(repo: Repo, sha: str) -> Commit | None:
    try:
        found = repo[ObjectID(sha.encode())]
    except KeyError:
        return None
    return described(sha, found) if isinstance(found, GitCommit) else None


def _watchable(repo: Repo, name: str) -> tuple[str, ...]:
    common = Path(repo.commondir())
    places = {Path(repo.controldir()), common, common / HEADS, (common / name).parent}
    return tuple(sorted(str(place) for place in places))
