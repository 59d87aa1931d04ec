"""Where in the user's code something was declared."""

from __future__ import annotations

import sys

PACKAGE = __file__.removesuffix("sdk/where.py")


def here() -> str:
    """The "file:line" of the innermost caller that is not part of Onceflow; "" if there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((PACKAGE, "<")):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def defining_file() -> str:
    """The file whose import is being executed: the innermost module-level frame outside Onceflow.

    A DAG made by a factory in another module belongs to the file that called the factory while it was loaded.
    """
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "<module>" and not code.co_filename.startswith((PACKAGE, "<")):
            return code.co_filename
        frame = frame.f_back
    return ""


def function_place(function: object) -> str:
    """The "file:line" where a function or class was defined; "" if unknown."""
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""
