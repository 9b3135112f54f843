"""Processes that answer requests of the page, one each, with limits on their number and time.

A later request of the same kind kills the process of the earlier one, and one process waits with
everything imported. What a process runs is the command's own way from options to verdicts
(`cli/serving_work`), with the log in a file in memory on standard input, so that the page shows
what the command would print.
"""

from __future__ import annotations

import json
import subprocess
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Cancelled", "TooLong", "WorkerFailed", "Workers"]


class Cancelled(Exception):
    """A later request of the same kind has taken the place of this one."""


class TooLong(Exception):
    """The answer has taken longer than allowed."""


class WorkerFailed(Exception):
    """A process has ended without an answer; the message says why, as far as that is known."""


class Workers:
    """Starts a process for each request. One waits for the next request, as starting takes long.

    Of each kind of request, only the last one is answered.

    Args:
        command: the command line of a process. It reads a request as JSON from standard input,
            writes an answer as JSON to standard output, and ends; at the end of an empty input it
            only ends.
        seconds: how long a request may take.
    """

    def __init__(self, command: Sequence[str], seconds: float = 30.0) -> None:
        self._command = list(command)
        self._seconds = seconds
        self._lock = threading.Lock()
        self._spare: subprocess.Popen[bytes] | None = None
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._is_closed = False

    def prepare(self) -> None:
        """Start the process that waits for the next request."""
        with self._lock:
            if self._spare is None and not self._is_closed:
                self._spare = self._start()

    def answer(self, kind: str, request: bytes) -> bytes:
        """Return the answer to a request.

        Args:
            kind: the kind of the request; an earlier one of this kind is cancelled.
            request: the request, as JSON.

        Raises:
            Cancelled: a later request of this kind has come.
            TooLong: there is no answer within the time.
            WorkerFailed: the process has ended without an answer, or `close` was called.
        """
        with self._lock:
            if self._is_closed:
                raise WorkerFailed("mtlmon serve has ended")
            process, self._spare = self._spare, None
            if process is not None and process.poll() is not None:
                _discard(process)
                process = None
            if process is None:
                process = self._start()
            before = self._running.get(kind)
            self._running[kind] = process
        if before is not None:
            before.kill()
        try:
            output, errors = process.communicate(request, self._seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise TooLong from None
        finally:
            with self._lock:
                is_last = self._running.get(kind) is process
                if is_last:
                    del self._running[kind]
            self.prepare()
        if not is_last:
            raise Cancelled
        if process.returncode or not _is_json(output):
            lines = errors.decode("utf-8", "replace").split("\n")
            last = next((line for line in reversed(lines) if line.strip()), "")
            raise WorkerFailed(last or f"it has ended with status {process.returncode}")
        return output

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            self._is_closed = True
            running, spare = list(self._running.values()), self._spare
            self._spare = None
        for process in running:
            # the thread that waits for it does the rest
            process.kill()
        if spare is not None:
            _discard(spare)

    def _start(self) -> subprocess.Popen[bytes]:
        # in a session of its own, so that Ctrl-C reaches the server alone
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )


def _discard(process: subprocess.Popen[bytes]) -> None:
    """End a process that has no request."""
    process.kill()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    process.wait()


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
