"""Getting in, failing to, and what is shown of either."""

from __future__ import annotations

import asyncio
import socket
import traceback
from pathlib import Path

import pytest

from git_remotes import Repo, fake_ssh, git, http_git
from onceflow.model.errors import DagError, SourceError
from onceflow.sources._git_url import parse, redact
from onceflow.sources.git import GitHeadTrigger
from support import eventually
from watch import keys, watching

LOGIN = ("ada", "t0p/s3cret")


async def test_credentials_in_the_url_work_and_are_shown_nowhere(repo: Repo, tmp_path: Path) -> None:
    before = repo.commit()
    after = repo.commit()
    with http_git(tmp_path, login=LOGIN) as server:
        trigger = GitHeadTrigger(server.url.replace("://", "://ada:t0p%2Fs3cret@") + "/site.git")
        events, _ = (await trigger.poll(before))[:2]
        assert keys(list(events)) == [after]
        assert events[0].payload["repo"] == f"{server.url}/site.git"
        assert "s3cret" not in repr(events)


async def test_a_refused_login_is_an_error_without_the_password(
    repo: Repo, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    repo.commit()
    with http_git(tmp_path, login=LOGIN) as server:
        for url in (f"{server.url}/site.git", server.url.replace("://", "://ada:wr0ng@") + "/site.git"):
            with pytest.raises(SourceError, match="HTTP 401") as caught:
                await GitHeadTrigger(url).poll(None)
            assert caught.value.code == "source_unauthorized"
            assert "token_file" in caught.value.remedy
            assert "wr0ng" not in "".join(traceback.format_exception(caught.value))
    assert "wr0ng" not in caplog.text


async def test_a_token_is_read_anew_at_each_look(repo: Repo, tmp_path: Path) -> None:
    head = repo.commit()
    token = tmp_path / "token"
    with http_git(tmp_path, login=LOGIN) as server:
        trigger = GitHeadTrigger(f"{server.url}/site.git", username="ada", token_file=str(token))
        with pytest.raises(SourceError, match="token_file cannot be read"):
            await trigger.poll(None)
        token.write_text("old\n")
        with pytest.raises(SourceError, match="HTTP 401"):
            await trigger.poll(None)
        token.write_text("t0p/s3cret\n")
        assert (await trigger.poll(None)).cursor == head


async def test_gits_own_credential_store_is_used(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dulwich.client

    head = repo.commit()
    with http_git(tmp_path, login=LOGIN) as server:
        store = tmp_path / "credentials"
        store.write_text(server.url.replace("://", "://ada:t0p%2Fs3cret@") + "\n")
        defaults = dulwich.client.get_credentials_from_store.__defaults__
        assert defaults is not None
        monkeypatch.setattr(dulwich.client.get_credentials_from_store, "__defaults__", (*defaults[:-1], [str(store)]))
        assert (await GitHeadTrigger(f"{server.url}/site.git").poll(None)).cursor == head


async def test_a_missing_repository_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    place = tmp_path / "nowhere.git"
    with pytest.raises(SourceError, match="no git repository") as caught:
        await GitHeadTrigger(str(place)).poll(None)
    assert caught.value.code == "source_not_found"
    assert caught.value.where == str(place)
    assert "git init --bare" in caught.value.remedy
    with http_git(tmp_path) as server, pytest.raises(SourceError, match="no repository") as caught:
        await GitHeadTrigger(f"{server.url}/nowhere.git").poll(None)
    assert caught.value.code == "source_not_found"
    with pytest.raises(SourceError, match="no repository") as caught:
        await GitHeadTrigger(f"here:{place}", ssh_command=fake_ssh(tmp_path)).poll(None)
    assert caught.value.code == "source_not_found"


async def test_an_unreachable_remote_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(SourceError, match="refused") as caught:
        await GitHeadTrigger(f"http://127.0.0.1:{port}/site.git").poll(None)
    assert caught.value.code == "source_unreachable"
    with pytest.raises(SourceError, match="Could not resolve hostname nowhere") as caught:
        await GitHeadTrigger("nowhere:site.git", ssh_command=fake_ssh(tmp_path)).poll(None)
    assert caught.value.code == "source_unreachable"
    with pytest.raises(SourceError, match="No such file"):
        await GitHeadTrigger("nowhere:site.git", ssh_command=str(tmp_path / "no-ssh")).poll(None)


async def test_a_remote_that_never_answers_is_an_error_and_holds_nobody_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        trigger = GitHeadTrigger(f"http://127.0.0.1:{port}/site.git", timeout=0.2)
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                await asyncio.sleep(0)
                beats += 1

        pulse = asyncio.create_task(beat())
        with pytest.raises(SourceError, match="timed out"):
            await trigger.poll(None)
        pulse.cancel()
        assert beats > 10


async def test_an_ssh_that_never_answers_is_killed_when_the_trigger_stops(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    program = tmp_path / "deaf-ssh"
    program.write_text(f"#!/bin/sh\necho $$ > {started}\nexec sleep 600\n")
    program.chmod(0o700)
    async with watching(GitHeadTrigger("here:site.git", ssh_command=str(program))) as watch:
        waiting = asyncio.create_task(watch.next())
        pid = int(await eventually(lambda: started.exists() and started.read_text()))
        waiting.cancel()
    await eventually(lambda: not Path(f"/proc/{pid}").exists(), why="the ssh program to be gone")


async def test_only_commits_are_sent_where_the_server_can(repo: Repo, tmp_path: Path) -> None:
    before = repo.commit_file("small", b"x")
    after = repo.commit_file("large", bytes(range(256)) * 4096)
    with http_git(tmp_path) as server:
        trigger = GitHeadTrigger(f"{server.url}/site.git")
        assert (await trigger.poll(before)).cursor == after
        assert max(server.sent) < 2000
        asked = len(server.requests)
        assert (await trigger.poll(after)).cursor == after
        assert len(server.requests) == asked + 2  # its references, and nothing else


async def test_more_than_allowed_is_an_error_or_only_the_newest(repo: Repo, tmp_path: Path) -> None:
    import random

    repo.allow_partial(False)
    before = repo.commit_file("small", b"x")
    repo.commit_file("large", random.Random(1).randbytes(3 << 20))
    after = repo.commit_file("small again", b"y")
    with http_git(tmp_path) as server:
        url = f"{server.url}/site.git"
        with pytest.raises(SourceError, match="more than 1 MiB") as caught:
            await GitHeadTrigger(url, max_download_mib=1).poll(before)
        assert caught.value.code == "source_too_large"
        (event,), cursor = (await GitHeadTrigger(url, max_download_mib=1, commits="newest").poll(before))[:2]
        assert (event.key, cursor, event.payload["forced"]) == (after, after, None)


async def test_a_repository_with_longer_hashes_can_be_watched(tmp_path: Path) -> None:
    place = tmp_path / "long.git"
    git("init", "-q", "--bare", "-b", "main", "--object-format=sha256", str(place))
    tree = git("hash-object", "-w", "-t", "tree", "/dev/null", cwd=place)
    before = git("commit-tree", tree, "-m", "one", cwd=place)
    after = git("commit-tree", tree, "-m", "two", "-p", before, cwd=place)
    git("update-ref", "refs/heads/main", after, cwd=place)
    assert len(after) == 64
    with http_git(tmp_path) as server:
        for url in (str(place), f"{server.url}/long.git"):
            events, cursor = (await GitHeadTrigger(url).poll(before))[:2]
            assert keys(list(events)) == [after] == [cursor]


async def test_work_trees_and_linked_work_trees_can_be_watched(tmp_path: Path) -> None:
    tree, linked = tmp_path / "tree", tmp_path / "linked"
    git("init", "-q", "-b", "main", str(tree))
    git("commit", "-q", "--allow-empty", "-m", "one", cwd=tree)
    git("worktree", "add", "-q", str(linked), cwd=tree)
    before = git("rev-parse", "HEAD", cwd=tree)
    async with watching(GitHeadTrigger(str(tree)), before) as one, watching(GitHeadTrigger(str(linked)), before) as two:
        git("commit", "-q", "--allow-empty", "-m", "two", cwd=tree)
        after = git("rev-parse", "HEAD", cwd=tree)
        assert keys(await one.next()) == keys(await two.next()) == [after]


async def test_a_local_branch_is_noticed_without_waiting_for_the_interval(repo: Repo) -> None:
    repo.commit()
    async with watching(GitHeadTrigger(str(repo.path), interval=3600)) as watch:
        waiting = asyncio.create_task(watch.next())
        await eventually(lambda: watch.looks >= 1)

        async def noticed() -> bool:
            repo.commit()  # again and again: listening may begin a moment later than looking
            return waiting.done()

        await eventually(noticed, every=0.2)
        assert keys(await waiting)[0] in repo.shas


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://ada:pw@example.org/x.git", "https://example.org/x.git"),
        ("https://tok3n@example.org:8443/x.git?private_token=tok3n", "https://example.org:8443/x.git"),
        ("ssh://git@example.org:2222/x.git", "ssh://git@example.org:2222/x.git"),
        ("git@example.org:team/x.git", "git@example.org:team/x.git"),
        ("example.org:x.git", "example.org:x.git"),
        ("https://[::1]:80/x.git", "https://[::1]:80/x.git"),
        ("file:///srv/a%20b.git", "/srv/a b.git"),
        ("/srv/x.git", "/srv/x.git"),
    ],
)
def test_places_are_shown_without_credentials(text: str, shown: str) -> None:
    assert parse(text).shown == shown


NO_PLACES = """
relative/path
git://example.org/x
ftp://u:hidden@example.org/x
https:///x
https://u:hidden@h:port/x
ssh://u:hidden@example.org/x
"""


@pytest.mark.parametrize("text", NO_PLACES.split())
def test_what_is_no_place_of_a_repository_is_refused(text: str) -> None:
    with pytest.raises(DagError) as caught:
        GitHeadTrigger(text)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    "arguments", [{"commits": "all"}, {"start": "abc123"}, {"interval": 0}, {"interval": float("nan")}]
)
def test_arguments_that_are_not_allowed_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(DagError):
        GitHeadTrigger("/srv/x.git", **arguments)  # type: ignore[arg-type]


def test_redacting() -> None:
    assert redact("fetch https://u:p@h/x and p w", ["w"]) == "fetch https://***@h/x and p ***"
