"""Which files a dag-processor loads, in which order, and what becomes of those that cannot be registered."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from onceflow.config import Settings
from onceflow.model.dagspec import AssetSpec, FileSpec, ParseFailure
from onceflow.parse.child import ParseGuest
from onceflow.parse.folder import digest
from onceflow.parse.process_files import LOOK_AFTER, ProcessFiles
from onceflow.runtime.role import Role
from onceflow.runtime.wakeups import Wakeups
from onceflow.store import files
from onceflow.store.database import Database


class Loader(ParseGuest):
    """Instead of a guest process: files declare an asset each, named by their content."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.folder = settings.dags_folder
        self.loaded: list[str] = []
        self.meanwhile: Callable[[str], None] = lambda _: None

    async def load(self, path: str) -> FileSpec | ParseFailure:
        self.loaded.append(path)
        self.meanwhile(path)
        content = (self.folder / path).read_bytes()
        return FileSpec(path, digest(content), assets=(AssetSpec(content.decode()),))


class Folder:
    """A DAG folder with its dag-processor."""

    def __init__(self, database: Database, path: Path) -> None:
        settings = Settings(database_url=database.url, home=path, dags=path / "dags")
        settings.dags_folder.mkdir()
        self.database = database
        self.path = settings.dags_folder
        self.loader = Loader(settings)
        self.wakeups = Wakeups()
        self.service = ProcessFiles(Role("dag-processor", uuid.uuid4(), settings, database, self.wakeups), self.loader)

    def write(self, name: str, text: str, age: float = 0.0) -> None:
        (self.path / name).write_text(text)
        saved = (self.path / name).stat().st_mtime - age
        os.utime(self.path / name, (saved, saved))

    async def failures(self) -> dict[str, str]:
        known = await files.known(self.database)
        return {path: file.failure["message"] for path, file in known.items() if file.failure}

    async def hash_of(self, name: str) -> str:
        return (await files.known(self.database))[name].source_hash


@pytest.fixture
def folder(database: Database, tmp_path: Path) -> Folder:
    return Folder(database, tmp_path)


async def test_who_saves_a_file_does_not_wait_for_all_others(folder: Folder) -> None:
    for n in range(3 * LOOK_AFTER):
        folder.write(f"f{n}.py", f"asset {n}", age=n)
    folder.loader.meanwhile = lambda path: folder.write("mine.py", "mine") if path == "f2.py" else None
    await folder.service.run_once()
    names = [f"f{n}.py" for n in range(3 * LOOK_AFTER)]
    assert folder.loader.loaded == [*names[:LOOK_AFTER], "mine.py", *names[LOOK_AFTER:]]
    assert await folder.hash_of("mine.py") == digest(b"mine")


async def test_a_file_that_is_edited_while_it_is_loaded(folder: Folder) -> None:
    folder.write("a.py", "old")
    folder.loader.meanwhile = lambda _: folder.write("a.py", "new")
    await folder.service.run_once()
    folder.loader.meanwhile = lambda _: None
    async with folder.database._acquire() as raw:
        assert await raw.fetch("select * from source") == [], "the old text is never kept as the new one's"
        await folder.service.run_once()
        assert [(r["hash"], r["content"]) for r in await raw.fetch("select * from source")] == [
            (digest(b"new"), b"new")
        ]


async def test_what_the_database_refuses_is_told_and_harms_no_other(folder: Folder) -> None:
    folder.write("a.py", "x" * 2000)
    folder.write("b.py", "fine", age=5)
    await folder.service.run_once()
    assert "the database refuses what the file declares" in (await folder.failures())["a.py"]
    assert await folder.hash_of("b.py") == digest(b"fine")
    await folder.service.run_once()
    assert folder.loader.loaded == ["a.py", "b.py"], "neither is loaded again"


async def test_a_fault_with_one_file_harms_no_other(folder: Folder) -> None:
    def fail(path: str) -> None:
        if path == "a.py":
            raise RuntimeError("a fault of ours")

    folder.write("a.py", "one")
    folder.write("b.py", "two", age=5)
    folder.loader.meanwhile = fail
    await folder.service.run_once()
    assert await folder.hash_of("b.py") == digest(b"two")
    folder.loader.meanwhile = lambda _: None
    await folder.service.run_once()
    assert await folder.hash_of("a.py") == digest(b"one")


async def test_a_folder_that_vanishes_takes_no_dag_with_it(folder: Folder) -> None:
    """A mount that is late or lost is no removal of all files."""
    folder.write("a.py", "one")
    await folder.service.run_once()
    folder.path.rename(folder.path.with_name("elsewhere"))
    await folder.service.run_once()
    assert (await files.known(folder.database))["a.py"].present
