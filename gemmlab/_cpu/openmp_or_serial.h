/* OpenMP's few calls, and what they mean in a serial build. */
#ifndef GEMMLAB_OMP_H
#define GEMMLAB_OMP_H

#include <time.h>

#ifdef _OPENMP
#include <omp.h>
#define HAS_OPENMP 1
static inline void set_schedule(int kind, int *old_kind, int *old_chunk) {
    omp_sched_t before;
    omp_get_schedule(&before, old_chunk);
    *old_kind = (int)before;
    omp_set_schedule((omp_sched_t)kind, 0);
}
static inline void restore_schedule(int kind, int chunk) { omp_set_schedule((omp_sched_t)kind, chunk); }
#else
#define HAS_OPENMP 0
static inline int omp_get_max_threads(void) { return 1; }
static inline int omp_get_num_procs(void) { return 1; }
static inline int omp_get_thread_num(void) { return 0; }
static inline int omp_get_num_threads(void) { return 1; }
static inline void set_schedule(int kind, int *old_kind, int *old_chunk) { *old_kind = kind; *old_chunk = 0; }
static inline void restore_schedule(int kind, int chunk) { (void)kind; (void)chunk; }
#endif

/* CPUs that the calling thread may run on. To ask takes a good part of a microsecond, so what is `short` asks no more
   than once a tick of the system's clock. */
static inline int procs_here(int is_short) {
#ifdef CLOCK_MONOTONIC_COARSE
    static __thread struct timespec asked;
    static __thread int procs;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (!is_short || !procs || now.tv_nsec != asked.tv_nsec || now.tv_sec != asked.tv_sec) {
        procs = omp_get_num_procs();
        asked = now;
    }
    return procs;
#else
    (void)is_short;
    return omp_get_num_procs();
#endif
}
#endif
