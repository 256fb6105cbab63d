"""The threads that a product of cpu-packed gets: see `_cpu/packed/team.hpp`."""

from gemmlab._cpu.threads._threads cimport warn_of_fewer


cdef extern from "team.hpp" nogil:
    int threads_allowed(int wanted)
    int start_workers(int wanted)
    double LARGE "WORTH_A_CALL + 1"
    int begin_product(int threads, double vectors)
    int begin_product(int threads, double vectors, bint is_only_caller)
    void end_product(int threads)

ctypedef void (*Task)(const void *work, Py_ssize_t piece) noexcept nogil

cdef extern from "pieces.hpp" nogil:
    void share_task(int threads, Py_ssize_t pieces, Task task, const void *work)

cdef extern from "listening.hpp" nogil:
    cdef struct Listening:
        pass
    double LONG_VECTORS
    void listen(Listening *here, int (*ask)() noexcept nogil)
    bint stop_listening()


cdef extern from "Python.h":
    int PyErr_CheckSignals()  # leaves the exception


cdef inline int share_among_team(Task task, const void *work, Py_ssize_t pieces, int threads) except -1:
    """Call a task for each piece, in the caller and in as many workers as come."""
    threads = team_threads(threads)
    cdef int planned = begin_product(threads, LARGE)
    with nogil:
        share_task(planned, pieces, task, work)
    end_product(threads)
    return 0


cdef inline int signals_raise() noexcept nogil:
    """Run the handlers of signals that have come, in the main thread; whether one has raised."""
    with gil:
        return PyErr_CheckSignals()


cdef inline int team_threads(int threads) except -1:
    """`threads`, or as many as a team can have here, with one warning where the system starts fewer."""
    cdef int wanted = threads_allowed(threads), started
    if wanted == 1:
        return 1
    started = 1 + start_workers(wanted - 1)
    if started < wanted:
        warn_of_fewer(started, threads, b"")
    return started
