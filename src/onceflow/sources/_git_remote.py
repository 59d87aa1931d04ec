"""A git repository behind http(s) or ssh.

It is asked for its references first, and for commits only when the head has moved; for commits alone, without files,
where the server allows it. Nothing is kept between questions: to be told `have <cursor>` makes a server send only what
is new, whether or not we really have it. So there is no cache that could be lost or go stale.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import IO

from dulwich.client import GitClient, LsRemoteResult
from dulwich.object_format import get_object_format
from dulwich.objects import Commit as GitCommit
from dulwich.objects import ObjectID
from dulwich.pack import PackData, PackInflater
from dulwich.refs import Ref

from onceflow.model.errors import SourceError
from onceflow.sources._git_client import SshVendor, connected, read_token
from onceflow.sources._git_errors import TooLargeError, explained
from onceflow.sources._git_history import ROOT, Commit
from onceflow.sources._git_repository import Access, Head, described, reference, short, without_branch
from onceflow.sources._git_url import Location


class RemoteRepository:
    """Connects anew for every question and leaves no connection behind."""

    def __init__(self, location: Location, access: Access) -> None:
        self._location = location
        self._access = access
        self._vendor = SshVendor(access.timeout)
        self._may_filter = True  # the server speaks the version of the protocol that can leave files out

    def head(self, branch: str | None) -> Head:
        with self._client() as (client, path):
            name = reference(branch)
            found = client.get_refs(path, ref_prefix=[name.encode()])
            self._may_filter = client.protocol_version == 2
            head = _head_in(found, branch)
            if head is not None:
                return head
            everything = client.get_refs(path, ref_prefix=[b"refs/"])
            names = [ref.decode("utf-8", "replace") for ref in everything.refs]
            return without_branch(branch, names, self._location.shown)

    def commits(self, head: str, cursor: str) -> dict[str, Commit]:
        return self._fetch(head, None if cursor == ROOT else cursor)

    def newest(self, head: str) -> Commit:
        commits = self._fetch(head, None, depth=1)
        if head not in commits:
            raise SourceError(f"the server did not send commit {head}", where=self._location.shown)
        return commits[head]

    def interrupt(self) -> None:
        self._vendor.interrupt()

    def _fetch(self, head: str, have: str | None, depth: int | None = None) -> dict[str, Commit]:
        """Fetch what is reachable from head and not from `have`; its commits by sha."""
        want = [ObjectID(head.encode())]

        def wanted(refs: Mapping[Ref, ObjectID], depth: int | None = None) -> list[ObjectID]:
            return want

        with self._client() as (client, path), tempfile.TemporaryFile() as pack:
            result = client.fetch_pack(
                path,
                wanted,
                _Have(have),
                _bounded(pack, self._access.max_download),
                depth=depth,
                filter_spec=b"tree:0" if self._may_filter else None,
                ref_prefix=[b"HEAD"],
            )
            return _commits_in(pack, result.object_format)

    @contextmanager
    def _client(self) -> Generator[tuple[GitClient, bytes]]:
        token = read_token(self._access)
        secrets = (token,) if token else ()
        with explained(self._location, secrets), connected(self._location, self._access, self._vendor) as connection:
            yield connection


def _head_in(found: LsRemoteResult, branch: str | None) -> Head | None:
    name = Ref(reference(branch).encode())
    sha = found.refs.get(Ref(name + b"^{}")) or found.refs.get(name)
    if sha is None:
        return None
    target = found.symrefs.get(name, name)
    return Head(sha.decode(), short(target.decode("utf-8", "replace")))


class _Have:
    """Tells a server the one commit that we say we have."""

    def __init__(self, sha: str | None) -> None:
        self._left = [] if sha is None else [ObjectID(sha.encode())]

    def __next__(self) -> ObjectID | None:
        return self._left.pop() if self._left else None

    def ack(self, sha: ObjectID) -> None:
        """The server has it too."""

    def nak(self) -> None:
        """The server does not have it, or does not say."""


def _bounded(file: IO[bytes], limit: int) -> Callable[[bytes], int]:
    def write(data: bytes) -> int:
        if file.tell() + len(data) > limit:
            raise TooLargeError
        return file.write(data)

    return write


def _commits_in(pack: IO[bytes], object_format: str | None) -> dict[str, Commit]:
    pack.flush()
    pack.seek(0)
    hashing = get_object_format(object_format or "sha1")
    data = PackData.from_file(pack, hashing)
    try:
        commits = (item for item in PackInflater.for_pack_data(data) if isinstance(item, GitCommit))
        found = (described(commit.get_id(hashing).decode(), commit) for commit in commits)
        return {commit.sha: commit for commit in found}
    finally:
        data.close()
