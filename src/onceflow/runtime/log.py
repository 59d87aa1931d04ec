"""Our own logs: JSON lines, or a readable form on a terminal, on stderr."""

from __future__ import annotations

import importlib
import logging
import sys
from typing import Any

from onceflow.config import Settings


def _import_structlog() -> Any:
    """structlog without rich, which it would import for tracebacks in colour: 3 MiB and 50 ms in every process."""
    hidden = "rich" not in sys.modules
    if hidden:
        modules: dict[str, Any] = sys.modules
        modules["rich"] = None
    try:
        return importlib.import_module("structlog")
    finally:
        if hidden:
            del sys.modules["rich"]


structlog: Any = _import_structlog()


def get_logger(name: str) -> Any:
    """A logger; its methods take what happened and the facts: `log.warning("watcher failed", asset=…)`."""
    return structlog.get_logger(name)


def configure(settings: Settings, **context: Any) -> None:
    """Set up logging for this process; `context` (role, process id) is on every line."""
    text = settings.log_format == "text" or (settings.log_format == "auto" and sys.stderr.isatty())
    renderer: Any = structlog.dev.ConsoleRenderer() if text else structlog.processors.JSONRenderer()
    processors: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if not text:
        processors.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, settings.log_level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.getLogger("asyncpg").setLevel(logging.CRITICAL)  # a lost connection is told by whoever wanted it
    structlog.contextvars.bind_contextvars(**context)
