"""Who creates the embedded PostgreSQL's cluster, its role and database, and writes its settings."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from onceflow.model.errors import ConflictError, UnreachableError, UnsupportedError
from onceflow.runtime.postgres_binaries import ENVIRONMENT, Binaries, Identity
from onceflow.runtime.postgres_place import DATABASE, ROLE, Place, sync_folder, write_private

ACCESS = f"""\
# Written by Onceflow at each start. One role, over the socket, with a password; everything else is refused.
local all {ROLE} scram-sha-256
"""
SETTINGS = """\
# Written by Onceflow at each start; your own settings belong in local.conf beside this file.
max_connections = 200
shared_buffers = 64MB
fsync = on
full_page_writes = on
synchronous_commit = on
wal_level = minimal
max_wal_senders = 0
max_replication_slots = 0
# No background work that we do not use: each idle process costs memory.
max_worker_processes = 1
max_parallel_workers = 0
max_parallel_workers_per_gather = 0
max_parallel_maintenance_workers = 0
max_logical_replication_workers = 0
autovacuum_max_workers = 2
autovacuum_naptime = 15s
jit = off
timezone = 'UTC'
log_timezone = 'UTC'
log_line_prefix = '%m [%p] %a '
log_checkpoints = off
"""
SETTINGS_SINCE = {18: "io_method = sync\n"}  # no I/O worker processes
USER_SETTINGS = "include = 'local.conf'\n"


def write_settings(place: Place, major: int) -> None:
    """Write the server's configuration, as far as this major version knows it."""
    newer = "".join(text for since, text in SETTINGS_SINCE.items() if major >= since)
    users = USER_SETTINGS if place.user_config.exists() else ""
    write_private(place.config, SETTINGS + newer + users)
    write_private(place.access, ACCESS)


def ensure_cluster(place: Place, binaries: Binaries, identity: Identity) -> None:
    """Create the cluster with role and database if there is none; see that this one can be used if there is.

    It is built under another name and renamed when it is complete, so a crash leaves no half of one behind.
    Raises UnsupportedError if the data is of another major version, ConflictError if it is somebody else's.
    """
    for abandoned in place.root.glob("new-*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    if not (place.data / "PG_VERSION").exists():
        _create(place, binaries, identity)
        return
    _check_version(place, binaries)
    _own(place.data, identity)
    if not place.password():
        password = _new_password(place)
        _single_user(binaries, identity, place.data, [f"ALTER ROLE {ROLE} PASSWORD '{password}'"])


def _create(place: Place, binaries: Binaries, identity: Identity) -> None:
    if place.data.is_dir() and any(place.data.iterdir()):
        raise ConflictError(
            "the folder is neither empty nor a PostgreSQL cluster", where=str(place.data), remedy="move it away"
        )
    draft = Path(tempfile.mkdtemp(prefix="new-", dir=place.root))
    os.chown(draft, identity.uid, identity.gid)
    initdb = [
        "-D",
        str(draft),
        "-U",
        "postgres",
        "-A",
        "reject",
        "-E",
        "UTF8",
        "--no-locale",
        "-k",
        "--no-instructions",
    ]
    _run(identity.command(binaries.folder / "initdb", *initdb, end_signal=signal.SIGKILL), "initdb")
    password = _new_password(place)
    statements = [
        f"CREATE ROLE {ROLE} LOGIN CREATEDB PASSWORD '{password}'",
        f"CREATE DATABASE {DATABASE} OWNER {ROLE}",
    ]
    _single_user(binaries, identity, draft, statements)
    draft.rename(place.data)
    sync_folder(place.root)


def _new_password(place: Place) -> str:
    password = os.urandom(24).hex()  # `secrets` would load OpenSSL, 5 MB
    place.keep_password(password)
    return password


def _check_version(place: Place, binaries: Binaries) -> None:
    recorded = (place.data / "PG_VERSION").read_text().strip()
    if recorded != str(binaries.major):
        raise UnsupportedError(
            f"the data was written by PostgreSQL {recorded}, but {binaries.folder} has PostgreSQL {binaries.major}",
            where=str(place.data),
            remedy=f"name a folder with the programs of PostgreSQL {recorded} in ONCEFLOW_PG_BINDIR; to change the "
            "version, dump with the old one's pg_dump, move the data folder away, start, and restore",
        )


def _own(data: Path, identity: Identity) -> None:
    """Let the data belong to the user the server runs as: as root that depends on what the kernel allows today."""
    owner = data.stat().st_uid
    if owner == identity.uid:
        return
    if os.geteuid() != 0 or not _was_made_by_root(data):
        raise ConflictError(
            f"the data belongs to user id {owner}, and we are user id {os.geteuid()}",
            where=str(data),
            remedy=f"start it as user id {owner}, or use another home",
        )
    for folder, _, files in os.walk(data):
        os.chown(folder, identity.uid, identity.gid)
        for name in files:
            os.chown(Path(folder, name), identity.uid, identity.gid, follow_symlinks=False)


def _was_made_by_root(data: Path) -> bool:
    return data.parent.stat().st_uid == 0


def _single_user(binaries: Binaries, identity: Identity, data: Path, statements: list[str]) -> None:
    """Execute statements as the superuser while no server runs: it has no password and so can never log in."""
    settings = ["log_checkpoints=off", "log_statement=none"]
    if binaries.major >= 16:
        settings.append("scram_iterations=1")  # many protect a guessable password; ours is random, and connecting costs
    options = [part for setting in settings for part in ("-c", setting)]
    arguments = ["--single", "-D", str(data), *options, "postgres"]
    command = identity.command(binaries.folder / "postgres", *arguments, end_signal=signal.SIGKILL)
    said = _run(command, "postgres --single", "".join(f"{statement}\n" for statement in statements))
    if any(f" {level}:" in said for level in ("ERROR", "FATAL", "PANIC")):
        raise UnreachableError(f"postgres --single failed: {said.strip()}", where=str(data))


def _run(command: list[str], name: str, text: str = "") -> str:
    """Run one of PostgreSQL's programs to its end; what it said on stderr. Raises UnreachableError if it failed."""
    done = subprocess.run(command, input=text, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnreachableError(f"{name} failed: {done.stderr.strip() or done.stdout.strip()}", where=command[-1])
    return done.stderr
