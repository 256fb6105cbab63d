/* How many threads the system lets this process start: GNU's OpenMP runtime ends the process where it cannot start one. */
#ifndef GEMMLAB_THREAD_START_H
#define GEMMLAB_THREAD_START_H

#if defined(_OPENMP) && defined(__linux__)
#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#define WORKSPACE_BYTES ((size_t)8 << 20)  /* of a thread: memory that its part of a product takes besides the stack */

typedef struct {
    pthread_t thread;
    void *workspace;
} trial_thread;

/* OMP_STACKSIZE in bytes, as OpenMP defines it: kilobytes, if no unit follows; 0 where it is not set. */
static size_t stack_bytes(void) {
    const char *given = getenv("OMP_STACKSIZE");
    if (!given && !(given = getenv("GOMP_STACKSIZE"))) return 0;
    char *unit;
    const size_t size = strtoul(given, &unit, 10);
    while (isspace((unsigned char)*unit)) unit++;
    switch (tolower((unsigned char)*unit)) {
    case 'b': return size;
    case 'm': return size << 20;
    case 'g': return size << 30;
    default: return size << 10;
    }
}

static void *wait_for(void *mutex) {
    pthread_mutex_lock((pthread_mutex_t *)mutex);
    pthread_mutex_unlock((pthread_mutex_t *)mutex);
    return NULL;
}

/* Start so many threads at the same time, with the stacks that OpenMP's would have, and end them: how many started. Where
   the system refused some, half of those that can be started: OpenMP may start a team while the threads of the one before,
   which was larger than the next, still end. */
static int startable_threads(int wanted) {
    trial_thread *trials = (trial_thread *)malloc(wanted * sizeof *trials);
    pthread_mutex_t all_started = PTHREAD_MUTEX_INITIALIZER;
    pthread_attr_t attributes;
    int started = 0;
    if (!trials || pthread_attr_init(&attributes)) {
        free(trials);
        return 0;
    }
    if (stack_bytes()) pthread_attr_setstacksize(&attributes, stack_bytes());
    pthread_mutex_lock(&all_started);
    for (; started < wanted; started++) {
        trial_thread *one = trials + started;
        one->workspace = mmap(NULL, WORKSPACE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                              -1, 0);
        if (one->workspace == MAP_FAILED) break;
        if (pthread_create(&one->thread, &attributes, wait_for, &all_started)) {
            munmap(one->workspace, WORKSPACE_BYTES);
            break;
        }
    }
    pthread_mutex_unlock(&all_started);
    for (int i = 0; i < started; i++) {
        pthread_join(trials[i].thread, NULL);
        munmap(trials[i].workspace, WORKSPACE_BYTES);
    }
    pthread_attr_destroy(&attributes);
    free(trials);
    return started == wanted ? started : (started + 1) / 2;
}
#else
static int startable_threads(int wanted) { return wanted; }
#endif

#ifdef _MSC_VER
#define OF_EACH_THREAD __declspec(thread)
#else
#define OF_EACH_THREAD __thread
#endif

/* Threads that a team of the calling thread has had, and, once the system refused some, the most that one may have. OpenMP
   keeps a pool for each thread that starts a team. */
static OF_EACH_THREAD int team_started = 1, team_limit = 0;
#endif
