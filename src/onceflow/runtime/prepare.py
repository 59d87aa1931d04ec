"""Brings the database's schema up to date: a short-lived process, so that the parent need no driver itself.

Reads {"settings": …} from standard input.
"""

from __future__ import annotations

import asyncio
import json
import sys

from onceflow.config import from_values
from onceflow.model.errors import OnceflowError, UnreachableError
from onceflow.store.migrate import migrate


def main() -> None:
    settings = from_values(json.loads(sys.stdin.read())["settings"])
    try:
        asyncio.run(migrate(settings.database_url))
    except OnceflowError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(3 if isinstance(error, UnreachableError) else 1)


if __name__ == "__main__":
    main()
