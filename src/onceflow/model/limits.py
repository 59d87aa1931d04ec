"""The sizes that keys, extras and XCom values may have, and the checks that name what is over one.

Apart from `change.py`, which loads OpenSSL for its hashes: a task's guest checks sizes and hashes nothing.
"""

from __future__ import annotations

from onceflow.model.errors import InputError

KEY_LIMIT = 1024
EXTRA_LIMIT = 256 * 1024
XCOM_LIMIT = 1024 * 1024


def check_key(key: str, where: str = "") -> None:
    """Raise InputError unless `key` can identify a change: text of 1 to KEY_LIMIT bytes in UTF-8, no NUL in it."""
    remedy = f"a key is text of 1 to {KEY_LIMIT} bytes in UTF-8; give long ones as a digest"
    if not isinstance(key, str):
        raise InputError(f"the key is a {type(key).__name__}", where=where, remedy=remedy)
    if "\0" in key:
        raise InputError(f"the key {_short(key)} holds a NUL character", where=where, remedy=remedy)
    size = _size(key, where, "key")
    if size == 0:
        raise InputError("the key is empty", where=where, remedy=f"{remedy}; None if there is no key")
    if size > KEY_LIMIT:
        message = f"the key {_short(key)} has {size} bytes, the limit is {KEY_LIMIT}"
        raise InputError(message, where=where, remedy=remedy)


def check_extra(text: str, where: str = "") -> None:
    """Raise InputError if an event's extra, as JSON text, has more than EXTRA_LIMIT bytes."""
    _check_size(text, where, "extra", EXTRA_LIMIT, "store the data elsewhere and send its address")


def check_xcom(text: str, where: str = "") -> None:
    """Raise InputError if an XCom value, as JSON text, has more than XCOM_LIMIT bytes."""
    _check_size(text, where, "XCom value", XCOM_LIMIT, "store the data elsewhere and return its address")


def _check_size(text: str, where: str, what: str, limit: int, remedy: str) -> None:
    size = _size(text, where, what)
    if size > limit:
        raise InputError(f"the {what} has {size} bytes of JSON, the limit is {limit}", where=where, remedy=remedy)


def _size(text: str, where: str, what: str) -> int:
    try:
        return len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        message = f"the {what} is not valid Unicode at character {error.start}"
        raise InputError(message, where=where, remedy="surrogates must come in pairs") from error


def _short(key: str) -> str:
    return repr(key if len(key) <= 40 else key[:37] + "...")
