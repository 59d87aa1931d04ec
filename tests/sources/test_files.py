"""What the file source tells, and when."""

from __future__ import annotations

import asyncio
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from onceflow.model.errors import DagError, SourceError
from onceflow.sdk.trigger import Checkpoint
from onceflow.sources._files_memory import WIDTH, Memory, Settling, mark
from onceflow.sources._files_scan import State
from onceflow.sources.files import FileTrigger
from support import eventually
from watch import Watch, keys, watching

OFTEN = 0.05


def names(events: list[Any]) -> list[str]:
    return [Path(event.payload["path"]).name for event in events]


def trigger(path: object, **arguments: Any) -> FileTrigger:
    return FileTrigger(str(path), **{"interval": OFTEN, "settle": 0, **arguments})


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder


async def test_a_file_is_told_with_what_it_is(inbox: Path) -> None:
    async with watching(trigger(inbox)) as watch:
        await watch.quiet(1)
        (inbox / "a.csv").write_bytes(b"12345")
        os.utime(inbox / "a.csv", ns=(0, 1_700_000_000_123_456_789))
        events = await watch.next()
        while events[-1].payload["mtime_ns"] != 1_700_000_000_123_456_789:  # it may have been seen before utime
            events = await watch.next()
    assert events[-1].key == f"{inbox}/a.csv:5:1700000000123456789"
    assert events[-1].payload == {
        "path": f"{inbox}/a.csv",
        "size": 5,
        "mtime": "2023-11-14T22:13:20.123456Z",
        "mtime_ns": 1_700_000_000_123_456_789,
        "removed": False,
    }


async def test_files_that_were_there_before_are_told_only_if_wanted(inbox: Path) -> None:
    (inbox / "old").write_text("x")
    async with watching(trigger(inbox)) as watch:
        await watch.quiet()
    async with watching(trigger(inbox, existing=True)) as watch:
        assert names(await watch.next()) == ["old"]
        await watch.quiet()


async def test_a_file_that_was_there_is_told_when_it_changes(inbox: Path) -> None:
    file = inbox / "daily"
    file.write_text("monday")
    async with watching(trigger(file)) as watch:
        await watch.quiet(1)
        file.write_text("tuesday!")
        assert names(await watch.next()) == ["daily"]
        await watch.quiet()


async def test_a_single_file_may_come_later(inbox: Path) -> None:
    async with watching(trigger(inbox / "flag")) as watch:
        await watch.quiet(1)
        (inbox / "other").write_text("x")
        await watch.quiet(1)
        (inbox / "flag").write_text("x")
        assert names(await watch.next()) == ["flag"]


async def test_patterns_choose_files(inbox: Path) -> None:
    async with watching(trigger(f"{inbox}/**/*.csv")) as watch:
        await watch.quiet(1)
        (inbox / "deep" / "er").mkdir(parents=True)
        (inbox / ".partial.csv").write_text("x")
        (inbox / "a.txt").write_text("x")
        (inbox / "deep" / "er" / "b.csv").write_text("x")
        assert names(await watch.next()) == ["b.csv"]
        (inbox / "a.csv").write_text("x")
        assert names(await watch.next()) == ["a.csv"]
        await watch.quiet()


async def test_a_file_that_is_still_being_written_is_waited_for(inbox: Path) -> None:
    """The clock is the test's: a file counts as finished only when it has not changed for `settle`."""
    now = 100.0
    settling = Settling(1.0)
    growing = {"f": State(1, 1)}
    assert settling.settled(dict(growing), now) == []
    assert settling.settled({"f": State(2, 2)}, now + 0.9) == []
    assert settling.due(now + 1.0) == pytest.approx(0.9)
    assert settling.settled({"f": State(2, 2)}, now + 1.8) == []
    assert settling.settled({"f": State(2, 2)}, now + 1.9) == ["f"]
    assert settling.due(now + 2) is None


async def test_settling_needs_no_further_change_to_end(inbox: Path) -> None:
    async with watching(FileTrigger(str(inbox), interval=3600, settle=0.1)) as watch:
        waiting = asyncio.create_task(watch.next())
        await eventually(lambda: watch.looks >= 1)
        (inbox / "first").write_text("x")

        async def noticed() -> bool:
            (inbox / f"again{random.random()}").touch()  # listening may begin a moment later than looking
            return watch.looks >= 2

        await eventually(noticed, every=0.2)
        assert "first" in names(await waiting)


async def test_a_missing_directory_is_an_error_and_all_that_comes_is_new(tmp_path: Path) -> None:
    """apache/airflow#64617: what cannot be watched says so."""
    inbox = tmp_path / "not" / "yet"
    watch = Watch(trigger(f"{inbox}/"))
    with pytest.raises(SourceError, match=f"{inbox} does not exist.*only {tmp_path} exists") as caught:
        await watch.next()
    assert caught.value.code == "source_not_found"
    cursor = await watch.close()
    assert cursor is not None
    inbox.mkdir(parents=True)
    (inbox / "first").write_text("x")
    async with watching(trigger(f"{inbox}/"), cursor) as watch:
        assert names(await watch.next()) == ["first"]


async def test_a_mount_that_comes_and_goes_is_no_change(inbox: Path) -> None:
    for n in range(3):
        (inbox / f"{n}").write_text("x")
    async with watching(trigger(inbox)) as watch:
        await watch.quiet(2)
        inbox.rename(inbox.parent / "away")
        inbox.mkdir()
        await watch.quiet(2)
        inbox.rmdir()
        (inbox.parent / "away").rename(inbox)
        await watch.quiet(2)


async def test_files_that_went_away_are_told_if_wanted(inbox: Path) -> None:
    (inbox / "old").write_text("x")
    async with watching(trigger(inbox, removed=True)) as watch:
        await watch.quiet(1)
        (inbox / "old").unlink()
        (event,) = await watch.next()
        cursor = await watch.close()  # not committed
    async with watching(trigger(inbox, removed=True), cursor) as watch:
        again = await watch.next()
        assert keys(again) == [event.key]
        assert event.payload["removed"] is True
        assert names(again) == ["old"]
        await watch.quiet()


async def test_by_content_a_touch_and_a_copy_over_are_no_change(inbox: Path) -> None:
    file = inbox / "f"
    file.write_text("one")
    async with watching(trigger(inbox, identity="content")) as watch:
        await watch.quiet(1)
        file.touch()
        await watch.quiet(2)
        draft = inbox / ".draft"
        draft.write_text("two")
        draft.rename(file)
        (event,) = await watch.next()
        assert event.payload["sha256"] == "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3"
        assert str(event.key).endswith("sha256:" + event.payload["sha256"])


async def test_more_files_than_allowed_are_an_error(inbox: Path) -> None:
    for n in range(4):
        (inbox / str(n)).write_text("x")
    with pytest.raises(SourceError, match="more than 3 files") as caught:
        await trigger(inbox, max_files=3).poll(None)
    assert caught.value.code == "source_too_large"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_an_unreadable_directory_is_an_error(inbox: Path) -> None:
    inbox.chmod(0)
    with pytest.raises(SourceError, match="Permission denied"):
        await trigger(inbox).poll(None)
    inbox.chmod(0o700)


async def test_names_of_any_kind_can_be_told_and_stored(inbox: Path) -> None:
    watched = trigger(inbox, removed=True, identity="content")
    cursor = (await watched.poll(None)).cursor
    odd = [b"\xff\xfe", "ü ä\n".encode(), b"x" * 255]
    for name in odd:
        Path(os.fsdecode(os.fsencode(inbox) + b"/" + name)).write_bytes(name)
    polled = await watched.poll(cursor)
    assert len(polled.events) == len(odd)
    json.dumps([polled.cursor, [event.payload for event in polled.events]]).encode()
    assert all(len(str(event.key).encode()) <= 1024 for event in polled.events)
    assert (await trigger(inbox, removed=True, identity="content").poll(polled.cursor)).events == []
    await watched.cleanup()


async def test_a_path_too_long_for_a_key_has_a_key(tmp_path: Path) -> None:
    deep = tmp_path
    while len(str(deep)) < 1500:
        deep = deep / ("d" * 200)
    deep.mkdir(parents=True)
    watched = trigger(deep)
    cursor = (await watched.poll(None)).cursor
    (deep / "f").write_text("x")
    (event,) = (await watched.poll(cursor)).events
    assert str(event.key).startswith("blake2b:")
    assert event.payload["path"] == f"{deep}/f"
    await watched.cleanup()


async def test_symbolic_links_are_followed_and_directories_and_dangling_ones_are_not_files(inbox: Path) -> None:
    watched = trigger(inbox)
    cursor = (await watched.poll(None)).cursor
    (inbox / "folder").mkdir()
    (inbox / "dangling").symlink_to(inbox / "nothing")
    target = inbox.parent / "target"
    target.write_text("x")
    (inbox / "link").symlink_to(target)
    assert names(list((await watched.poll(cursor)).events)) == ["link"]
    await watched.cleanup()


async def test_the_cursor_is_small_and_stands_still_while_nothing_changes(inbox: Path) -> None:
    for n in range(500):
        (inbox / f"{n:03}").write_text("x")
    watched = trigger(inbox)
    first = (await watched.poll(None)).cursor
    assert len(json.dumps(first)) < 500 * (WIDTH + 1)
    assert (await watched.poll(first)).cursor == first
    assert (await trigger(inbox).poll(first)).cursor == first
    await watched.cleanup()


def test_what_went_away_longest_ago_is_forgotten_first() -> None:
    memory = Memory()
    marks = [mark(f"f{n}", "1:1") for n in range(6)]
    for n, one in enumerate(marks):
        memory.learn(f"f{n}", State(1, 1), one)
    kept = Memory.read(memory.write(4, in_use={marks[0]}), with_present=False)
    assert [kept.knows(one) for one in marks] == [True, False, False, True, True, True]


@pytest.mark.parametrize(
    ("path", "arguments"),
    [
        ("relative/*.csv", {}),
        ("/data", {"identity": "name"}),
        ("/data", {"settle": -1}),
        ("/data", {"max_files": 0}),
        ("/data", {"interval": -5}),
    ],
)
def test_arguments_that_are_not_allowed_are_refused(path: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(DagError):
        FileTrigger(path, **arguments)


async def test_the_first_look_stores_a_cursor_even_when_nothing_is_there(inbox: Path) -> None:
    watched = trigger(inbox)
    assert await anext(watched.run().__aiter__()) == Checkpoint({"seen": ""})
    await watched.cleanup()
