"""Who may run the embedded PostgreSQL: root, root in a container, ordinary users with and without an account."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from embedded import BINDIR, mode, owner, report, rows, write_row

from onceflow.model.errors import ConflictError
from onceflow.runtime.postgres import EmbeddedPostgres
from support import SOURCE, alive, eventually

# What plain Docker does to root: no user namespaces, and only these capabilities.
AS_IN_DOCKER = """
import ctypes, platform, struct
libc = ctypes.CDLL(None, use_errno=True)
unshare = {"x86_64": 272, "aarch64": 97}[platform.machine()]
filters = [(0x20, 0, 0, 0), (0x15, 0, 1, unshare), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in filters))
program = struct.pack("HxxxxxxP", len(filters), ctypes.addressof(code))
for capability in set(range(41)) - {0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}:
    libc.prctl(24, capability, 0, 0, 0)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def interpreter_for(uid: int) -> str:
    """A Python that this user can run, with our source."""
    for program in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            command = [program, "-c", "import onceflow.runtime.postgres"]
            done = subprocess.run(command, user=uid, group=uid, env={"PYTHONPATH": str(SOURCE)}, capture_output=True)
        except OSError:
            continue
        if done.returncode == 0:
            return program
    pytest.skip(f"user id {uid} can run no Python >= 3.11 here")


@needs_root
@pytest.mark.parametrize("uid", [1, 4242], ids=["with an account", "without an account"])
async def test_an_ordinary_user(open_folder: Path, uid: int) -> None:
    os.chown(open_folder, uid, uid)
    home = open_folder / "home"
    options = {"executable": interpreter_for(uid), "user": uid, "group": uid, "extra_groups": []}
    with owner(home, **options) as process:
        started = report(process)
        assert "url" in started, started
        await write_row(started["url"])
        assert Path(f"/proc/{started['pid']}").stat().st_uid == uid
        process.kill()
        await eventually(lambda: not alive(started["pid"]))
    with owner(home, **options) as process:
        assert await rows(report(process)["url"]) == 1
        process.communicate()
    assert {path.stat().st_uid for path in home.rglob("*")} == {uid}
    with pytest.raises(ConflictError, match=f"belongs to user id {uid}"):
        EmbeddedPostgres(home, BINDIR).start()
    assert {path.stat().st_uid for path in home.rglob("*")} == {uid}


@needs_root
async def test_roots_home_is_refused_to_an_ordinary_user(home: Path, open_folder: Path) -> None:
    home.rename(open_folder / "home")
    uid = 1
    with owner(open_folder / "home", executable=interpreter_for(uid), user=uid, group=uid) as process:
        answer = report(process)
    assert answer["error"] == "ConflictError"
    assert f"cannot be used by user id {uid}" in answer["text"]


@needs_root
async def test_root_uses_a_user_namespace_and_keeps_its_files(home: Path) -> None:
    with EmbeddedPostgres(home, BINDIR) as server:
        assert Path(f"/proc/{server.pid}").stat().st_uid == 0
        assert Path(f"/proc/{server.pid}/ns/user").readlink() != Path("/proc/self/ns/user").readlink()
    assert {path.stat().st_uid for path in home.rglob("*")} == {0}


@needs_root
async def test_root_where_user_namespaces_are_forbidden(tmp_path: Path) -> None:
    """As in a plain container: the server becomes `nobody`, also below a private folder; the way back works too."""
    home = tmp_path / "private/home"
    home.parent.mkdir(mode=0o700)
    with owner(home, before=AS_IN_DOCKER) as process:
        started = report(process)
        assert "url" in started, started
        await write_row(started["url"])
        assert Path(f"/proc/{started['pid']}").stat().st_uid == 65534
        process.kill()
        await eventually(lambda: not alive(started["pid"]))
    assert "interrupted" not in (home / "logs/postgres.log").read_text()
    with owner(home, before=AS_IN_DOCKER) as process:
        assert await rows(report(process)["url"]) == 1
        process.communicate()
    with EmbeddedPostgres(home, BINDIR) as server:
        assert await rows(server.url) == 1
        assert Path(f"/proc/{server.pid}").stat().st_uid == 0
    assert {path.stat().st_uid for path in home.rglob("*")} == {0}
    assert mode(home.parent) == 0o700
