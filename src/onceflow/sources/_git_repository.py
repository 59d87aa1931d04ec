"""What a git source needs of a repository, wherever it is: where a branch's head is, and which commits lead there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from onceflow.model.errors import SourceError
from onceflow.sources._git_history import Commit

if TYPE_CHECKING:
    from dulwich.objects import Commit as GitCommit

HEADS = "refs/heads/"
MESSAGE_LIMIT = 65_536  # characters of a commit message that are reported, so that an event stays within its limit
SHOWN_BRANCHES = 20


@dataclass(frozen=True)
class Head:
    """A branch's newest commit. `sha` is None for a repository without any commit."""

    sha: str | None
    branch: str | None
    watchable: tuple[str, ...] = ()  # local directories in which something changes when the head moves


@dataclass(frozen=True)
class Access:
    """How to get in, and how much may be sent to us."""

    timeout: float = 30.0  # seconds without an answer
    username: str | None = None
    token_file: str | None = None
    key_file: str | None = None
    ssh_command: str | None = None
    ca_file: str | None = None
    max_download: int = 1 << 30  # bytes


class Repository(Protocol):
    """Everything blocks; every failure is a SourceError."""

    def head(self, branch: str | None) -> Head:
        """Where the branch's head is (None: the branch that the repository's HEAD names)."""
        ...

    def commits(self, head: str, cursor: str) -> dict[str, Commit]:
        """The commits reachable from `head` and not from `cursor`; more when the repository does not know `cursor`."""
        ...

    def newest(self, head: str) -> Commit:
        """The commit `head` alone."""
        ...

    def interrupt(self) -> None:
        """Let a question that is being answered fail soon; from any thread."""
        ...


def reference(branch: str | None) -> str:
    """The full name of the reference that a branch is asked for by."""
    if branch is None:
        return "HEAD"
    return branch if branch.startswith("refs/") else HEADS + branch


def short(name: str | None) -> str | None:
    """A reference's name as people say it; None for a head that is on no branch."""
    if name is None or name == "HEAD":
        return None
    return name.removeprefix(HEADS)


def without_branch(branch: str | None, names: Iterable[str], where: str) -> Head:
    """The answer when the branch is not there: fine in a repository that has nothing yet, else an error."""
    present = sorted(name for name in names if name.startswith("refs/"))
    if not present:
        return Head(None, branch)
    asked = f"no branch {branch!r}" if branch else "HEAD names a branch that does not exist"
    branches = [name.removeprefix(HEADS) for name in present if name.startswith(HEADS)]
    shown = ", ".join(branches[:SHOWN_BRANCHES]) + (", …" if len(branches) > SHOWN_BRANCHES else "")
    raise SourceError(asked, where=where, remedy=f"branches: {shown or 'none'}", code="source_not_found")


def described(sha: str, commit: GitCommit) -> Commit:
    """A commit as it is reported; text that is not in the encoding the commit names gets replacement characters."""
    encoding = (commit.encoding or b"utf-8").decode("ascii", "replace")
    name, _, address = _text(commit.author, encoding).rpartition(" <")
    return Commit(
        sha=sha,
        parents=tuple(parent.decode() for parent in commit.parents),
        author=name,
        author_email=address.removesuffix(">"),
        authored_at=commit.author_time,
        committed_at=commit.commit_time,
        message=_text(commit.message, encoding)[:MESSAGE_LIMIT],
    )


def _text(raw: bytes, encoding: str) -> str:
    try:
        return raw.decode(encoding, "replace")
    except LookupError:
        return raw.decode("utf-8", "replace")
