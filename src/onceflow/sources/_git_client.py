"""Connections to git servers: built for one question, bounded in time, closed whatever happens.

The process's git configuration counts (proxies, certificates, `insteadOf`, `core.sshCommand`), and so does git's plain
credential store. Nobody is ever asked anything: ssh runs in batch mode.
"""

from __future__ import annotations

import shlex
import subprocess
import tempfile
import threading
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from dulwich.client import (
    GitClient,
    HttpGitClient,
    SSHGitClient,
    SSHVendor,
    SubprocessWrapper,
    apply_instead_of,
    get_credentials_from_store,
)
from dulwich.config import ConfigFile, StackedConfig

from onceflow.model.errors import SourceError
from onceflow.sources._git_repository import Access
from onceflow.sources._git_url import Location, parse

PATIENCE = 10  # an ssh connection as a whole may last this many times the time-out of one answer


def read_token(access: Access) -> str | None:
    """The token in `token_file`, read anew each time so that it may be rotated. Raises SourceError."""
    if access.token_file is None:
        return None
    try:
        return Path(access.token_file).expanduser().read_text(encoding="utf-8").strip()
    except OSError as exc:
        message = f"token_file cannot be read: {exc.strerror}"
        raise SourceError(message, where=access.token_file, code="source_unauthorized") from None


@contextmanager
def connected(location: Location, access: Access, vendor: SshVendor) -> Generator[tuple[GitClient, bytes]]:
    """A client for the location and the path to ask it for; ssh connections are started by `vendor`."""
    config = _config(access)
    rewritten = apply_instead_of(config, location.shown)
    place = location if rewritten == location.shown else parse(rewritten)
    if place.kind == "path":
        raise SourceError("git's insteadOf turns it into a local path", where=location.shown, remedy="name the path")
    try:
        if place.kind == "ssh":
            yield _ssh(place, access, config, vendor), place.path.encode()
        else:
            client = _http(place, access, config)
            try:
                yield client, urlsplit(place.url).path.encode()
            finally:
                client.pool_manager.clear()
    finally:
        vendor.close()


def _config(access: Access) -> StackedConfig:
    backends = StackedConfig.default_backends()
    if access.ca_file is not None:
        own = ConfigFile()
        own.set((b"http",), b"sslCAInfo", str(Path(access.ca_file).expanduser()).encode())
        backends.insert(0, own)
    return StackedConfig(backends)


def _http(place: Location, access: Access, config: StackedConfig) -> HttpGitClient:
    user, password = access.username or place.user, read_token(access) or place.password
    if user is None and password is None:
        scheme = urlsplit(place.url).scheme
        user, password = next(get_credentials_from_store(scheme, place.host), (None, None))
    return HttpGitClient(
        place.url,
        config=config,
        username="git" if user is None and password is not None else user,  # any name will do beside a token
        password=password,
        timeout=access.timeout,
        thin_packs=False,
        quiet=True,
    )


def _ssh(place: Location, access: Access, config: StackedConfig, vendor: SshVendor) -> SSHGitClient:
    return SSHGitClient(
        place.host,
        port=place.port,
        username=place.user or access.username,
        vendor=vendor,
        config=config,
        key_filename=str(Path(access.key_file).expanduser()) if access.key_file else None,
        ssh_command=access.ssh_command,
        thin_packs=False,
        quiet=True,
    )


class SshVendor(SSHVendor):
    """Runs the ssh program, and ends it when it takes too long or when nobody waits for its answer any more."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._connections: list[_Connection] = []

    def run_command(self, host: str, command: bytes, *unnamed: Any, **options: Any) -> _Connection:
        """Start `command` on the host. Called by dulwich, with user name, port and so on by their names."""
        user = options.get("username")
        target = f"{user}@{host}" if user else host
        if target.startswith("-"):
            raise ValueError(f"{target!r} is no host name")
        program = shlex.split(options.get("ssh_command") or "ssh")
        arguments = [*program, *self._flags(options), target, command.decode("utf-8", "surrogateescape")]
        connection = _Connection(arguments, PATIENCE * self._timeout)
        self._connections.append(connection)
        return connection

    def _flags(self, options: Mapping[str, Any]) -> list[str]:
        seconds = max(1, round(self._timeout))
        settings = ["BatchMode=yes", f"ConnectTimeout={seconds}", f"ServerAliveInterval={seconds}"]
        flags = ["-x"]
        if options.get("port"):
            flags += ["-p", str(options["port"])]
        if options.get("key_filename"):
            flags += ["-i", options["key_filename"]]
            settings.append("IdentitiesOnly=yes")
        settings.append("SetEnv GIT_PROTOCOL=version=2")
        return flags + [part for setting in settings for part in ("-o", setting)]

    def interrupt(self) -> None:
        """Kill what runs; from any thread. The one that waits for it gets an error."""
        for connection in list(self._connections):
            connection.kill()

    def close(self) -> None:
        """End all connections and wait for them."""
        while self._connections:
            self._connections.pop().close()


class _Connection(SubprocessWrapper):
    """A running ssh, as dulwich talks to it. What it complains goes to a file, so that it never blocks on that."""

    def __init__(self, arguments: list[str], limit: float) -> None:
        with ExitStack() as stack:
            self._complaints = stack.enter_context(tempfile.TemporaryFile())
            self._process = subprocess.Popen(
                arguments,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                start_new_session=True,
            )
            super().__init__(self._process)
            stack.callback(super().close)
            stack.callback(self.kill)
            self._alarm = threading.Timer(limit, self.kill)
            self._alarm.daemon = True
            self._alarm.start()
            stack.callback(self._alarm.join)
            stack.callback(self._alarm.cancel)
            self._stack = stack.pop_all()

    @property
    def stderr(self) -> IO[bytes]:
        """What ssh said; asked for when it hung up."""
        self._process.wait()
        self._complaints.seek(0)
        return self._complaints

    def kill(self) -> None:
        """End the program, if it still runs."""
        self._process.kill()

    def close(self, timeout: int | None = None) -> None:
        """End it, and leave neither process nor thread nor file behind. May be called again."""
        self._stack.close()
