"""Real git repositories and real servers in front of them: git's own http backend, and an ssh server on loopback."""

from __future__ import annotations

import asyncio
import base64
import gzip
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NOBODY = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Bob",
    "GIT_COMMITTER_EMAIL": "bob@example.org",
}


def git(*arguments: str, cwd: Path | str = "/", **env: str) -> str:
    """What a git command prints."""
    done = subprocess.run(
        ["git", *arguments], cwd=cwd, env={**os.environ, **NOBODY, **env}, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@dataclass
class Repo:
    """A bare repository whose commits are made without a work tree."""

    path: Path
    tree: str = ""
    clock: int = 1_700_000_000
    shas: list[str] = field(default_factory=list)

    @classmethod
    def make(cls, path: Path, branch: str = "main") -> Repo:
        git("init", "-q", "--bare", "-b", branch, str(path))
        made = cls(path, git("hash-object", "-w", "-t", "tree", os.devnull, cwd=path))
        made.allow_partial(True)
        return made

    def allow_partial(self, allowed: bool) -> None:
        """Whether a client may ask for commits without their files."""
        git("config", "uploadpack.allowFilter", str(allowed).lower(), cwd=self.path)

    def add_object(self, kind: str, content: bytes) -> str:
        """Store an object, however odd; its sha."""
        return self._with_input(["hash-object", "-w", "--literally", "-t", kind, "--stdin"], content)

    def commit(
        self,
        message: str = "a change",
        *,
        branch: str | None = "main",
        parents: Sequence[str] | None = None,
        at: int = 0,
    ) -> str:
        """Make a commit on top of the branch (or of `parents`), move the branch there (None: no branch); its sha."""
        self.clock += 1
        if parents is None:
            top = self.head(branch or "main")
            parents = [top] if top else []
        time = f"{at or self.clock} +0000"
        sha = git(
            "commit-tree",
            self.tree,
            "-m",
            message,
            *[word for parent in parents for word in ("-p", parent)],
            cwd=self.path,
            GIT_AUTHOR_DATE=time,
            GIT_COMMITTER_DATE=time,
        )
        if branch is not None:
            self.move(sha, branch)
        self.shas.append(sha)
        return sha

    def commit_file(self, name: str, content: bytes, branch: str = "main") -> str:
        """Make a commit whose tree holds one file."""
        blob = self._with_input(["hash-object", "-w", "--stdin"], content)
        self.tree = self._with_input(["mktree"], f"100644 blob {blob}\t{name}\n".encode())
        return self.commit(f"add {name}", branch=branch)

    def move(self, sha: str, branch: str = "main") -> None:
        git("update-ref", f"refs/heads/{branch}", sha, cwd=self.path)

    def delete(self, branch: str) -> None:
        git("update-ref", "-d", f"refs/heads/{branch}", cwd=self.path)

    def head(self, branch: str = "main") -> str:
        return git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}", cwd=self.path)

    def forget_unreachable(self) -> None:
        """Lose every object that no branch reaches."""
        git("gc", "-q", "--prune=now", cwd=self.path)

    def _with_input(self, arguments: list[str], content: bytes) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.path, input=content, check=True, capture_output=True)
        return done.stdout.decode().strip()


@dataclass
class HttpServer:
    """A running server; `requests` counts what it was asked, by path and query."""

    url: str
    requests: list[str]
    sent: list[int]


@contextmanager
def http_git(
    root: Path, *, login: tuple[str, str] | None = None, certificate: Path | None = None
) -> Iterator[HttpServer]:
    """git http-backend over the repositories below `root`, on loopback; a certificate makes it https."""
    requests: list[str] = []
    sent: list[int] = []
    expected = "Basic " + base64.b64encode(":".join(login).encode()).decode() if login else None

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 20

        def do_GET(self) -> None:
            requests.append(self.path)
            if expected is not None and self.headers.get("Authorization") != expected:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            head, body = self._backend()
            status = head.pop("status", "200 OK")
            self.send_response(int(status.split()[0]))
            for name, value in head.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            sent.append(len(body))

        do_POST = do_GET

        def _backend(self) -> tuple[dict[str, str], bytes]:
            path, _, query = self.path.partition("?")
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Content-Encoding") == "gzip":
                content = gzip.decompress(content)
            env = {
                **os.environ,
                **NOBODY,
                "GIT_PROJECT_ROOT": str(root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(content)),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }
            done = subprocess.run(["git", "http-backend"], env=env, input=content, capture_output=True)
            raw, _, body = done.stdout.partition(b"\r\n\r\n")
            lines = [line.split(": ", 1) for line in raw.decode().split("\r\n") if ": " in line]
            return {name.lower(): value for name, value in lines}, body

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    scheme = "https" if certificate else "http"
    try:
        yield HttpServer(f"{scheme}://127.0.0.1:{server.server_address[1]}", requests, sent)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def make_certificate(folder: Path) -> Path:
    """A certificate for 127.0.0.1 that vouches for itself, with its key, in one file."""
    key, certificate, both = folder / "key.pem", folder / "cert.pem", folder / "both.pem"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {key} -out {certificate}"
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    both.write_text(key.read_text() + certificate.read_text())
    return both


@dataclass
class SshServer:
    """A running ssh server, and how to get into it."""

    port: int
    key_file: Path
    ssh_command: str


@asynccontextmanager
async def ssh_git(folder: Path) -> AsyncIterator[SshServer]:
    """An ssh server on loopback that runs what it is asked to, for whoever has the key."""
    import asyncssh

    host_key = asyncssh.generate_private_key("ssh-ed25519")
    user_key = asyncssh.generate_private_key("ssh-ed25519")
    key_file = folder / "id"
    user_key.write_private_key(str(key_file))
    key_file.chmod(0o600)
    authorized = folder / "authorized"
    authorized.write_bytes(user_key.export_public_key())

    async def run(process: Any) -> None:
        pipe = asyncio.subprocess.PIPE
        env = {**os.environ, **NOBODY, **dict(process.env)}
        child = await asyncio.create_subprocess_shell(
            process.command, stdin=pipe, stdout=pipe, stderr=pipe, env=env, start_new_session=True
        )
        with suppress(OSError, asyncssh.Error):
            async with asyncio.TaskGroup() as pumps:
                feeding = pumps.create_task(pump(process.stdin, child.stdin))
                pumps.create_task(pump(child.stdout, process.stdout))
                pumps.create_task(pump(child.stderr, process.stderr))
                status = await child.wait()
                feeding.cancel()
            process.exit(status)

    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[host_key],
        authorized_client_keys=str(authorized),
        process_factory=run,
        encoding=None,
    )
    port = server.get_port()
    known = folder / "known_hosts"
    known.write_bytes(f"[127.0.0.1]:{port} ".encode() + host_key.export_public_key())
    command = f"ssh -F {os.devnull} -o StrictHostKeyChecking=yes -o UserKnownHostsFile={known}"
    try:
        yield SshServer(port, key_file, command)
    finally:
        server.close()
        await server.wait_closed()


async def pump(source: Any, sink: Any) -> None:
    while data := await source.read(65536):
        sink.write(data)
        await sink.drain()
    if isinstance(sink, asyncio.StreamWriter):
        sink.close()


FAKE_SSH = f"""#!{sys.executable}
import os, sys
arguments = sys.argv[1:]
while arguments[0].startswith("-"):
    option = arguments.pop(0)
    if option in ("-o", "-p", "-i"):
        value = arguments.pop(0)
        if value.startswith("SetEnv "):
            name, _, text = value.removeprefix("SetEnv ").partition("=")
            os.environ[name] = text
host, command = arguments
if host == "nowhere":
    sys.exit("ssh: Could not resolve hostname nowhere: Name or service not known")
os.execvp("sh", ["sh", "-c", command])
"""


def fake_ssh(folder: Path, *, old: bool = False) -> str:
    """A program that behaves like ssh to this very machine; an old one does not pass git's protocol version on."""
    program = folder / ("old-ssh" if old else "fake-ssh")
    program.write_text(FAKE_SSH.replace("os.environ[name] = text", "pass") if old else FAKE_SSH)
    program.chmod(0o700)
    return str(program)
