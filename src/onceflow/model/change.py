"""A change, and what makes two sightings the same one: a key, or a broker's message id, or nothing but the sighting.

One that should have a key and has none is known by its payload until somebody mends it: a key comes from the payload,
so equal payloads would have had equal keys.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass, replace

from onceflow.model.errors import InputError
from onceflow.model.key import Key, read
from onceflow.model.limits import check_key
from onceflow.model.message import MessageId
from onceflow.model.text import flaw_text

# BLAKE2b's "person" separates the families: no key, whatever its text, can equal a message's id or a sighting.
KEY_PERSON = b"onceflow.key"
MESSAGE_PERSON = b"onceflow.message"
SIGHTING_PERSON = b"onceflow.sight"
PAYLOAD_PERSON = b"onceflow.payload"


def key_hash(key: str) -> uuid.UUID:
    """The identity of a change that carries a key: 128 bits of BLAKE2b of its UTF-8 text."""
    return _hash(key.encode(), KEY_PERSON)


def message_hash(message: MessageId) -> uuid.UUID:
    """The identity of a change that only its broker's message id tells from others; an id counts by its text."""
    text = json.dumps([message.source, str(message.epoch), str(message.id)], separators=(",", ":"))
    return _hash(text.encode(), MESSAGE_PERSON)


def sighting_hash(sighting: uuid.UUID) -> uuid.UUID:
    """The identity of a change without a key: it is only ever the same change if it is the same sighting, re-sent."""
    return _hash(sighting.bytes, SIGHTING_PERSON)


def payload_hash(extra: str) -> uuid.UUID:
    """What a change whose payload gives no key is known by: the payload, whatever the order of names in objects."""
    text = json.dumps(json.loads(extra), sort_keys=True, separators=(",", ":"))
    return _hash(text.encode(), PAYLOAD_PERSON)


def _hash(data: bytes, person: bytes) -> uuid.UUID:
    return uuid.UUID(bytes=hashlib.blake2b(data, digest_size=16, person=person).digest())


@dataclass(frozen=True)
class Change:
    """What one sighting reports. `extra` is JSON text; `sighting` stays the same when the report is sent again.

    `message` and `fallback` identify a change that has no key: a broker's id, or the key of the request that told it.
    `flaw`: what is wrong with its payload; its event is quarantined. `keyless`: it should have a key, and has none.
    """

    asset: str
    extra: str
    key: str | None
    sighting: uuid.UUID
    message: MessageId | None = None
    fallback: str | None = None
    flaw: str | None = None
    keyless: bool = False

    @property
    def hash(self) -> uuid.UUID:
        """The identity of the change on its asset."""
        if self.key is not None:
            return key_hash(self.key)
        if self.keyless:
            return payload_hash(self.extra)
        return sighting_hash(self.sighting) if self.message is None else message_hash(self.message)


def identified(change: Change, *declared: Key | None, isolate: bool = False) -> Change:
    """The change with the key it has by the first rule that applies.

    A key it carries; the first key that is declared (the watcher's, then the asset's), read from its payload; its
    message id; the key of the request. Raises InputError when a declared key cannot be had: the payload lacks a field
    (with `isolate` the change is keyless then, with a flaw), or it takes a function, which is called in the process
    that runs DAG code and not here.
    """
    if change.key is not None or change.keyless:
        return change
    key = next((k for k in declared if k is not None), None)
    if key is None:
        return change if change.message is not None else replace(change, key=change.fallback)
    if isolate and (change.flaw is not None or not key.function):
        return _identified_or_isolated(change, key)
    return replace(change, key=_key_of(change, key))


def _identified_or_isolated(change: Change, key: Key) -> Change:
    """A payload that is not as it was told gives no key either."""
    if change.flaw is not None:
        return replace(change, keyless=True)
    try:
        return replace(change, key=_key_of(change, key))
    except InputError as error:
        return replace(change, keyless=True, flaw=flaw_text(f"{error.where}: {error.message}"))


def _key_of(change: Change, key: Key) -> str:
    """The declared key of a payload. Raises InputError."""
    where = f"asset {change.asset!r} with key={key}"
    if key.function:
        raise InputError(
            f"asset {change.asset!r} tells changes apart by the function {key.function}, which is code of {key.file}",
            where=where,
            remedy="give the change its key: --key, the field `key` of a request or line, or the asset object that "
            "has the function as the task's outlet",
        )
    text = read(key, json.loads(change.extra), where)
    check_key(text, where)
    return text
