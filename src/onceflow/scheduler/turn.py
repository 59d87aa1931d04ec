"""Takes everybody's turn: when there is more than a batch holds, the next batch goes on behind the last one."""

from __future__ import annotations

from collections.abc import Sequence


class Turn:
    """Where to look next among ids; `after` is the last one of the batch before, 0 = from the beginning."""

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self.after = 0

    def over(self, found: Sequence[int]) -> bool:
        """Note what was found behind `after`; True if that is nothing and the round began at the beginning."""
        from_beginning = self.after == 0
        self.after = found[-1] if len(found) == self._batch else 0
        return not found and from_beginning
