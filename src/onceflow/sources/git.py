"""Watches a branch of a git repository and tells its new commits.

    AssetWatcher("site", trigger=GitHeadTrigger("https://example.org/site.git", branch="main"))

cursor  the sha of the last commit that was told, as a string; forty zeros while the repository has no commit.
key     the sha of the commit: the same commit is the same change, whoever notices it, however often, on whatever way.

What a move of the branch means:

- New commits: each is told (`commits="each"`), parents before their children and otherwise by commit time. "New" is
  everything reachable from the head and not from the cursor, so the commits of a merged branch count too;
  `commits="first-parent"` tells only what landed on the branch itself, so one event per merge, and `commits="newest"`
  only the head.
- History was rewritten (the cursor is no ancestor of the head; a forced push): the commits since the merge base are
  told like any others, and the head, last as always, has `forced` true and the old head as `previous`. When no merge
  base can be found (nothing in common, or the server no longer has the old commit), only the head is told.
- The branch was set back to an older commit: no commit is new, so nothing is told; the cursor follows. Setting it
  forward again to commits that were told before starts nothing either.
- The branch is missing: an error that names the branches there are; the cursor stays. A repository without any commit
  is not an error: its first commits, once they come, are new.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from onceflow.model.errors import DagError, SourceError
from onceflow.sdk.trigger import UNSET, TriggerEvent
from onceflow.sources._git_history import ROOT, Commit, Move, first_parents, move
from onceflow.sources._git_repository import Access
from onceflow.sources._git_url import parse
from onceflow.sources._threads import in_thread
from onceflow.sources._wake import Listener
from onceflow.sources.poll import Polled, PollTrigger

if TYPE_CHECKING:
    from onceflow.sources._git_repository import Head, Repository

COMMITS = ("each", "first-parent", "newest")
STARTS = ("head", "newest", "root")  # or a full sha
LOCAL_INTERVAL = 5.0  # changes on a local disk wake it at once anyway
REMOTE_INTERVAL = 30.0
LOOK_FACTOR = 12  # a look as a whole may take this many times the time-out of one answer
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class GitHeadTrigger(PollTrigger):
    """Watches the head of a branch.

    url:          https://…, http://…, ssh://…, user@host:path, file:///… or an absolute local path.
    branch:       the branch; None: the one that the repository's HEAD names.
    commits:      which new commits are told: "each", "first-parent" or only the "newest".
    start:        where a new watcher begins. "head" (default): after the present head, which is not told. "newest":
                  with the present head, which is told. "root": with the first commit, all are told. A full sha: after
                  it.
    interval:     seconds between looks, or a timedelta; by default 5 for a local path, where a change also wakes it at
                  once, and 30 for a remote.
    timeout:      seconds to wait for an answer of the server.
    username, token_file: credentials for https; the file holds a token or password and is read at each look.
    key_file:     private key for ssh; by default the process's ssh configuration and agent decide.
    ssh_command:  the ssh program to run, with options, instead of "ssh".
    ca_file:      certificates to trust for https, instead of the system's.
    max_download_mib: how much a server may send for one look; only servers that cannot leave out files come near it.

    Credentials in the URL work but are stored with the DAG; they never appear in events, errors or logs.
    """

    redelivery_horizon = timedelta.max  # a branch may be set back, and forward again, whenever somebody likes
    poll_timeout = None  # the looks have time limits of their own

    def __init__(
        self,
        url: str,
        branch: str | None = "main",
        *,
        commits: Literal["each", "first-parent", "newest"] = "each",
        start: str = "head",
        interval: float | timedelta | None = None,
        timeout: float = 30.0,
        username: str | None = None,
        token_file: str | None = None,
        key_file: str | None = None,
        ssh_command: str | None = None,
        ca_file: str | None = None,
        max_download_mib: int = 1024,
    ) -> None:
        seconds = interval.total_seconds() if isinstance(interval, timedelta) else interval
        given = {
            "commits": (commits, "each"),
            "start": (start, "head"),
            "interval": (seconds, None),
            "timeout": (timeout, 30.0),
            "username": (username, None),
            "token_file": (token_file, None),
            "key_file": (key_file, None),
            "ssh_command": (ssh_command, None),
            "ca_file": (ca_file, None),
            "max_download_mib": (max_download_mib, 1024),
        }
        self.location = parse(url)
        self.interval = LOCAL_INTERVAL if self.location.kind == "path" else REMOTE_INTERVAL
        super().__init__(url=url, branch=branch, **{k: v for k, (v, default) in given.items() if v != default})
        self.branch = branch
        self.commits = _one_of(commits, COMMITS, "commits")
        self.start = start if _SHA.fullmatch(start) else _one_of(start, ("head", "newest", "root"), "start")
        self.access = Access(
            timeout, username, token_file, key_file, ssh_command, ca_file, max_download=max_download_mib << 20
        )
        self._repository: Repository | None = None
        self._listener: Listener | None = None

    async def poll(self, cursor: Any) -> Polled:
        look = await in_thread(self.location.shown, LOOK_FACTOR * self.access.timeout, self._look, cursor)
        if self._listener is None and look.head.watchable:
            self._listener = Listener(look.head.watchable)
        return Polled(self._events(look, cursor), look.cursor)

    async def rest(self, seconds: float) -> None:
        if self._listener is None:
            await super().rest(seconds)
        else:
            await self._listener.wait(seconds, at_least=self.least_rest())

    async def cleanup(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._repository is not None:
            self._repository.interrupt()
            self._repository = None

    def _look(self, cursor: str | None) -> _Look:
        """Ask the repository, in a thread: where is the head, and what is new since the cursor?"""
        repository = self._repository = self._repository or _open(self)
        head = repository.head(self.branch)
        if head.sha is None:
            return _Look(head, cursor or ROOT, Move(()))
        since = self._since(cursor, head.sha)
        if since == head.sha:
            return _Look(head, head.sha, Move(()))
        found = self._new_commits(repository, head.sha, since)
        if cursor is None and found.forced and since == self.start:
            raise SourceError(
                f"start={self.start} is not in the history of {head.branch or 'HEAD'}",
                where=self.location.shown,
                code="source_not_found",
            )
        return _Look(head, head.sha, found)

    def _since(self, cursor: str | None, head: str) -> str:
        """The commit after which the news begin; the head itself when it begins here and is not told."""
        if cursor is not None:
            return cursor
        return {"head": head, "newest": _ONLY_HEAD, "root": ROOT}.get(self.start, self.start)

    def _new_commits(self, repository: Repository, head: str, since: str) -> Move:
        from onceflow.sources._git_errors import TooLargeError

        if since == _ONLY_HEAD:
            return Move((repository.newest(head),))
        try:
            return move(head, since, repository.commits(head, since))
        except TooLargeError:
            if self.commits == "newest":
                return Move((repository.newest(head),), forced=None)
            limit = self.access.max_download >> 20
            raise SourceError(
                f"the new commits are more than {limit} MiB",
                where=self.location.shown,
                remedy='raise max_download_mib, use commits="newest", or let the server set uploadpack.allowFilter',
                code="source_too_large",
            ) from None

    def _events(self, look: _Look, cursor: str | None) -> list[TriggerEvent]:
        told = look.move.commits
        if self.commits == "first-parent":
            told = first_parents(told)
        elif self.commits == "newest":
            told = told[-1:]
        # Of rewritten history only the last event carries the cursor: from a commit half-way, after a crash, the move
        # would no longer look forced.
        events = [self._event(look, commit, cursor=UNSET if look.move.forced else commit.sha) for commit in told]
        if told and (look.move.forced or self.commits == "newest"):
            payload = {**events[-1].payload, "previous": None if cursor == ROOT else cursor, "forced": look.move.forced}
            events[-1] = replace(events[-1], payload=payload)
        return events

    def _event(self, look: _Look, commit: Commit, cursor: Any) -> TriggerEvent:
        payload = {
            "repo": self.location.shown,
            "branch": look.head.branch,
            "sha": commit.sha,
            "previous": commit.parents[0] if commit.parents else None,
            "parents": list(commit.parents),
            "author": commit.author,
            "author_email": commit.author_email,
            "message": commit.message,
            "authored_at": _rfc3339(commit.authored_at),
            "committed_at": _rfc3339(commit.committed_at),
            "forced": False,
        }
        return TriggerEvent(payload, key=commit.sha, cursor=cursor)


@dataclass(frozen=True)
class _Look:
    """One look at the branch: its head, the new cursor, and what the move from the old one brought."""

    head: Head
    cursor: str
    move: Move


_ONLY_HEAD = "newest"


def _open(trigger: GitHeadTrigger) -> Repository:
    """The repository's reader. Imported here, in a thread, because the git library is large."""
    if trigger.location.kind == "path":
        from onceflow.sources._git_local import LocalRepository

        return LocalRepository(trigger.location)
    from onceflow.sources._git_remote import RemoteRepository

    return RemoteRepository(trigger.location, trigger.access)


def _one_of(value: str, allowed: Iterable[str], name: str) -> str:
    if value not in allowed:
        raise DagError(
            f"{name}={value!r} is not allowed", where="GitHeadTrigger", remedy=f"one of {', '.join(allowed)}"
        )
    return value


def _rfc3339(seconds: int) -> str | None:
    """The time as text; None for one that no calendar has, which commits may carry."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return None
