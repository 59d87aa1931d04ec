"""The sources that the conformance suite runs on. A new source is one class here."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

from harness import Source

from git_remotes import Repo, fake_ssh, http_git, make_certificate, ssh_git
from onceflow.model.errors import SourceError
from onceflow.sdk.trigger import BaseEventTrigger, TriggerEvent
from onceflow.sources.files import FileTrigger
from onceflow.sources.git import GitHeadTrigger
from onceflow.sources.poll import PollTrigger, poll_trigger

OFTEN = 0.05


class GitSource(Source):
    """A branch of a bare repository; subclasses say how it is reached."""

    async def start(self) -> None:
        self.repo = Repo.make(self.folder / "site.git")
        self.repo.commit("the beginning")

    def trigger(self) -> BaseEventTrigger:
        return GitHeadTrigger(str(self.repo.path), interval=OFTEN)

    async def change(self) -> None:
        self.repo.commit()

    async def disturb(self) -> None:
        self.repo.commit("elsewhere", branch="other", parents=[])

    async def break_down(self) -> None:
        self.repo.path.rename(self.folder / "away.git")

    async def repair(self) -> None:
        (self.folder / "away.git").rename(self.repo.path)


class GitPath(GitSource):
    pass


class GitFileUrl(GitSource):
    def trigger(self) -> BaseEventTrigger:
        return GitHeadTrigger(f"file://{self.repo.path}", interval=OFTEN)


class GitHttp(GitSource):
    async def start(self) -> None:
        await super().start()
        self.server = self.stack.enter_context(http_git(self.folder))

    def trigger(self) -> BaseEventTrigger:
        return GitHeadTrigger(f"{self.server.url}/site.git", interval=OFTEN)


class GitHttps(GitSource):
    async def start(self) -> None:
        await super().start()
        certificate = make_certificate(self.folder)
        self.server = self.stack.enter_context(http_git(self.folder, login=("ada", "s3cret"), certificate=certificate))
        self.token = self.folder / "token"
        self.token.write_text("s3cret\n")

    def trigger(self) -> BaseEventTrigger:
        return GitHeadTrigger(
            f"{self.server.url}/site.git",
            interval=OFTEN,
            username="ada",
            token_file=str(self.token),
            ca_file=str(self.folder / "cert.pem"),
        )


class GitSsh(GitSource):
    """The real ssh program, and a real server on loopback."""

    async def start(self) -> None:
        await super().start()
        self.server = await self.stack.enter_async_context(ssh_git(self.folder))

    def trigger(self) -> BaseEventTrigger:
        return GitHeadTrigger(
            f"ssh://git@127.0.0.1:{self.server.port}{self.repo.path}",
            interval=OFTEN,
            key_file=str(self.server.key_file),
            ssh_command=self.server.ssh_command,
        )


class GitOldSsh(GitSource):
    """A server that is only reached by the first version of git's protocol, in scp's way of writing it."""

    async def start(self) -> None:
        await super().start()
        self.ssh = fake_ssh(self.folder, old=True)

    def trigger(self) -> BaseEventTrigger:
        return GitHeadTrigger(f"git@here:{self.repo.path}", interval=OFTEN, ssh_command=self.ssh)


class Files(Source):
    """A directory in which files appear."""

    async def start(self) -> None:
        self.numbers = itertools.count()
        self.inbox = self.folder / "inbox"
        self.inbox.mkdir()
        (self.inbox / "old.csv").write_text("there before")

    def trigger(self) -> BaseEventTrigger:
        return FileTrigger(f"{self.inbox}/*.csv", interval=OFTEN, settle=0)

    async def change(self) -> None:
        draft = self.inbox / ".draft"
        draft.write_text("new")
        draft.rename(self.inbox / f"{next(self.numbers):04}.csv")

    async def disturb(self) -> None:
        (self.inbox / "readme.txt").write_text("other")
        (self.inbox / ".hidden.csv").write_text("not finished")

    async def break_down(self) -> None:
        self.inbox.rename(self.folder / "away")

    async def repair(self) -> None:
        (self.folder / "away").rename(self.inbox)


class FileContents(Files):
    """A file whose content changes."""

    def trigger(self) -> BaseEventTrigger:
        return FileTrigger(f"{self.inbox}/old.csv", interval=OFTEN, settle=0.02, identity="content", removed=True)

    async def change(self) -> None:
        draft = self.inbox / ".draft"
        draft.write_text(f"content {next(self.numbers)}")
        draft.rename(self.inbox / "old.csv")

    async def disturb(self) -> None:
        (self.inbox / "old.csv").touch()


class CountedLines(PollTrigger):
    """A poll written as a class: the lines of a file."""

    def __init__(self, path: str, interval: float) -> None:
        super().__init__(path=path, interval=interval)
        self.path = path

    async def poll(self, cursor: Any) -> tuple[list[TriggerEvent], Any]:
        return lines_after(self.path, cursor)


@poll_trigger(interval=OFTEN)
async def counted_lines(cursor: Any, path: str) -> tuple[list[TriggerEvent], Any]:
    return lines_after(path, cursor)


def lines_after(path: str, cursor: int | None) -> tuple[list[TriggerEvent], int]:
    if not Path(path).exists():
        raise SourceError("the file is gone", where=path)
    lines = [line for line in Path(path).read_text().splitlines() if not line.startswith("#")]
    new = range(len(lines) if cursor is None else cursor, len(lines))
    return [TriggerEvent({"line": lines[n]}, key=f"line-{n}", cursor=n + 1) for n in new], len(lines)


class PollClass(Source):
    async def start(self) -> None:
        self.file = self.folder / "lines"
        self.file.write_text("the first\n")

    def trigger(self) -> BaseEventTrigger:
        return CountedLines(str(self.file), OFTEN)

    async def change(self) -> None:
        with self.file.open("a") as file:
            file.write("another\n")

    async def disturb(self) -> None:
        with self.file.open("a") as file:
            file.write("# a comment\n")

    async def break_down(self) -> None:
        shutil.move(self.file, self.folder / "away")

    async def repair(self) -> None:
        shutil.move(self.folder / "away", self.file)


class PollFunction(PollClass):
    def trigger(self) -> BaseEventTrigger:
        return counted_lines(path=str(self.file))


KINDS: list[type[Source]] = [
    GitPath,
    GitFileUrl,
    GitHttp,
    GitHttps,
    GitSsh,
    GitOldSsh,
    Files,
    FileContents,
    PollClass,
    PollFunction,
]
