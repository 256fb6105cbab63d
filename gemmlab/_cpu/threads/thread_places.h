/* Where the threads of a team run: where the main thread may, or each at a place of its own, if OMP_PROC_BIND asks. */
#ifndef GEMMLAB_THREAD_PLACES_H
#define GEMMLAB_THREAD_PLACES_H

#include "openmp_or_serial.h"

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    cpu_set_t sets[4];  /* 4096 CPUs */
} cpus;

/* OpenMP's places, where its threads are bound to them, else none. */
static inline int bound_places(void) {
#ifdef _OPENMP
    return omp_get_proc_bind() == omp_proc_bind_false ? 0 : omp_get_num_places();
#else
    return 0;
#endif
}

static cpus cpus_of_place(int place) {
    cpus found;
    memset(&found, 0, sizeof found);
#ifdef _OPENMP
    const int count = omp_get_place_num_procs(place);
    int ids[8 * sizeof(cpus)];
    omp_get_place_proc_ids(place, ids);
    for (int i = 0; i < count; i++) CPU_SET_S(ids[i], sizeof found, found.sets);
#else
    (void)place;
#endif
    return found;
}

/* CPUs that the calling thread may run on. OpenMP, where it is to bind its threads, narrows the one that loads it, and
   every other one that opens a parallel region: then they are those of all its places. `of_main` are the main thread's
   CPUs if it is known that they were narrowed so: where they are others now, that was somebody else. */
static inline int cpus_of_thread(const cpus *of_main) {
    cpus now;
    if (sched_getaffinity(0, sizeof now, now.sets)) return omp_get_num_procs();
    const int count = CPU_COUNT_S(sizeof now, now.sets), places = bound_places();
    int in_places = 0, in_a_place = 0;
    if (may_be_main_thread() && memcmp(&now, of_main, sizeof now)) return count;
    for (int i = 0; i < places; i++) {
        const cpus place = cpus_of_place(i);
        in_places += CPU_COUNT_S(sizeof place, place.sets);
        cpus both;
        CPU_AND_S(sizeof both, both.sets, place.sets, now.sets);
        in_a_place |= CPU_EQUAL_S(sizeof both, both.sets, now.sets);
    }
    return in_a_place && in_places > count ? in_places : count;
}

/* The main thread's, and whether they have changed since it was asked. */
static int main_thread_moved(cpus *known) {
    cpus now;
    memset(&now, 0, sizeof now);
    if (sched_getaffinity(getpid(), sizeof now, now.sets) || !memcmp(&now, known, sizeof now)) return 0;
    *known = now;
    return 1;
}

static void place_thread(pthread_t thread, int number, const cpus *of_main) {
    pthread_setname_np(thread, "gemmlab");
    const int places = bound_places();
    const cpus where = places ? cpus_of_place(number % places) : *of_main;
    pthread_setaffinity_np(thread, sizeof where, where.sets);
}
/* The CPU of the calling thread, or -1. */
static int cpu_here(void) { return sched_getcpu(); }

/* The calling thread goes to another of its CPUs. */
static void leave_cpu(int cpu, const cpus *allowed) {
    cpus others = *allowed;
    CPU_CLR_S(cpu, sizeof others, others.sets);
    if (bound_places() || !CPU_COUNT_S(sizeof others, others.sets)) return;
    pthread_setaffinity_np(pthread_self(), sizeof others, others.sets);
    pthread_setaffinity_np(pthread_self(), sizeof *allowed, allowed->sets);
}
#else
typedef int cpus;
static inline int cpus_of_thread(const cpus *of_main) { (void)of_main; return omp_get_num_procs(); }
static int cpu_here(void) { return -1; }
static void leave_cpu(int cpu, const cpus *allowed) { (void)cpu, (void)allowed; }
static int main_thread_moved(cpus *known) { (void)known; return 0; }
static void place_thread(pthread_t thread, int number, const cpus *of_main) { (void)thread, (void)number, (void)of_main; }
#endif

/* The same. To ask takes a good part of a microsecond, so what is `short` asks no more than once a tick of the system's
   clock. */
static inline int cpus_at_times(int is_short, const cpus *of_main) {
#ifdef CLOCK_MONOTONIC_COARSE
    static __thread struct timespec asked;
    static __thread int count;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (!is_short || !count || now.tv_nsec != asked.tv_nsec || now.tv_sec != asked.tv_sec) {
        count = cpus_of_thread(of_main);
        asked = now;
    }
    return count;
#else
    (void)is_short;
    return cpus_of_thread(of_main);
#endif
}
#endif
