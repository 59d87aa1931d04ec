"""Turns what goes wrong between us and a git repository into errors that say what to do, and never show credentials."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from dulwich.errors import HangupException, NotGitRepository

from onceflow.model.errors import SourceError
from onceflow.sources._git_url import Location, redact

_UNAUTHORIZED = ("permission denied", "authentication failed", "host key verification failed")
_NOT_FOUND = ("not appear to be a git repository", "repository not found", "no such file or directory")


class TooLargeError(Exception):
    """The server sends more than is allowed."""


class HttpStatusError(Exception):
    """A web server answered with an error."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


@contextmanager
def explained(location: Location, secrets: Sequence[str] = ()) -> Generator[None]:
    """Raise whatever fails inside as a SourceError about the location.

    The original error is not chained: its text, and its own causes, may hold credentials.
    """
    try:
        yield
    except (SourceError, TooLargeError):
        raise
    except Exception as exc:
        error = _source_error(exc, location, (*location.secrets, *secrets))
    else:
        return
    raise error from None


def _source_error(exc: Exception, location: Location, secrets: Sequence[str]) -> SourceError:
    text = redact(_text(exc), secrets)
    code = _code(exc, text.lower())
    if code == "source_not_found":
        return SourceError(
            _missing(location),
            where=location.shown,
            remedy=_CREATE[location.kind].format(path=location.path),
            code=code,
        )
    if code == "source_unauthorized":
        message = f"access was refused: {text}" if text else "access was refused"
        return SourceError(message, where=location.shown, remedy=_LOGIN[location.kind], code=code)
    remedy = "if you trust its certificate's issuer: ca_file=…" if "certificate" in text else ""
    return SourceError(text or type(exc).__name__, where=location.shown, remedy=remedy, code=code)


def _code(exc: Exception, text: str) -> str:
    status = exc.status if isinstance(exc, HttpStatusError) else 0
    if isinstance(exc, NotGitRepository) or status in (404, 410):
        return "source_not_found"
    if isinstance(exc, PermissionError) or status in (401, 403, 407):
        return "source_unauthorized"
    if any(sign in text for sign in _UNAUTHORIZED):
        return "source_unauthorized"
    if any(sign in text for sign in _NOT_FOUND) and not isinstance(exc, OSError):
        return "source_not_found"
    return "source_unreachable"


def _text(exc: Exception) -> str:
    if isinstance(exc, HangupException):
        lines = [line.decode("utf-8", "replace").strip() for line in exc.stderr_lines or ()]
        return "; ".join(line for line in lines if line) or "the remote hung up"
    text = str(exc)
    return text.partition("(Caused by ")[2].removesuffix(")") or text


def _missing(location: Location) -> str:
    return "there is no git repository" if location.kind == "path" else "the server shows no repository there"


_CREATE = {
    "path": "create it: git init --bare {path}; it is looked for again by itself",
    "http": "check the URL; servers also answer so when credentials are missing: token_file=…",
    "ssh": "check the path; servers also answer so when the key has no access: key_file=…",
}
_LOGIN = {
    "path": "the process must be allowed to read the repository",
    "http": "give username= and token_file= (a file that holds the token)",
    "ssh": "give key_file=, or let the process's ssh configuration know the key and the host",
}
