"""Where a git repository is, as users write it: a URL, scp's `user@host:path`, or a local path."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from onceflow.model.errors import DagError

SCHEMES = ("https", "http", "ssh", "git+ssh", "file")
_SCP = re.compile(r"^(?:(?P<user>[^@:/\s]+)@)?(?P<host>[^:/@\s]+):(?P<path>[^\s].*)$")
_USERINFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")


@dataclass(frozen=True)
class Location:
    """A repository's place. `shown` is safe to show: it has neither user information of a web URL nor any password."""

    kind: str  # http | ssh | path
    shown: str
    url: str = ""  # http: the URL without credentials
    host: str = ""
    port: int | None = None
    path: str = ""
    user: str | None = None
    password: str | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be shown."""
        given = (self.password, self.user if self.kind == "http" else None)
        return tuple(form for secret in given if secret for form in {secret, quote(secret, safe="")})


def parse(text: str) -> Location:
    """Read a repository's place. Raises DagError, without repeating credentials, for what is none."""
    if "://" not in text:
        scp = _SCP.match(text)
        if scp is None or Path(text).exists():
            return _local(text)
        where = f"{scp['user']}@{scp['host']}" if scp["user"] else scp["host"]
        return Location("ssh", f"{where}:{scp['path']}", host=scp["host"], path=scp["path"], user=scp["user"])
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise DagError("not a URL of a git repository", where=redact(text)) from None
    if parts.scheme not in SCHEMES:
        allowed = ", ".join(SCHEMES)
        raise DagError(f"scheme {parts.scheme!r} is not supported", where=redact(text), remedy=f"one of {allowed}")
    if parts.scheme == "file":
        return _local(unquote(parts.path))
    if not parts.hostname:
        raise DagError("the URL names no host", where=redact(text))
    user = unquote(parts.username) if parts.username else None
    password = unquote(parts.password) if parts.password else None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = f"{host}:{port}" if port else host
    if parts.scheme in ("https", "http"):
        url = urlunsplit((parts.scheme, place, parts.path, "", ""))
        return Location("http", url, url=url, host=parts.hostname, port=port, user=user, password=password)
    if password is not None:
        raise DagError("ssh takes no password from a URL", where=redact(text), remedy="use a key: key_file=…")
    shown = urlunsplit(("ssh", f"{user}@{place}" if user else place, parts.path, "", ""))
    return Location("ssh", shown, host=parts.hostname, port=port, path=unquote(parts.path), user=user)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """The text with credentials in URLs, and the given secrets, replaced by ***."""
    text = _USERINFO.sub("***", text)
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _local(text: str) -> Location:
    path = Path(text).expanduser()
    if not path.is_absolute():
        raise DagError("the path of a repository must be absolute", where=text, remedy="/… or ~/…, or a URL")
    return Location("path", str(path), path=str(path))
