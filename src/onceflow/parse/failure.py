"""What went wrong while a DAG file was loaded, as a ParseFailure: what, where in the user's files, what to do."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from onceflow.model.dagspec import ParseFailure
from onceflow.model.errors import OnceflowError
from onceflow.model.text import message_of, shortened, storable
from onceflow.sdk.where import PACKAGE

FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def failure_of(error: BaseException, path: str, folder: Path, digest: str) -> ParseFailure:
    """The failure for an exception that the file raised."""
    trace = _user_trace(error)
    if isinstance(error, OnceflowError):
        where = _relative(error.where, folder) or _place(error, path, folder)
        return ParseFailure(
            path,
            digest,
            error.code,
            storable(_relative(shortened(error.message), folder)),
            where,
            storable(_relative(error.remedy, folder)),
            trace,
        )
    if isinstance(error, SyntaxError):
        where = f"{_relative(error.filename or path, folder)}:{error.lineno or 1}"
        message = storable(f"{type(error).__name__}: {error.msg}")
        return ParseFailure(path, digest, "syntax_error", message, where, "", trace)
    code = "import_error" if isinstance(error, ImportError) else "raised"
    message = message_of(error) if code == "import_error" else f"{type(error).__name__}: {message_of(error)}"
    return ParseFailure(path, digest, code, message, _place(error, path, folder), "", trace)


def last_line_in(printed: str, path: str, folder: Path) -> str:
    """The innermost "file:line" of a dumped stack that lies in the DAG folder; the file alone if there is none."""
    inside = f"{folder.absolute()}/"
    for file, line in FRAME.findall(printed):
        if file.startswith(inside):
            return f"{file.removeprefix(inside)}:{line}"
    return path


def _place(error: BaseException, path: str, folder: Path) -> str:
    """The innermost "file:line" of the exception's stack in the DAG folder."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if f.filename.startswith(f"{folder}/")]
    return f"{_relative(inside[-1].filename, folder)}:{inside[-1].lineno}" if inside else path


def _relative(text: str, folder: Path) -> str:
    return text.replace(f"{folder}/", "")


def _user_trace(error: BaseException) -> str:
    """The traceback without Onceflow's own frames at its beginning."""
    place = error.__traceback__
    while place is not None and place.tb_frame.f_code.co_filename.startswith(PACKAGE):
        place = place.tb_next
    return storable(shortened("".join(traceback.format_exception(type(error), error, place))))
