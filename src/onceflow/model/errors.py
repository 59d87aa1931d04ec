"""The one error tree of Onceflow.

    OnceflowError                 code, message, where, remedy
    ├── ConfigError               a setting is unknown or has a value that is not allowed     (CLI exit 2)
    ├── DagError                  a DAG file, or what it declares, is wrong                   (shown as import error)
    ├── InputError                a request's or command's argument is wrong                  (HTTP 400/422, exit 2)
    ├── NotFoundError             what was named does not exist                               (HTTP 404, exit 1)
    ├── ConflictError             it exists already, or its state does not allow the request  (HTTP 409, exit 1)
    ├── UnreachableError          the database or the server does not answer                  (HTTP 503, exit 3)
    ├── UnsupportedError          platform or PostgreSQL version is not supported             (exit 1)
    ├── FencedError               the writer no longer owns what it writes; it must stop
    ├── StaleError                what was decided is based on rows that have changed since; decide again
    ├── GuestError                a child process that runs user code failed
    └── SourceError               what a trigger watches cannot be read just now              (shown at the watcher)

`where` is a file and line, a setting's name, a command's argument: the place to look. `remedy` says what is allowed or
what to do. Both are shown to the user by every surface (CLI, API, import errors).
"""

from __future__ import annotations


class OnceflowError(Exception):
    """An error that explains itself: what was wrong, where, and what to do about it."""

    code = "onceflow_error"

    def __init__(self, message: str, *, where: str = "", remedy: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.remedy = remedy
        if code:
            self.code = code

    def __str__(self) -> str:
        head = f"{self.where}: {self.message}" if self.where else self.message
        return f"{head} ({self.remedy})" if self.remedy else head

    def as_dict(self) -> dict[str, str]:
        """The error as the JSON object that CLI and API show: code, message, where, remedy."""
        return {"code": self.code, "message": self.message, "where": self.where, "remedy": self.remedy}


class ConfigError(OnceflowError):
    code = "bad_setting"


class DagError(OnceflowError):
    code = "bad_dag"


class InputError(OnceflowError):
    code = "bad_input"


class NotFoundError(OnceflowError):
    code = "not_found"


class ConflictError(OnceflowError):
    code = "conflict"


class UnreachableError(OnceflowError):
    code = "unreachable"


class UnsupportedError(OnceflowError):
    code = "unsupported"


class FencedError(OnceflowError):
    code = "fenced"


class StaleError(OnceflowError):
    code = "stale"


class GuestError(OnceflowError):
    code = "guest_failed"


class SourceError(OnceflowError):
    """codes: source_unreachable, source_not_found, source_unauthorized, source_too_large"""

    code = "source_unreachable"
