"""The API server's process: the web server, which tells its parent the address once it serves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
from collections.abc import Generator, Sequence

import uvicorn

from onceflow.api.app import create_app
from onceflow.api.guard import App
from onceflow.api.token import ensure_token
from onceflow.model.errors import ConfigError
from onceflow.runtime.role import Role, main
from onceflow.runtime.service import Background, Service
from onceflow.store.database import Database

SHUTDOWN_SECONDS = 3


async def build(role: Role) -> Sequence[Service | Background]:
    settings = role.settings
    reads = await Database.connect(
        settings.database_url,
        kind="api-server listings",
        lease_seconds=settings.lease_seconds,
        pooler=settings.database_pooler,
        hot=False,
    )
    app = create_app(role.database, settings, ensure_token(settings), reads=reads, wake=role.wakeups.notify)
    return [WebServer(app, listen(settings.host, settings.port), reads)]


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 is any free one. Raises ConfigError when that cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=512)
        # asyncio does this only for sockets made with IPPROTO_TCP; without it a response waits 40 ms for an ACK
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        raise ConfigError(
            f"cannot serve on {host} port {port}: {error.strerror or error}",
            code="address_unusable",
            where="--port",
            remedy="choose another one; 0 is any free one",
        ) from error


class WebServer(Background):
    """Serves until stopped; then gives requests under way a few seconds."""

    name = "web server"

    def __init__(self, app: App, listening: socket.socket, reads: Database) -> None:
        self._app = app
        self._socket = listening
        self._reads = reads

    async def run(self, stop: asyncio.Event) -> None:
        config = uvicorn.Config(
            self._app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        try:
            await _Server(config, stop, address(self._socket)).serve(sockets=[self._socket])
        finally:
            await self._reads.close()


class _Server(uvicorn.Server):
    """Without signal handlers, which the role has, and without a clock that ticks while nothing happens."""

    def __init__(self, config: uvicorn.Config, stop: asyncio.Event, ready: str) -> None:
        super().__init__(config)
        self._stop = stop
        self._ready = ready

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(json.dumps({"ready": self._ready}), flush=True, file=sys.stdout)

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._stop.wait()


def address(listening: socket.socket) -> str:
    """The URL a client on this machine uses."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


if __name__ == "__main__":
    main("api-server", build)
