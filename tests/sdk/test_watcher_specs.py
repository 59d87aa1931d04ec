"""What a watcher declares: its mode, which changes match, what it promises; and what of the DAG folder is its code."""

from __future__ import annotations

import ast
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from authoring import file_of

from onceflow import Asset, AssetWatcher, BaseEventTrigger, Filter, TriggerEvent
from onceflow.guest.loader import load_file
from onceflow.model.dagspec import WatcherSpec
from onceflow.model.errors import DagError
from onceflow.sdk.code import code_hash, needed
from onceflow.sources.files import FileTrigger
from onceflow.sources.poll import PollTrigger


class Given(BaseEventTrigger):
    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self.arguments = arguments

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.{type(self).__name__}", self.arguments


class Plain(BaseEventTrigger):
    async def run(self) -> AsyncIterator[Any]:
        yield TriggerEvent({})


class Keyed(Given):
    async def run(self) -> AsyncIterator[Any]:
        yield TriggerEvent({}, key="k")


class Unkeyed(Given):
    async def run(self) -> AsyncIterator[Any]:
        yield TriggerEvent({})


class WithCursor(Keyed):
    async def run(self) -> AsyncIterator[Any]:
        yield TriggerEvent({}, key="k", cursor=1)


class SaysNo(WithCursor):
    has_cursor = False


class SaysYes(Unkeyed):
    has_key = True


class Polls(PollTrigger):
    async def poll(self, cursor: Any) -> Any:
        return [TriggerEvent({}, key="k")], cursor


class PollsAnew(Polls):
    has_cursor = False


def spec_of(watcher: AssetWatcher, **asset: Any) -> WatcherSpec:
    [spec] = file_of(assets=[Asset("a", watchers=[watcher], **asset)]).assets
    [found] = spec.watchers
    return found


@pytest.mark.parametrize(
    ("trigger", "asset"),
    [(Keyed(), {}), (Unkeyed(), {"key": "id"}), (SaysYes(), {}), (SaysNo(), {}), (PollsAnew(), {})],
)
def test_what_has_a_key_and_no_cursor_may_be_run_by_all(trigger: Any, asset: dict[str, Any]) -> None:
    assert spec_of(AssetWatcher("w", trigger, mode="all"), **asset).mode == "all"


def test_a_watcher_s_own_key_is_enough_for_all() -> None:
    assert spec_of(AssetWatcher("w", Unkeyed(), mode="all", key="id")).mode == "all"


@pytest.mark.parametrize(
    ("trigger", "words", "remedy"),
    [
        (Unkeyed(), "nothing gives its changes a key", "key="),
        (WithCursor(), "WithCursor stores a cursor", "has_cursor = False"),
        (Polls(), "Polls stores a cursor", 'mode="single"'),
        (FileTrigger("/data/*"), "FileTrigger stores a cursor", 'mode="single"'),
    ],
)
def test_what_all_may_not_run_is_refused_with_the_reason(trigger: Any, words: str, remedy: str) -> None:
    with pytest.raises(DagError, match=words) as refused:
        spec_of(AssetWatcher("w", trigger, mode="all"))
    assert remedy in refused.value.remedy and refused.value.where.partition(":")[0] == __file__


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (None, None),
        ({"region": "eu"}, ["==", "region", "eu"]),
        ({"order.region": ["eu", "uk"]}, ["in", "order.region", ["eu", "uk"]]),
        ({"kind": "order", "paid": True}, ["and", [["==", "kind", "order"], ["==", "paid", True]]]),
        (Filter("total", ">", 10), [">", "total", 10]),
    ],
)
def test_a_match_is_data(given: Any, stored: Any) -> None:
    assert spec_of(AssetWatcher("w", Keyed(), match=given)).match == stored


def test_a_trigger_without_arguments_needs_no_serialize() -> None:
    class WithArguments(Plain):
        def __init__(self, table: str) -> None: ...

    assert spec_of(AssetWatcher("w", Plain(), key="id")).classpath == f"{__name__}.Plain"
    with pytest.raises(DagError, match=r"serialize\(\) of .*WithArguments failed") as refused:
        spec_of(AssetWatcher("w", WithArguments("t"), key="id"))
    assert "package.module.Class" in refused.value.remedy


@pytest.mark.parametrize(
    "wrong",
    [{"match": {}}, {"match": "region"}, {"match": {"a..b": 1}}, {"match": {"a": {"b": 1}}},
     {"match": ~Filter.source("lane", "exists")}, {"mode": "both"},
     {"mode": "all", "keep_cursor": True}, {"key": ""}, {"silent_after": 0}, {"silent_after": "1 h"},
     {"canary": timedelta(0)}, {"canary": True}],
)  # fmt: skip
def test_what_a_watcher_may_not_say_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DagError) as refused:
        AssetWatcher("w", Keyed(), **wrong)
    assert refused.value.remedy and refused.value.where.partition(":")[0] == __file__


def test_a_silence_is_promised_by_the_trigger_or_said() -> None:
    assert spec_of(AssetWatcher("w", Keyed())).silent_after is None
    polls = Polls(interval=30.0, poll_timeout=10.0)
    assert spec_of(AssetWatcher("w", polls)).silent_after == 80.0
    assert spec_of(AssetWatcher("w", polls, silent_after=timedelta(minutes=1))).silent_after == 60.0
    weekdays = Polls(cron="0 9 * * 1-5", poll_timeout=10.0)
    assert spec_of(AssetWatcher("w", weekdays)).silent_after == 2 * 72 * 3600 + 20.0


MODULE = """
import json
from helper import said
LIMIT = 5
LIMITS = {}
LIMITS["x"] = LIMIT

def used(n):
    return n + len(LIMITS)

def unused():
    return said()

class Watches(Base):
    def run(self):
        return used(said())

asset = Asset("a", watchers=[AssetWatcher("w", Watches(path="p"))])
with DAG("d", schedule=asset):
    unused()
"""


def test_a_class_needs_what_it_names_and_what_changes_that() -> None:
    lines = {s.lineno for s in needed(ast.parse(MODULE), "Watches")}
    assert [MODULE.splitlines()[n - 1] for n in sorted(lines)] == [
        "from helper import said",
        "LIMIT = 5",
        "LIMITS = {}",
        'LIMITS["x"] = LIMIT',
        "def used(n):",
        "class Watches(Base):",
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A DAG folder whose modules are forgotten afterwards."""
    before = set(sys.modules)
    path = list(sys.path)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - before:
        del sys.modules[name]


FILE = """
from onceflow import BaseEventTrigger
from code_helper import said
class Watches(BaseEventTrigger):
    def serialize(self): ...
    async def run(self): said()
OTHER = 1
"""


def hash_of(folder: Path, text: str, helper: str, deep: str) -> str:
    (folder / "code_watches.py").write_text(text)
    (folder / "code_helper.py").write_text(helper)
    (folder / "code_deep.py").write_text(deep)
    for name in ("code_watches", "code_helper", "code_deep"):
        sys.modules.pop(name, None)
    loaded = load_file("code_watches.py", folder)
    return code_hash(loaded.module.Watches, folder)


def test_code_changes_with_the_class_and_all_that_it_imports_in_the_folder(folder: Path) -> None:
    helper, deep = "def said():\n    from code_deep import x\n    return x\n", "x = 1\n"
    same = hash_of(folder, FILE, helper, deep)
    assert same == hash_of(folder, FILE.replace("OTHER = 1", "OTHER = 2\n# a comment"), helper, deep)
    assert same == hash_of(folder, "\n\n" + FILE, helper, deep)
    changed = {
        same,
        hash_of(folder, FILE.replace("said()", "said() or 1"), helper, deep),
        hash_of(folder, FILE, helper + "# even a comment, here\n", deep),
        hash_of(folder, FILE, helper, "x = 2\n"),
    }
    assert len(changed) == 4
    assert code_hash(PollTrigger, folder) == ""
