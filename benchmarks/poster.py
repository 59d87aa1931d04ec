"""Posts events over HTTP, as any program would."""

from __future__ import annotations

import http.client
import json
import time
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.dagfiles import ASSET


class Poster:
    """Posts events of the asset over one connection, from a thread of its own."""

    def __init__(self, home: Path, address: str) -> None:
        token = (home / "token").read_text().strip()
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=10)

    def post(self) -> float:
        """Post one event; the seconds until the answer was read."""
        return self.post_one()[1]

    def post_one(self) -> tuple[int, float]:
        """Post one event: its id, and the seconds until the answer was read."""
        before = time.perf_counter()
        body = json.dumps({"name": ASSET, "extra": {}})
        self._connection.request("POST", "/api/v2/assets/events", body, self._headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"POST answered {answer.status}: {text.decode()}")
        return json.loads(text)["id"], time.perf_counter() - before

    def post_many(self, count: int) -> list[float]:
        """The times of so many; the first, which opens the connection, is not counted."""
        return [self.post() for _ in range(count + 1)][1:]

    def post_for(self, seconds: float) -> list[float]:
        until, times = time.monotonic() + seconds, []
        while time.monotonic() < until:
            times.append(self.post())
        return times
