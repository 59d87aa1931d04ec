"""Connections to git servers: built for one question, bounded in time, closed whatever happens.

The process's git configuration counts (proxies, certificates, `insteadOf`, `core.sshCommand`), and so does git's plain
credential store. Nobody is ever asked anything: ssh runs in batch mode.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

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
from dulwich.errors import GitProtocolError
from dulwich.protocol import Protocol
from urllib3.util import Retry

from onceflow.model.errors import SourceError
from onceflow.sources._git_errors import HttpStatusError
from onceflow.sources._git_repository import Access
from onceflow.sources._git_url import Location, parse

if TYPE_CHECKING:
    from dulwich.client import HTTPResponse

GRACE = 5  # seconds that ssh may take to end when it was told to
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
    if place.kind == "ssh":
        with closing(_ssh(place, access, config, vendor)) as ssh:
            yield ssh, place.path.encode()
    else:
        with closing(_http(place, access, config)) as http:
            yield http, urlsplit(place.url).path.encode()


def _config(access: Access) -> StackedConfig:
    backends = StackedConfig.default_backends()
    if access.ca_file is not None:
        own = ConfigFile()
        own.set((b"http",), b"sslCAInfo", str(Path(access.ca_file).expanduser()).encode())
        backends.insert(0, own)
    return StackedConfig(backends)


def _http(place: Location, access: Access, config: StackedConfig) -> _HttpClient:
    user, password = access.username or place.user, read_token(access) or place.password
    if user is None and password is None:
        scheme = urlsplit(place.url).scheme
        stored = next(get_credentials_from_store(scheme, place.host), None)
        user, password = (unquote(part) for part in stored) if stored else (None, None)
    client = _HttpClient(
        place.url,
        config=config,
        username="git" if user is None and password is not None else user,  # any name will do beside a token
        password=password,
        timeout=access.timeout,
        thin_packs=False,
        quiet=True,
    )
    # The triggerer repeats a failed look, with a back-off; to repeat it here would only multiply the time-out.
    client.pool_manager.connection_pool_kw["retries"] = Retry(None, connect=0, read=0, redirect=5, status=0, other=0)
    return client


def _ssh(place: Location, access: Access, config: StackedConfig, vendor: SshVendor) -> _SshClient:
    return _SshClient(
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


class _HttpClient(HttpGitClient):
    """Closes its connections, also those whose answers the library does not read to the end."""

    def _http_request(
        self,
        url: str,
        headers: dict[str, str] | None = None,
        data: bytes | Iterator[bytes] | None = None,
        raise_for_status: bool = True,
    ) -> tuple[HTTPResponse, Callable[[int], bytes]]:
        response, read = super()._http_request(url, headers, data, raise_for_status=False)
        self._responses = [*getattr(self, "_responses", ()), response]
        if raise_for_status and response.status != 200:
            raise HttpStatusError(response.status)
        return response, read

    def close(self) -> None:
        for response in getattr(self, "_responses", ()):
            response.close()
        self.pool_manager.clear()


class _SshClient(SSHGitClient):
    """Closes its connections, also those that the library leaves open when the other side hangs up at once."""

    def _connect(
        self, cmd: bytes, path: str | bytes, protocol_version: int | None = None
    ) -> tuple[Protocol, Callable[[], bool], IO[bytes] | None]:
        connection = super()._connect(cmd, path, protocol_version)
        self._protocols = [*getattr(self, "_protocols", ()), connection[0]]
        return connection

    def close(self) -> None:
        for protocol in getattr(self, "_protocols", ()):
            protocol.close()


class SshVendor(SSHVendor):
    """Runs the ssh program, and ends it when it takes too long or when nobody waits for its answer any more."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._running: _Connection | None = None
        self._interrupted = False

    def run_command(self, host: str, command: bytes, *unnamed: Any, **options: Any) -> _Connection:
        """Start `command` on the host. Called by dulwich, with user name, port and so on by their names."""
        user = options.get("username")
        target = f"{user}@{host}" if user else host
        if target.startswith("-"):
            raise ValueError(f"{target!r} is no host name")
        program = shlex.split(options.get("ssh_command") or "ssh")
        arguments = [*program, *self._flags(options), target, command.decode("utf-8", "surrogateescape")]
        connection = _Connection(arguments, PATIENCE * self._timeout)
        self._running = connection
        if self._interrupted:
            connection.kill()
        return connection

    def _flags(self, options: Mapping[str, Any]) -> list[str]:
        seconds = max(1, round(self._timeout))
        settings = ["BatchMode=yes", "ControlMaster=no", f"ConnectTimeout={seconds}", f"ServerAliveInterval={seconds}"]
        flags = ["-x"]
        if options.get("port"):
            flags += ["-p", str(options["port"])]
        if options.get("key_filename"):
            flags += ["-i", options["key_filename"]]
            settings.append("IdentitiesOnly=yes")
        settings.append("SetEnv GIT_PROTOCOL=version=2")
        return flags + [part for setting in settings for part in ("-o", setting)]

    def interrupt(self) -> None:
        """Kill what runs, and whatever is started later; from any thread. The one that waits for it gets an error."""
        self._interrupted = True
        if self._running is not None:
            self._running.kill()


class _Connection(SubprocessWrapper):
    """A running ssh, as dulwich talks to it."""

    def __init__(self, arguments: list[str], limit: float) -> None:
        pipe = subprocess.PIPE
        super().__init__(
            subprocess.Popen(arguments, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
        )
        self._alarm = threading.Timer(limit, self.kill)
        self._alarm.name = "onceflow-ssh"
        self._alarm.daemon = True
        self._alarm.start()

    def kill(self) -> None:
        """End the program and what it started, if it still runs."""
        if self.proc.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.proc.pid, signal.SIGKILL)

    def close(self, timeout: int | None = 60) -> None:
        """End it, and leave neither process nor thread nor file behind. May be called again."""
        self._alarm.cancel()
        self._alarm.join()
        with suppress(GitProtocolError):  # it did not end by itself, and was killed
            super().close(GRACE)
