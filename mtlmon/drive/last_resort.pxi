# cython: language_level=3
"""End the process after SIGINT or SIGTERM if Python does not do so in time.

Python's own handlers wait until the interpreter has control. One call of a library, for instance an
operation on BDDs, may keep control for minutes. The handlers here, written in C, are installed in
front of Python's handlers. After a signal, a timer regularly gives Python the chance to end the
work. Once the deadline has passed, the handler writes what the command's writer holds, unless the
writer is in use, and ends the process.

PERF: no loop checks for signals here; the writer's owner marks the writer as idle around long work.

The global state belongs to the process, as signal handlers do, so do not nest calls of
`install_last_resort`.

This is the last of three mechanisms, each for what the one before cannot handle. While the command
starts, the handlers of `mtlmon/_start.py` end the process, as there are no verdicts yet. Later,
Python's handlers raise an exception (`cli/signals`). Native code lets them run: loops over events
check for signals every 50 ms, and within an event the workspace does (`spend` in
`engine/expressions/workspace`). The lines and verdict records that are written here do not change
during an event.
"""

from libc.errno cimport EINTR, errno
from libc.signal cimport SIGALRM, SIGINT, SIGTERM
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset
from posix.signal cimport sigaction, sigaction_t
from posix.time cimport ITIMER_REAL, itimerval, setitimer
from posix.unistd cimport _exit, write

from mtlmon.engine.native cimport VerdictRecord, Verdicts, nanoseconds, note_signal
from mtlmon.text.native cimport LINES_AT_ONCE, LINE_ROOM, VerdictFilter, Writer, put_wanted_lines

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd *descriptors, unsigned long count, int milliseconds)
    short POLLOUT

cdef extern from "<pthread.h>" nogil:
    ctypedef unsigned long pthread_t
    pthread_t pthread_self()
    int pthread_equal(pthread_t one, pthread_t other)
    int pthread_kill(pthread_t thread, int number)

cdef extern from *:
    """
    static int mtlmon_is_function(const struct sigaction *action)
    {
        return !(action->sa_flags & SA_SIGINFO) && action->sa_handler != SIG_DFL
            && action->sa_handler != SIG_IGN;
    }
    static void mtlmon_call(const struct sigaction *action, int number)
    {
        action->sa_handler(number);
    }
    """
    bint is_function "mtlmon_is_function" (const sigaction_t *action) noexcept nogil
    void call "mtlmon_call" (const sigaction_t *action, int number) noexcept nogil

cdef enum:
    TICK_MICROSECONDS = 100 * 1000
    # a pipe takes this much at once, or says that it would block
    PIECE_BYTES = 4096
    # how long to wait for a reader that takes nothing
    PATIENCE_MILLISECONDS = 500
    SIGNALLED = 128


# `put_wanted_lines` with the writer as a pointer, as a handler cannot count references
ctypedef size_t (*PutLines)(
    void *writer, uint8_t *place, const VerdictRecord *verdicts, size_t count, VerdictFilter filter
) noexcept nogil


cdef struct Resort:
    int number                      # of the signal that came, or 0
    int64_t deadline                # in nanoseconds; 0 for none
    int64_t allowed                 # nanoseconds between a signal and the deadline
    pthread_t thread                # the main thread, which uses the writer
    int file_descriptor
    # fields of the writer, or NULL
    uint8_t **data
    size_t *taken
    size_t *size
    bint *is_idle
    const Verdicts **next_records
    VerdictFilter *next_filter
    void *writer
    PutLines put_lines
    size_t lines_at_once
    uint8_t[LINES_AT_ONCE * LINE_ROOM] lines
    # the handlers that were installed before
    sigaction_t interrupt, terminate, alarm


cdef Resort resort
cdef Writer kept = None             # the writer that these fields belong to


def install_last_resort(int file_descriptor, Writer writer, double seconds):
    """Install handlers before Python's of SIGINT, SIGTERM and SIGALRM, which must exist.

    A signal that is ignored stays ignored.

    Args:
        file_descriptor: the file that the writer's bytes go to.
        writer: holds the bytes to be written at the end, if it is idle then; None for no bytes.
        seconds: how long Python has, from a signal on, to write and end by itself, or to ask for
            more time.
    """
    global kept
    memset(&resort, 0, sizeof(resort))
    note_signal(0)
    kept = writer
    resort.thread = pthread_self()
    resort.file_descriptor = file_descriptor
    resort.allowed = <int64_t> (seconds * 1e9)
    if writer is not None:
        resort.data = &writer.data
        resort.taken = &writer.taken
        resort.size = &writer.size
        resort.is_idle = &writer.is_idle
        resort.next_records = &writer.next_records
        resort.next_filter = &writer.next_filter
        resort.writer = <void *> writer
        resort.put_lines = <PutLines> <void *> put_wanted_lines
        resort.lines_at_once = sizeof(resort.lines) // writer.line_room
    stand_before(SIGALRM, &resort.alarm)
    stand_before(SIGINT, &resort.interrupt)
    stand_before(SIGTERM, &resort.terminate)


def uninstall_last_resort():
    """Restore the signal handlers that were installed before."""
    global kept
    cdef itimerval never
    memset(&never, 0, sizeof(never))
    setitimer(ITIMER_REAL, &never, NULL)
    sigaction(SIGINT, &resort.interrupt, NULL)
    sigaction(SIGTERM, &resort.terminate, NULL)
    sigaction(SIGALRM, &resort.alarm, NULL)
    resort.number = 0
    note_signal(0)
    resort.data = NULL
    kept = None


def extend_last_resort(double seconds):
    """Give Python so much time from now on, as it has started to end the work."""
    resort.deadline = nanoseconds() + <int64_t> (seconds * 1e9)


cdef void stand_before(int number, sigaction_t *before) noexcept nogil:
    cdef sigaction_t action
    sigaction(number, NULL, before)
    if is_function(before):
        action = before[0]
        action.sa_handler = handle
        sigaction(number, &action, NULL)


cdef void handle(int number) noexcept nogil:
    """Handle a signal; only async-signal-safe operations are allowed here."""
    cdef int error = errno
    cdef itimerval ticks
    if not pthread_equal(pthread_self(), resort.thread):
        # only in the main thread is it certain that the writer does not change meanwhile
        pthread_kill(resort.thread, number)
        return
    if number != SIGALRM and resort.number == 0:
        resort.number = number
        note_signal(number)
        resort.deadline = nanoseconds() + resort.allowed
        ticks.it_interval.tv_sec = ticks.it_value.tv_sec = 0
        ticks.it_interval.tv_usec = ticks.it_value.tv_usec = TICK_MICROSECONDS
        setitimer(ITIMER_REAL, &ticks, NULL)
    if resort.number and resort.deadline and nanoseconds() >= resort.deadline:
        write_what_is_idle()
        _exit(SIGNALLED + resort.number)
    if number == SIGALRM:
        call(&resort.alarm, number)
    elif number == SIGINT:
        call(&resort.interrupt, number)
    else:
        call(&resort.terminate, number)
    (&errno)[0] = error


cdef void write_what_is_idle() noexcept nogil:
    """Write the lines that wait in the writer, and the lines of its next records."""
    cdef const Verdicts *verdicts
    cdef size_t done = 0
    cdef size_t part, size
    if resort.data == NULL or not (<volatile bint *> resort.is_idle)[0]:
        return
    if not write_all(resort.data[0] + resort.taken[0], resort.size[0] - resort.taken[0]):
        return
    verdicts = resort.next_records[0]
    if verdicts == NULL or not verdicts.is_idle:
        return
    while done < verdicts.count:
        part = min(resort.lines_at_once, <size_t> (verdicts.count - done))
        size = resort.put_lines(
            resort.writer, resort.lines, verdicts.records + done, part, resort.next_filter[0]
        )
        if not write_all(resort.lines, size):
            return
        done += part


cdef bint write_all(const uint8_t *text, size_t size) noexcept nogil:
    """Write bytes to the file; False if it accepts no more."""
    cdef pollfd waiting
    cdef Py_ssize_t written
    while size > 0:
        waiting.fd = resort.file_descriptor
        waiting.events = POLLOUT
        waiting.revents = 0
        if poll(&waiting, 1, PATIENCE_MILLISECONDS) <= 0:
            return False
        written = write(resort.file_descriptor, text, min(<size_t> PIECE_BYTES, size))
        if written > 0:
            text += written
            size -= <size_t> written
        elif errno != EINTR:
            return False
    return True
