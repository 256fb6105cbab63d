# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""How many threads a product gets: by its size, the settings, the CPUs of this process, and what the system starts."""

import warnings

from gemmlab._process import forks
from gemmlab._cpu import machine

cdef extern from "openmp_or_serial.h" nogil:
    enum:
        HAS_OPENMP
    int omp_get_max_threads()
    int omp_get_thread_limit()

cdef extern from "thread_places.h" nogil:
    ctypedef struct cpus:
        pass
    int cpus_at_times(bint is_short, const cpus *of_main)
    int main_thread_moved(cpus *known)

cdef extern from "thread_start.h" nogil:
    int team_started, team_limit  # of the calling thread
    int startable_threads(int wanted)

cdef extern from *:
    """
    #ifdef _WIN32
    __declspec(dllexport)
    #else
    __attribute__((visibility("default")))
    #endif
    const int gemmlab_threads = 1;  /* threadpool.py recognises the file by this */
    """

# What a team of two threads costs, in floating-point operations that one might have done; one of T costs (T + 4) / 6 of
# that. A rung gets all threads or one: OpenMP ends the threads that a smaller team leaves out, and to start them again
# takes as long as a product of 400 x 400.
cdef double TEAM_FLOP = 2.2e5
team_flop = TEAM_FLOP
cdef double SHORT_FLOP = 1e7  # a product of less is over in a tick of the clock

cdef int thread_limit = 0       # from gemmlab.config.threads; 0: none set
cdef int blas_limit = 0         # from threadpoolctl, for all that is a BLAS to it; 0: none set
cdef bint pool_started = False  # an OpenMP pool exists in this process
cdef bint serial = False        # ... or existed in its parent: libgomp would wait for threads that are gone
cdef bint warned = False        # ... and that has been said
cdef bint warned_of_limit = False
cdef cpus narrowed              # see `cpus_of_thread`


def limit_threads(threads):
    """Take `gemmlab.config.threads` over; None lifts the limit."""
    global thread_limit
    thread_limit = threads or 0


def limit_blas_threads(int threads):
    """Take a limit of threadpoolctl over."""
    global blas_limit
    blas_limit = threads


def main_thread_is_bound():
    """The main thread's CPUs may have been narrowed so that each thread has a separate place: by whatever loaded OpenMP
    before us, or by who measures. That is no limit of the process."""
    main_thread_moved(&narrowed)


def cpus_here():
    """CPUs that the calling thread may run on, or would if OpenMP had not bound it."""
    return cpus_at_times(False, &narrowed)


def max_threads():
    """Threads of a large product that names none."""
    return threads_for(1e18, TEAM_FLOP)


def forked():
    """Called in a child after `fork`."""
    global serial
    serial = serial or pool_started


forks.in_child(forked)


def default_threads(double flop, double team_flop=TEAM_FLOP):
    """Threads of a product of so many floating-point operations where the caller names no number."""
    return threads_for(flop, team_flop)


cdef int threads_for(double flop, double team_flop) except -1:
    cdef int threads
    if flop < 2 * team_flop:
        return 1
    threads = thread_limit or omp_get_max_threads()
    if threads > 1 and not thread_limit:
        threads = min(threads, cpus_at_times(flop < SHORT_FLOP, &narrowed), <int> (machine.cgroup_cpus() or threads))
    threads = min(threads, omp_get_thread_limit())
    if blas_limit:
        threads = min(threads, blas_limit)
    return threads if flop * (threads - 1) > team_flop * (threads + 4) / 6 * threads else 1


def allowed_threads(int threads):
    """`threads`, or fewer where this process cannot have as many (see `forked` and `start_team`)."""
    if serial or not HAS_OPENMP:
        return 1
    threads = min(threads, omp_get_thread_limit())
    return min(threads, team_limit) if team_limit else threads


cpdef int usable_threads(int threads) except -1:
    """`threads`, or as many as a parallel region may have here, with one warning where that is fewer.

    Whatever opens a parallel region asks this first.
    """
    global pool_started, warned
    if threads == 1 or not HAS_OPENMP:
        return 1
    if serial and not warned:
        warned = True
        warnings.warn(
            "gemmlab runs on one thread in this process: its parent had started OpenMP threads before the "
            "fork, and they do not exist here; start processes with 'spawn' or 'forkserver' to use threads",
            RuntimeWarning, stacklevel=2)
    if serial:
        return 1
    pool_started = True
    threads = min(threads, omp_get_thread_limit())
    return threads if threads <= team_started else start_team(threads)


cdef int start_team(int threads) except -1:
    """`threads`, or as many as the system starts: it is tried out, since OpenMP ends a process that has too few."""
    global team_started, team_limit
    cdef int wanted = allowed_threads(threads)
    if wanted > team_started:
        team_started += startable_threads(wanted - team_started)
    if team_started < wanted:
        team_limit = team_started
        warn_of_fewer(team_started, threads, b", or make the threads' stacks smaller (OMP_STACKSIZE=1M)")
    return min(wanted, team_started)


cdef int warn_of_fewer(int started, int threads, bytes besides) except -1:
    """Once: the system has started fewer threads than a product wants."""
    global warned_of_limit
    if not warned_of_limit:
        warned_of_limit = True
        warnings.warn(
            f"gemmlab runs on {started} instead of {threads} threads: the system starts no more for this process; ask "
            "for fewer (threads=, OMP_NUM_THREADS), or raise its limits (ulimit -u, ulimit -v, the cgroup's pids.max)"
            + besides.decode(), RuntimeWarning, stacklevel=2)
    return 0
