"""Effects outside, once per run, however many attempts a task takes.

    @task(retries=3)
    def book(order):
        effect = once("book")
        with psycopg.connect(URL) as connection:          # one transaction
            if effect.claim(connection):                  # False: an attempt before this one has done it
                connection.execute("update stock set left = left - 1 where item = %s", [order])

Attempts of a task can overlap: one that is frozen, or cut off from the database, wakes after the next has begun.
So an effect needs somebody who decides whose it is, at the place where it happens:

    effect.claim(connection)      a row in the same transaction of the same PostgreSQL
    effect.put(store, data)       an object that is written only if it is not there
    effect.headers                a service that keeps `Idempotency-Key`s

An effect is known by its name, its task and its run. `effect.id` is the same in every attempt; `effect.fence_token` is
new in each, and `effect.attempt` rises, for those who rather refuse what is older than what they have seen.
"""

from __future__ import annotations

import os
import re
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from onceflow.model.errors import InputError, OnceflowError

if TYPE_CHECKING:
    from onceflow.sdk.taskrun import TaskInstance

NAMESPACE = uuid.UUID("0e1ff1f0-7c1a-5e0b-9a55-0c0f10e0e0ff")
HERE = Path(__file__)
CLAIM = HERE.with_name("once_claim.sql").read_text(encoding="utf-8")
UNDEFINED_TABLE = "42P01"
IDLE = 0  # libpq: connected, and in no transaction
CONFLICTS = 5  # how often a store may say that somebody else is just writing the object


class ObjectStore(Protocol):
    """Where objects are written; `object_store` makes one of a boto3 S3 client or an fsspec file system."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write an object unless there is one; whether it was written. What is there is whole and is never replaced."""
        ...


@dataclass(frozen=True)
class Put:
    """Where an effect's object is, and whether this attempt has written it."""

    path: str
    written: bool


@dataclass(frozen=True)
class Effect:
    """An effect of a task that happens once per run."""

    CREATE_TABLE: ClassVar[str] = HERE.with_name("once_table.sql").read_text(encoding="utf-8")
    """SQL that makes the table `claim` needs, in your database; run it once, with your other migrations."""

    name: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    attempt: int
    fence_token: str

    @property
    def id(self) -> str:
        """A UUID: the same for every attempt of the task in this run, another one for anything else."""
        parts = (self.dag_id, self.run_id, self.task_id, str(self.map_index), self.name)
        return str(uuid.uuid5(NAMESPACE, "\0".join(parts)))

    @property
    def headers(self) -> dict[str, str]:
        """For a request to a service: `Idempotency-Key`, the same in every attempt, and which attempt this is."""
        return {
            "Idempotency-Key": self.id,
            "Onceflow-Fence-Token": self.fence_token,
            "Onceflow-Attempt": str(self.attempt),
        }

    def claim(self, connection: Any) -> bool:
        """Whether the effect is this attempt's to do, in the transaction that the connection is in.

        For psycopg, psycopg2 and other DB-API connections with `%s` parameters. Commit the effect and the claim
        together: if the transaction is rolled back, the claim is gone as well. Waits while another attempt holds it.
        Raises InputError outside of a transaction, or if the table is missing (`Effect.CREATE_TABLE`).
        """
        info = getattr(connection, "info", None)
        idle = getattr(info, "transaction_status", None) == IDLE
        if getattr(connection, "autocommit", False) and idle:
            raise self._no_transaction()
        cursor = connection.cursor()
        try:
            cursor.execute(re.sub(r"\$\d", "%s", CLAIM), self._row(str))
            return cursor.fetchone() is not None
        except Exception as error:
            raise self._explained(error) from error
        finally:
            cursor.close()

    async def claim_async(self, connection: Any) -> bool:
        """`claim` for asyncpg connections, and for those of psycopg's AsyncConnection."""
        if hasattr(connection, "fetchrow"):
            if not connection.is_in_transaction():
                raise self._no_transaction()
            try:
                return await connection.fetchrow(CLAIM, *self._row(uuid.UUID)) is not None
            except Exception as error:
                raise self._explained(error) from error
        if connection.autocommit and connection.info.transaction_status == IDLE:
            raise self._no_transaction()
        try:
            cursor = await connection.execute(re.sub(r"\$\d", "%s", CLAIM), self._row(str))
            return await cursor.fetchone() is not None
        except Exception as error:
            raise self._explained(error) from error

    def put(self, store: Any, data: bytes, *, prefix: str = "", suffix: str = "") -> Put:
        """Write an object at `prefix` + the effect's id + `suffix`, unless an attempt before this one has done so.

        `store` is an ObjectStore, or what `object_store` takes.
        """
        path = f"{prefix}{self.id}{suffix}"
        return Put(path, object_store(store).put_if_absent(path, data))

    def _row(self, as_uuid: Any) -> list[Any]:
        return [
            as_uuid(self.id), self.dag_id, self.run_id, self.task_id, self.map_index, self.name,
            self.attempt, as_uuid(self.fence_token),
        ]  # fmt: skip

    def _no_transaction(self) -> InputError:
        return InputError(
            f"effect {self.name!r} was claimed outside of a transaction",
            where=self.task_id,
            remedy="begin one, claim, do the effect on the same connection, commit: they stand or fall together",
        )

    def _explained(self, error: Exception) -> Exception:
        state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        if state != UNDEFINED_TABLE:
            return error
        remedy = "run the SQL of `onceflow.Effect.CREATE_TABLE` in that database once"
        return InputError("the database has no table onceflow_effect", where=self.task_id, remedy=remedy)


def once(name: str, ti: TaskInstance | None = None) -> Effect:
    """The effect of this name of the task that is running; `ti` if it is not the current one."""
    if ti is None:
        from onceflow.sdk.context import get_current_context

        ti = get_current_context()["ti"]
    if not isinstance(name, str) or not name or "\0" in name:
        raise InputError(f"an effect's name is {name!r}", remedy="give a text; it tells a task's effects apart")
    return Effect(name, ti.dag_id, ti.run_id, ti.task_id, ti.map_index, ti.attempt, ti.fence_token)


def object_store(client: Any, bucket: str = "") -> ObjectStore:
    """An ObjectStore of a boto3 S3 client (with its bucket), of a remote file system of fsspec's, or of a local folder.

    An object that has `put_if_absent` already is taken as it is. Raises InputError for anything else, also for a file
    system that can only look first and write then: between the two another attempt may write.
    """
    if hasattr(client, "put_if_absent"):
        return client
    if isinstance(client, Path):
        return _Folder(client)
    if hasattr(client, "put_object"):
        return _S3(client, bucket)
    if hasattr(client, "pipe_file") and not type(client).pipe_file.__qualname__.startswith("AbstractFileSystem."):
        return _FileSystem(client)
    remedy = "give a boto3 S3 client, a Path, an fsspec file system such as s3fs, or an object with put_if_absent"
    raise InputError(f"{type(client).__name__} has no way to write only what is not there", remedy=remedy)


class _S3:
    """Objects in a bucket, by a conditional write (`If-None-Match: *`)."""

    def __init__(self, client: Any, bucket: str) -> None:
        if not bucket:
            raise InputError("no bucket is named", remedy='object_store(client, "my-bucket")')
        self._client = client
        self._bucket = bucket

    def put_if_absent(self, path: str, data: bytes) -> bool:
        for _ in range(CONFLICTS):
            try:
                self._client.put_object(Bucket=self._bucket, Key=path, Body=data, IfNoneMatch="*")
                return True
            except Exception as error:
                code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
                if code in ("PreconditionFailed", "412"):
                    return False
                if code not in ("ConditionalRequestConflict", "409"):
                    raise
        raise OnceflowError(
            f"another attempt keeps writing {path}", where=self._bucket, remedy="let the task be retried"
        )


class _Folder:
    """Files below a folder; one that is linked into place is whole, and is so only if nothing was there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put_if_absent(self, path: str, data: bytes) -> bool:
        target = self._folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        with draft.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            target.hardlink_to(draft)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True


class _FileSystem:
    """Files of a file system like fsspec's, made only if they are not there."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def put_if_absent(self, path: str, data: bytes) -> bool:
        try:
            self._client.pipe_file(path, data, mode="create")
        except FileExistsError:
            return False
        return True
