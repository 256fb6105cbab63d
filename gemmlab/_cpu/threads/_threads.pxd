"""What compiled products ask: the number of threads, and what to say where it is fewer."""

cdef double TEAM_FLOP
cdef int threads_for(double flop, double team_flop) except -1
cpdef int usable_threads(int threads) except -1
cdef int warn_of_fewer(int started, int threads, bytes besides) except -1
