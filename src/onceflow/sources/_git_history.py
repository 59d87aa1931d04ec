"""Which commits a branch's move brought, decided from the commits alone. Nothing here reads a repository.

head == cursor                        nothing happened
cursor is an ancestor of head         advance: every commit reachable from head and not from cursor
head is an ancestor of cursor         rewind: nothing new
neither                               forced: history was rewritten; the commits since the merge base, if there is
                                      one that the repository still knows, else head alone
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass

ROOT = "0" * 40  # the cursor of a branch without commits
SLOP = 1000  # commits looked at beyond the point where the walk seems complete, for histories with wrong clocks


@dataclass(frozen=True)
class Commit:
    """What is reported of a commit. Times are seconds since 1970, UTC."""

    sha: str
    parents: tuple[str, ...]
    author: str
    author_email: str
    authored_at: int
    committed_at: int
    message: str


@dataclass(frozen=True)
class Move:
    """What happened to a branch: its new commits, oldest first, and whether history was rewritten (None: not known)."""

    commits: tuple[Commit, ...]
    forced: bool | None = False


def move(head: str, cursor: str, new: Mapping[str, Commit]) -> Move:
    """Judge a move of a branch from `cursor` to `head`, given the commits reachable from head and not from cursor.

    A repository that no longer has `cursor` gives the whole history as `new`, which looks like a history without any
    commit in common: in both cases no merge base can be found, and only head is reported.
    """
    parents = {parent for commit in new.values() for parent in commit.parents}
    if not new:
        return Move(())
    if cursor == ROOT or cursor in parents:
        return Move(oldest_first(new))
    has_base = bool(parents - new.keys())
    return Move(oldest_first(new) if has_base else (new[head],), forced=True)


def oldest_first(commits: Mapping[str, Commit]) -> tuple[Commit, ...]:
    """Sort commits so that each comes after its parents; among those free to go, by commit time, then sha.

    A commit in such an order is no ancestor of any before it, so that every commit after it is still found by asking
    for what is not reachable from it: any prefix is a place to go on from.
    """
    waiting = {sha: sum(parent in commits for parent in set(commit.parents)) for sha, commit in commits.items()}
    children: dict[str, list[Commit]] = {}
    for commit in commits.values():
        for parent in set(commit.parents) & commits.keys():
            children.setdefault(parent, []).append(commit)
    free = [(commits[sha].committed_at, sha) for sha, count in waiting.items() if count == 0]
    heapq.heapify(free)
    order: list[Commit] = []
    while free:
        _, sha = heapq.heappop(free)
        order.append(commits[sha])
        for child in children.get(sha, ()):
            waiting[child.sha] -= 1
            if waiting[child.sha] == 0:
                heapq.heappush(free, (child.committed_at, child.sha))
    return tuple(order)


def first_parents(commits: tuple[Commit, ...]) -> tuple[Commit, ...]:
    """Of commits in order, those on the way from the last one along first parents: what landed on the branch itself."""
    by_sha = {commit.sha: commit for commit in commits}
    line: list[Commit] = []
    at = commits[-1] if commits else None
    while at is not None:
        line.append(at)
        at = by_sha.get(at.parents[0]) if at.parents else None
    return tuple(reversed(line))


def reachable(head: str, cursor: str, load: Callable[[str], Commit | None]) -> dict[str, Commit]:
    """The commits reachable from `head` and not from `cursor`; `load` reads one, None where the repository has none.

    Walks both histories from the newest commit on, until all that is left is known to be reachable from `cursor`; then
    on until SLOP commits in a row taught nothing, since commit times may lie.
    """
    walk = _Walk(load)
    walk.push(head, excluded=False)
    if cursor != ROOT:
        walk.push(cursor, excluded=True)
    taught_nothing = 0
    while walk.queue and (walk.wanted or taught_nothing < SLOP):
        corrected = walk.step()
        taught_nothing = 0 if walk.wanted or corrected else taught_nothing + 1
    return {sha: commit for sha, commit in walk.seen.items() if sha not in walk.excluded}


class _Walk:
    def __init__(self, load: Callable[[str], Commit | None]) -> None:
        self.load = load
        self.seen: dict[str, Commit] = {}
        self.excluded: set[str] = set()  # reachable from the cursor
        self.queue: list[tuple[int, str]] = []  # newest first: those whose parents are still to be told
        self.queued: set[str] = set()
        self.wanted = 0  # how many in the queue are not excluded so far

    def push(self, sha: str, *, excluded: bool) -> bool:
        """Note a commit and what is known of it; True when that corrects what was thought of it."""
        if sha in self.seen:
            return excluded and self._exclude(sha)
        commit = self.load(sha)
        if commit is None:
            return False
        self.seen[sha] = commit
        if excluded:
            self.excluded.add(sha)
        self._enqueue(sha)
        return False

    def step(self) -> bool:
        """Tell the newest queued commit's parents what is known of it; True when that corrected something."""
        _, sha = heapq.heappop(self.queue)
        self.queued.discard(sha)
        excluded = sha in self.excluded
        if not excluded:
            self.wanted -= 1
        told = [self.push(parent, excluded=excluded) for parent in self.seen[sha].parents]
        return any(told)

    def _exclude(self, sha: str) -> bool:
        if sha in self.excluded:
            return False
        self.excluded.add(sha)
        if sha in self.queued:
            self.wanted -= 1
        else:
            self._enqueue(sha)
        return True

    def _enqueue(self, sha: str) -> None:
        heapq.heappush(self.queue, (-self.seen[sha].committed_at, sha))
        self.queued.add(sha)
        self.wanted += sha not in self.excluded
