"""What moves of a branch mean, on real repositories, whichever way they are reached."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from git_remotes import Repo, git
from onceflow.model.errors import SourceError
from onceflow.sdk.trigger import UNSET
from onceflow.sources._git_history import ROOT
from onceflow.sources.git import GitHeadTrigger
from watch import Watch, keys, watching

Watched = Callable[..., GitHeadTrigger]


async def look(trigger: GitHeadTrigger, cursor: str | None) -> tuple[list[str | None], str]:
    """One look: the keys of what is new, and the cursor after it."""
    events, after = (await trigger.poll(cursor))[:2]
    return keys(list(events)), after


async def test_a_new_watcher_begins_after_the_present_head(watched: Watched, repo: Repo) -> None:
    head = repo.commit()
    assert await look(watched(), None) == ([], head)
    assert await look(watched(), head) == ([], head)


async def test_each_commit_is_told_in_order_with_what_it_is(watched: Watched, repo: Repo) -> None:
    before = repo.commit("before")
    first, second = repo.commit("first\n\nmore"), repo.commit("zweiter: ü")
    events, cursor = (await watched().poll(before))[:2]
    assert keys(list(events)) == [first, second]
    assert cursor == second
    assert [event.cursor for event in events] == [first, second]
    payload = events[1].payload
    assert payload.pop("repo") == watched().location.shown
    assert payload == {
        "branch": "main",
        "sha": second,
        "previous": first,
        "parents": [first],
        "author": "Ada",
        "author_email": "ada@example.org",
        "message": "zweiter: ü\n",
        "authored_at": "2023-11-14T22:13:23Z",
        "committed_at": "2023-11-14T22:13:23Z",
        "forced": False,
    }


async def test_the_commits_of_a_merged_branch_are_new_too(watched: Watched, repo: Repo) -> None:
    base = repo.commit("base")
    side = [repo.commit("side 1", branch="side", parents=[base]), repo.commit("side 2", branch="side")]
    main = repo.commit("main 1")
    merge = repo.commit("merge", parents=[main, side[-1]])
    assert await look(watched(), base) == ([*side, main, merge], merge)
    assert await look(watched(commits="first-parent"), base) == ([main, merge], merge)
    assert await look(watched(commits="newest"), base) == ([merge], merge)
    assert await look(watched(), main) == ([*side, merge], merge)
    assert await look(watched(), side[0]) == ([side[1], main, merge], merge)


async def test_newest_tells_the_head_and_where_it_came_from(watched: Watched, repo: Repo) -> None:
    before = repo.commit()
    repo.commit()
    head = repo.commit()
    (event,), _ = (await watched(commits="newest").poll(before))[:2]
    assert (event.key, event.payload["previous"], event.payload["forced"]) == (head, before, False)


async def test_rewritten_history_tells_the_commits_since_the_merge_base(watched: Watched, repo: Repo) -> None:
    base = repo.commit("base")
    old = repo.commit("old")
    new = [repo.commit("new 1", parents=[base]), repo.commit("new 2")]
    events, cursor = (await watched().poll(old))[:2]
    assert (keys(list(events)), cursor) == (new, new[-1])
    assert [(e.payload["forced"], e.payload["previous"]) for e in events] == [(False, base), (True, old)]
    # Given up half-way it begins with the old cursor again, and so still knows that history was rewritten.
    assert [event.cursor for event in events] == [UNSET, UNSET]


async def test_rewritten_history_without_anything_in_common_tells_only_the_head(watched: Watched, repo: Repo) -> None:
    repo.commit()
    old = repo.commit()
    repo.commit("another beginning", parents=[])
    head = repo.commit()
    events, cursor = (await watched().poll(old))[:2]
    assert keys(list(events)) == [head] == [cursor]
    assert events[0].payload["forced"] is True
    assert events[0].payload["previous"] == old


async def test_an_old_commit_that_the_repository_no_longer_has_leaves_only_the_head(
    watched: Watched, repo: Repo
) -> None:
    base = repo.commit()
    old = repo.commit("old")
    repo.commit("new 1", parents=[base])
    head = repo.commit("new 2")
    repo.forget_unreachable()
    events, cursor = (await watched().poll(old))[:2]
    assert keys(list(events)) == [head] == [cursor]
    assert events[0].payload["forced"] is True


async def test_set_back_to_an_older_commit_nothing_is_new(watched: Watched, repo: Repo) -> None:
    older = repo.commit()
    newer = repo.commit()
    repo.move(older)
    assert await look(watched(), newer) == ([], older)
    fix = repo.commit("instead")
    assert await look(watched(), older) == ([fix], fix)


async def test_a_repository_without_commits_is_waited_for(watched: Watched, repo: Repo) -> None:
    assert await look(watched(), None) == ([], ROOT)
    assert await look(watched(), ROOT) == ([], ROOT)
    first, second = repo.commit(), repo.commit()
    assert await look(watched(), ROOT) == ([first, second], second)


async def test_a_missing_branch_is_an_error_that_names_those_there_are(watched: Watched, repo: Repo) -> None:
    repo.commit(branch="develop")
    repo.commit(branch="feature/a")
    with pytest.raises(SourceError, match=r"no branch 'main'.*develop, feature/a") as caught:
        await watched().poll(None)
    assert caught.value.code == "source_not_found"
    here = repo.commit(branch="main")
    assert await look(watched(), None) == ([], here)


async def test_a_deleted_branch_keeps_its_cursor_and_comes_back(watched: Watched, repo: Repo) -> None:
    repo.commit(branch="other")
    before = repo.commit()
    repo.delete("main")
    with pytest.raises(SourceError, match="no branch 'main'"):
        await watched().poll(before)
    after = repo.commit(parents=[before])
    assert await look(watched(), before) == ([after], after)


async def test_without_a_branch_the_repositorys_own_is_watched(watched: Watched, repo: Repo) -> None:
    git("symbolic-ref", "HEAD", "refs/heads/trunk", cwd=repo.path)
    before = repo.commit(branch="trunk")
    after = repo.commit(branch="trunk")
    events, _ = (await watched(branch=None).poll(before))[:2]
    assert [(event.key, event.payload["branch"]) for event in events] == [(after, "trunk")]
    git("symbolic-ref", "HEAD", "refs/heads/gone", cwd=repo.path)
    with pytest.raises(SourceError, match="branches: trunk"):
        await watched(branch=None).poll(before)


async def test_a_branch_may_have_a_path_and_a_reference_any_name(watched: Watched, repo: Repo) -> None:
    before = repo.commit(branch="team/x")
    after = repo.commit(branch="team/x")
    assert await look(watched(branch="team/x"), before) == ([after], after)
    git("tag", "-a", "-m", "a tag", "v1", after, cwd=repo.path, GIT_DIR=str(repo.path))
    assert await look(watched(branch="refs/tags/v1"), before) == ([after], after)


async def test_where_a_new_watcher_begins_can_be_said(watched: Watched, repo: Repo) -> None:
    first, second, third = repo.commit(), repo.commit(), repo.commit()
    assert await look(watched(start="root"), None) == ([first, second, third], third)
    assert await look(watched(start="newest"), None) == ([third], third)
    assert await look(watched(start=first), None) == ([second, third], third)
    assert await look(watched(start=third), None) == ([], third)
    with pytest.raises(SourceError, match=r"start=1{40} is not in the history of main"):
        await watched(start="1" * 40).poll(None)
    assert await look(watched(start="root"), second) == ([third], third)


async def test_many_commits_are_told_in_lists_with_cursors_of_their_own(
    watched: Watched, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GitHeadTrigger, "batch", 3)
    made = [repo.commit() for _ in range(7)]
    async with watching(watched(start="root")) as watch:
        found = []
        for size in (3, 3):
            events = await watch.next()
            assert len(events) == size
            found += keys(events)
        cursor = await watch.close()
    assert cursor == made[2]  # the second list was not committed
    rest = Watch(watched(start="root"), cursor)
    assert keys(await rest.events(4)) == made[3:]
    await rest.close()


async def test_commits_with_odd_content_are_told(watched: Watched, repo: Repo) -> None:
    before = repo.commit()
    raw = f"tree {repo.tree}\nparent {before}\nauthor nobody <> 99999999999999 +0000\n".encode()
    raw += b"committer J\xfcrgen <j@x> 1700000900 +0000\nencoding ISO-8859-1\n\nGr\xfc\xdfe\x01"
    odd = repo.add_object("commit", raw)
    repo.move(odd)
    events, _ = (await watched().poll(before))[:2]
    assert [(e.key, e.payload["message"], e.payload["author"]) for e in events] == [(odd, "Grüße\x01", "nobody")]
    assert events[0].payload["authored_at"] is None


async def test_a_very_long_message_is_shortened(watched: Watched, repo: Repo) -> None:
    before = repo.commit()
    raw = f"tree {repo.tree}\nparent {before}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\n".encode()
    repo.move(repo.add_object("commit", raw + b"x" * 300_000))
    (event,), _ = (await watched().poll(before))[:2]
    assert len(event.payload["message"]) == 65_536
