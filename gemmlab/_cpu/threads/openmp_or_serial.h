/* OpenMP's few calls, and what they mean in a serial build. */
#ifndef GEMMLAB_OMP_H
#define GEMMLAB_OMP_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE  /* sets of CPUs */
#endif
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
#include <limits.h>
#include <stdlib.h>
#if defined(__linux__)
#include <sched.h>
#elif !defined(_WIN32)
#include <unistd.h>
#endif
/* A team that does not need OpenMP still has the size that its variables name. */
static inline int number_in(const char *variable, int otherwise) {
    const char *given = getenv(variable);
    const long number = given ? strtol(given, NULL, 10) : 0;
    return number > 0 && number < INT_MAX ? (int)number : otherwise;
}
static inline int omp_get_num_procs(void) {
#if defined(__linux__)
    cpu_set_t sets[4];
    return sched_getaffinity(0, sizeof sets, sets) ? 1 : CPU_COUNT_S(sizeof sets, sets);
#elif !defined(_WIN32)
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
#else
    return 1;
#endif
}
static inline int omp_get_max_threads(void) { return number_in("OMP_NUM_THREADS", omp_get_num_procs()); }
static inline int omp_get_thread_limit(void) { return number_in("OMP_THREAD_LIMIT", INT_MAX); }
static inline int omp_in_parallel(void) { return 0; }
static inline int omp_get_thread_num(void) { return 0; }
static inline int omp_get_num_threads(void) { return 1; }
static inline void set_schedule(int kind, int *old_kind, int *old_chunk) { *old_kind = kind; *old_chunk = 0; }
static inline void restore_schedule(int kind, int chunk) { (void)kind; (void)chunk; }
#endif

/* Whether the calling thread may be the main one, the only one that runs handlers of signals. */
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
static inline int may_be_main_thread(void) { return syscall(SYS_gettid) == getpid(); }
#else
static inline int may_be_main_thread(void) { return 1; }
#endif
#endif
