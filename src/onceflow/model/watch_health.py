"""Whether a watcher does what it is declared for, in a word, and why.

state          health      when
watching       healthy     its last observation is as recent as it promises
               unproven    it promises nothing, and has said nothing since it was claimed
starting       starting    claimed or declared a moment ago, and not heard of yet
failing        red         it failed, was started again, and has not made up for it
backing off    red         it failed and is not tried again yet
storm          red         it told more in a minute than it may, and is stopped until a person releases it
silent         red         no observation for longer than it promises
flawed         red         what it told last is in quarantine, as its asset has something there
late           red         its canary was stored a while ago, and no scheduler has judged it
unowned        red         nobody has run it for longer than the limit: no triggerer is ready
removed        removed     no DAG file declares it any more
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LATE_SECONDS = 15.0
"""How long a canary may wait for the schedulers."""
UNOWNED_SECONDS = 15.0
"""How long a watcher may be declared or given up without being run; a takeover takes less."""


@dataclass(frozen=True)
class Seen:
    """What is known of a watcher.

    active:       a DAG file declares it
    held:         somebody who is ready runs it
    waiting:      it is not tried again yet
    observed:     it was seen to look since it was claimed
    quiet:        seconds since it last looked, or was claimed
    unowned_for:  seconds for which nobody has run it, if nobody does
    silent_after: seconds that it may be quiet; None: it promises nothing
    canary_waits: seconds for which its canary, stored, has not been judged; None: it is, or there is none
    flaw:         what is wrong with what it told last, while something of its assets is in quarantine
    storm:        what it told in the minute that tripped its breaker, and what it may
    """

    active: bool
    held: bool
    waiting: bool
    strikes: int
    observed: bool
    quiet: float
    unowned_for: float
    silent_after: float | None
    error: str = ""
    storm: Mapping[str, int] | None = None
    canary_waits: float | None = None
    flaw: str | None = None


@dataclass(frozen=True)
class Health:
    state: str
    health: str
    reason: str = ""


def judge(seen: Seen) -> Health:
    """The watcher's state and health, and the reason where it is not healthy."""
    if (stopped := _stopped(seen)) is not None:
        return stopped
    if not seen.held:
        return _unowned(seen)
    if seen.strikes:
        return Health("failing", "red", f"failed {_times(seen.strikes)}, and runs again: {seen.error}")
    return _running(seen)


def _running(seen: Seen) -> Health:
    """Of one that is run, and has not failed."""
    if seen.silent_after is not None and seen.quiet > seen.silent_after:
        return Health("silent", "red", f"no observation for {seen.quiet:.0f} s, {seen.silent_after:.0f} s are allowed")
    if seen.canary_waits is not None and seen.canary_waits > LATE_SECONDS:
        return Health("late", "red", f"its canary waits for a scheduler for {seen.canary_waits:.0f} s: is one ready?")
    if seen.flaw is not None:
        return Health("flawed", "red", f"what it told last is in quarantine: {seen.flaw}")
    if seen.observed:
        return Health("watching", "healthy")
    if seen.silent_after is not None:
        return Health("starting", "starting", "no observation yet")
    return Health("watching", "unproven", "its trigger has told nothing, never called observed(), and promises nothing")


def _stopped(seen: Seen) -> Health | None:
    """Of one that nobody is to run just now."""
    if not seen.active:
        return Health("removed", "removed", "no DAG file declares it")
    if seen.storm is not None:
        told, limit = seen.storm["events"], seen.storm["limit"]
        return Health(
            "storm", "red", f"told {told} events in a minute, {limit} are allowed: `onceflow watchers release`"
        )
    if seen.waiting and seen.strikes:
        return Health("backing off", "red", f"failed {_times(seen.strikes)}: {seen.error}")
    return None


def _unowned(seen: Seen) -> Health:
    if seen.waiting:
        return Health("starting", "starting", "its trigger came to its end and is started again")
    if seen.unowned_for <= UNOWNED_SECONDS:
        return Health("starting", "starting", "no triggerer runs it yet")
    return Health("unowned", "red", f"no triggerer has run it for {seen.unowned_for:.0f} s: is one ready?")


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
