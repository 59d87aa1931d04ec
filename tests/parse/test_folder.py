"""What is in a DAG folder besides sound files: it is told, and hides nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onceflow.parse import folder as module
from onceflow.parse.folder import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "sound.py").write_text("import other\n")
    return Folder(tmp_path)


def problems(folder: Folder) -> dict[str, str]:
    folder.look()
    assert not folder.seen["sound.py"].problem
    return {path: stamp.problem for path, stamp in folder.seen.items() if path != "sound.py"}


def test_a_link_to_itself(folder: Folder) -> None:
    (folder.root / "loop.py").symlink_to("loop.py")
    assert "symbolic links" in problems(folder)["loop.py"]


def test_a_pipe_that_nobody_writes_to(folder: Folder) -> None:
    os.mkfifo(folder.root / "pipe.py")
    assert problems(folder) == {"pipe.py": "it is no regular file"}
    assert folder.users_of(["other.py"]) == {"sound.py"}, "looking for imports does not wait for the pipe either"


def test_a_name_that_is_no_text(folder: Folder) -> None:
    for name in (b"b\xff.py", b"d\xfe/x.py"):
        path = Path(os.fsdecode(os.fsencode(folder.root) + b"/" + name))
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    assert set(problems(folder)) == {r"b\udcff.py", r"d\udcfe/x.py"}


def test_a_file_that_is_too_large(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 100)
    (folder.root / "large.py").write_bytes(bytes(101))
    assert problems(folder) == {"large.py": "it has 101 bytes, the limit is 100"}


def test_a_file_that_may_not_be_read_is_looked_at_again(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = folder.root / "locked.py", Path.read_bytes

    def refuse(self: Path) -> bytes:
        if self == path:
            raise PermissionError(13, "Permission denied")
        return read(self)

    path.write_text("")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", refuse)
        assert problems(folder) == {"locked.py": "Permission denied"}
    assert problems(folder) == {"locked.py": ""}


def test_a_dangling_link_and_a_folder_named_like_a_file_are_nothing(folder: Folder) -> None:
    (folder.root / "dangling.py").symlink_to("nowhere")
    (folder.root / "folder.py").mkdir()
    assert problems(folder) == {}


def test_a_folder_that_may_not_be_read_hides_its_files(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = folder.root / "team"
    inside.mkdir()
    scan = os.scandir

    def refuse(path: str) -> object:
        if Path(path) == inside:
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    folder.look()
    assert folder.hides("team/a.py")
    assert not folder.hides("teams.py")


def test_no_folder_at_all(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Folder(tmp_path / "gone").look()


def test_users_of_modules(folder: Folder) -> None:
    (folder.root / "package").mkdir()
    (folder.root / "package" / "__init__.py").write_text("")
    (folder.root / "a.py").write_text("x = 1\n    from package import y\n")
    (folder.root / "b.py").write_text("# import package\nother = 'import sound'\n")
    folder.look()
    assert folder.users_of(["package/__init__.py", "other.py"]) == {"a.py", "sound.py"}
    assert folder.users_of(["sound.py"]) == set()
