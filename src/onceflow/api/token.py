"""The API's token: as set, or kept in HOME/token, which only its owner can read."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from onceflow.config import Settings
from onceflow.model.errors import ConfigError

BYTES = 32


def ensure_token(settings: Settings) -> str:
    """The token that requests must carry; made at first use, by whichever process comes first.

    Raises ConfigError when the file is empty.
    """
    if settings.token:
        return settings.token
    path = settings.home / "token"
    if not path.exists():
        _make(path)
    path.chmod(0o600)
    token = path.read_text().strip()
    if not token:
        raise ConfigError("the file of the API token is empty", where=str(path), remedy="delete it; a new one is made")
    return token


def _make(path: Path) -> None:
    """Write a new token beside its place and link it there, complete or not at all; another process may be first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".token.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(BYTES) + "\n")
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
