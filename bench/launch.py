"""Run one command with its output to the null device; print seconds, peak memory and status.

    python -I -S launch.py SECONDS COMMAND [ARGUMENT...]

The kernel counts the memory of the process that forks into the peak of the child. So the measured
command is started from this one, which is smaller than any of them, and not from the benchmark.
The seconds are those of the clock and those of the processors. The peak is in bytes, the status
as a shell gives it. A command that takes longer than SECONDS is
killed, with what it started, and has the status -9.
"""

import os
import signal
import sys
import time


def main() -> None:
    limit, *command = sys.argv[1:]
    to_null = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
    ]
    start = time.perf_counter()
    child = os.posix_spawn(command[0], command, os.environ, file_actions=to_null, setpgroup=0)
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(child, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, float(limit))
    _, status, usage = os.wait4(child, 0)
    seconds = time.perf_counter() - start
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    cpu_seconds = usage.ru_utime + usage.ru_stime
    print(seconds, cpu_seconds, peak, os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
