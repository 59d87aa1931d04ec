"""The worker's guest side: templates that stay warm, and the process of one attempt. Only here tasks' code runs.

`python -m onceflow.worker.guest FD` is the base template: it has imported the SDK, and on request forks a file
template, which loads one DAG file and on request forks the guest of an attempt. `… guest fresh FD` runs one attempt in
a fresh interpreter. Templates are single-threaded and wait in `select`, so that a fork copies a process at rest.
"""

from __future__ import annotations

import gc
import io
import json
import logging
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from onceflow.guest import channel, lifeline, orders
from onceflow.guest.loader import LoadedFile, load_file, prepare
from onceflow.sdk.dag import DAG
from onceflow.sdk.operators import PythonOperator
from onceflow.sdk.runtime import Result, describe, execute, learn

Message = dict[str, Any]
PRACTICE = 20
LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND
PIDFD = hasattr(os, "pidfd_open")  # tells of a child's end without a signal; else we look now and then
LOOK_MS = 10


class Template:
    """Receives orders on a socket, forks for each, and tells which of its children have ended.

    Its loop touches as little memory as it can: every page it writes to is copied again after each fork.
    """

    def __init__(self, control: socket.socket, fork_for: Callable[[Message, int], None]) -> None:
        self._control = control
        self._fork_for = fork_for
        self._children: dict[int, int] = {}  # pid: number
        self._ends: dict[int, int] = {}  # descriptor that tells of its end: pid
        self._poll = select.poll()
        self._poll.register(control.fileno(), select.POLLIN)

    def serve(self) -> NoReturn:
        control, poll = self._control.fileno(), self._poll.poll
        while True:
            for ready, _ in poll(LOOK_MS if self._children and not self._ends else None):
                if ready == control:
                    self._obey()
                else:
                    self._reap(ready)
            if not self._ends:
                self._reap_any()

    def _obey(self) -> None:
        try:
            number, signum, body, descriptor = orders.receive(self._control)
        except (EOFError, ConnectionError):
            os._exit(0)
        if signum:
            self._signal(number, signum)
            return
        parent = os.getpid()
        pid = os.fork()
        if pid:
            os.close(descriptor)
            self._children[pid] = number
            if PIDFD:
                end = os.pidfd_open(pid)
                self._ends[end] = pid
                self._poll.register(end, select.POLLIN)
            return
        try:
            lifeline.die_with_parent(parent)
            for inherited in (self._control.detach(), *self._ends):
                os.close(inherited)
            self._fork_for(orders.unpack(body), descriptor)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(70)

    def _signal(self, number: int, signum: int) -> None:
        for pid, child in self._children.items():
            if child == number:
                try:
                    os.killpg(pid, signum)
                except ProcessLookupError:
                    os.kill(pid, signum)  # it has no session of its own yet

    def _reap(self, end: int) -> None:
        self._poll.unregister(end)
        os.close(end)
        pid = self._ends.pop(end)
        _kill_group(pid)  # what it left behind; it is a zombie, so its number is still its own
        self._tell(pid, os.waitpid(pid, 0)[1])

    def _reap_any(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            _kill_group(pid)
            self._tell(pid, status)

    def _tell(self, pid: int, status: int) -> None:
        body = b'{"ended":%d,"status":%d}' % (self._children.pop(pid), os.waitstatus_to_exitcode(status))
        self._control.sendall(len(body).to_bytes(4, "big") + body)


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # it had no group of its own, or is its last member and gone


def serve_file(order: Message, descriptor: int) -> None:
    """A file template: load the DAG file, say so, fork guests."""
    control, me = socket.socket(fileno=descriptor), os.getpid()
    try:
        loaded = _load(order)
        if os.getpid() != me:
            return  # the file forked: its other process is the template
    except BaseException as error:
        channel.send(control, {"failed": describe(error)})
        return
    if threading.active_count() > 1:
        channel.send(control, {"ready": False, "modules": {}})  # a fork would copy locks that nobody releases
        return
    learn(loaded.dags)
    gc.collect()
    gc.freeze()
    template = Template(control, lambda run, fd: run_attempt(loaded, run, fd))
    channel.send(control, {"ready": True, "modules": _modules_of(order["folder"])})
    template.serve()


def run_attempt(loaded: LoadedFile, order: Message, descriptor: int) -> NoReturn:
    """One attempt: own session, own log, result over its socket, exit code 0 once the result is sent."""
    if os.getsid(0) != os.getpid():
        os.setsid()
    me = os.getpid()
    try:
        _redirect(order["log"])
    except OSError as error:
        channel.send(descriptor, {"result": vars(Result("failed", error=describe(error)))})
        os._exit(0)
    request = order["request"]
    result = _execute(loaded, request, Requests(descriptor))
    if os.getpid() != me:
        _flush()
        os._exit(0)  # the task forked, and this is its child: what it returned is not the task's result
    if result.error and result.error.get("traceback"):
        print(result.error["traceback"], end="", flush=True)
    _flush()
    channel.write(descriptor, _packed(result))  # the last thing it does: the host takes it for the end
    os._exit(0)


USUAL = Result("success")
USUAL_PACKED = channel.pack({"result": vars(USUAL)})


def _packed(result: Result) -> bytes:
    return USUAL_PACKED if result == USUAL else channel.pack({"result": vars(result)})


class Requests:
    """What a task may ask of its host, one question at a time."""

    def __init__(self, descriptor: int) -> None:
        self._host = descriptor
        self._lock = threading.Lock()
        self._process = os.getpid()

    def xcom_get(self, task_id: str, key: str, run_id: str | None = None) -> Any:
        return self._ask(op="xcom_get", task_id=task_id, key=key, run_id=run_id)

    def xcom_set(self, key: str, value: Any) -> None:
        self._ask(op="xcom_set", key=key, value=value)

    def triggering_events(self) -> list[dict[str, Any]]:
        return self._ask(op="triggering_events")

    def inlet_events(self, asset: str, limit: int | None) -> list[dict[str, Any]]:
        return self._ask(op="inlet_events", asset=asset, limit=limit)

    def _ask(self, **question: Any) -> Any:
        if os.getpid() != self._process:
            raise RuntimeError(
                "only the task's own process may ask for XComs and events: do it before you start others"
            )
        with self._lock:
            channel.send(self._host, question)
            answer = channel.recv(self._host)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["value"]


def _execute(loaded: LoadedFile, request: Message, requests: Requests) -> Result:
    for dag in loaded.dags:
        if dag.dag_id == request["dag_id"]:
            return execute(dag, request, requests)
    message = f"the file no longer defines DAG {request['dag_id']!r}"
    return Result("failed", error={"type": "DagError", "message": message, "traceback": ""})


def _load(order: Message) -> LoadedFile:
    prepare(order["folder"])
    return load_file(order["path"], order["folder"], Path(order["source"]).read_bytes())


def _modules_of(folder: str) -> dict[str, int]:
    """The modules of the DAG folder that are loaded, with the time of their last change in nanoseconds."""
    found: dict[str, int] = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and file.startswith(folder + os.sep):
            try:
                found[file] = Path(file).stat().st_mtime_ns
            except FileNotFoundError:
                continue  # the DAG file was removed; its kept source is what runs
    return found


def _redirect(log: str) -> None:
    try:
        descriptor = os.open(log, LOG_FLAGS, 0o640)
    except FileNotFoundError:
        Path(log).parent.mkdir(0o750, parents=True, exist_ok=True)
        descriptor = os.open(log, LOG_FLAGS, 0o640)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue  # the user's code closed it


def _practise() -> None:
    """Run a task some times here, so that what a guest uses is made and cached before the fork, not copied after it."""
    with DAG("practice", schedule=None) as dag:
        PythonOperator(task_id="task", python_callable=dict)
    request = {"dag_id": "practice", "task_id": "task", "map_index": -1, "attempt": 1, "try_number": 1, "max_tries": 0}
    request |= {"token": "", "params": {}, "run": {"id": 0, "run_id": "practice", "run_type": "manual", "conf": {}}}
    ours, theirs = socket.socketpair()
    for _ in range(PRACTICE):
        channel.write(ours, _packed(execute(dag, request, Requests(ours.fileno()))))
        channel.recv(theirs)
    ours.close()
    theirs.close()


def _log_to_stdout() -> None:
    """What tasks print and log is UTF-8, whatever the locale; what has no such form is written as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


def main() -> None:
    lifeline.die_with_parent(os.getppid())
    if not sys.flags.dev_mode:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    _log_to_stdout()
    if sys.argv[1] == "fresh":
        descriptor = int(sys.argv[2])
        order = json.loads(sys.stdin.buffer.readline())
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        sock = socket.socket(fileno=descriptor)
        try:
            _redirect(order["log"])
            loaded = _load(order)
        except BaseException as error:
            traceback.print_exc()
            channel.send(sock, {"result": vars(Result("failed", error=describe(error)))})
            sys.exit(0)
        channel.send(sock, {"loaded": True})
        run_attempt(loaded, order, sock.detach())
    _practise()
    gc.collect()
    gc.freeze()
    Template(socket.socket(fileno=int(sys.argv[1])), serve_file).serve()


if __name__ == "__main__":
    main()
