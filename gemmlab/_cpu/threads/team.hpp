/* A team of threads, one in a process, that all products of cpu-packed share.

       caller    opens a phase of a product, takes pieces of it until there are none, and waits for members that are inside
       worker    joins an open phase, takes pieces until there are none, and leaves

   Nobody waits for a thread that is not running. The caller begins at once, so a worker that does not come is not missed;
   one that loses its core holds the caller up for the piece that it has begun, and pieces are short. Who has nothing to do
   waits actively for SPIN_NS and then blocks: a thread that blocks lets another have its core, and when it is called, gets
   one sooner than a thread that has used its time.

   Workers are started when they are first asked for, and never end. They block all signals, run where the main thread may
   run, and take the caller's rounding and flush-to-zero modes. The child of a fork begins with none. */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <new>
#if defined(__linux__)
#include <sys/resource.h>
#endif

#include "problem.hpp"
#include "thread_places.h"

namespace {

constexpr int MAX_WORKERS = 1023;
constexpr int PHASES = 64;               // open at the same time; a further caller goes alone
constexpr long long SPIN_NS = 25000;
constexpr int PAUSES = 8;                // between two looks at the clock
constexpr double WORTH_A_CALL = 6e5;     // vectors multiplied and added: of a product whose caller calls who has blocked
constexpr long long ONCE_MORE_NS = SPIN_NS;   // or if the one before ended so shortly before: then they do not block again
constexpr long long OTHERS_NS = 1000000;      // for so long after a call, its thread is taken to call again
constexpr double OF_OTHERS = 4e6;        // vectors: a product that takes longer than that
constexpr long long LONG_AGO_NS = 100000000;  // what a thread has done since it called last says nothing of now
constexpr long long CROWDED_NS = 20000000;  // for so long after it was seen, other programs are taken to want the CPUs
constexpr size_t STACK_BYTES = 1 << 20;  // of a worker

/* Whether a phase is open, how many have joined, and its number are one word: nobody joins the next phase by mistake. */
constexpr uint64_t OPEN = 1, MEMBER = 2, MEMBERS = 0xfffe, NUMBER = 0x10000;
struct alignas(LINE) Phase {
    uint64_t state;
    uint64_t left;  // members that have left
    uint64_t seats; // for members
    int is_awaited; // by its caller, who has blocked
    int cpu;        // of its caller
    unsigned modes; // of the caller
    void (*run)(const void *work, int member);
    const void *work;
    pthread_cond_t over = PTHREAD_COND_INITIALIZER;
};

struct Team {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // to start, to block, and to call
    pthread_cond_t bell = PTHREAD_COND_INITIALIZER;
    int workers = 0, most = MAX_WORKERS;  // that exist; that the system has not refused to start
    int called = 0;                       // that have not heard it yet
    pthread_t threads[MAX_WORKERS] = {};
    cpus of_main = {};
    long tick = 0;                 // of the system's clock, when the main thread's CPUs were last asked for
    alignas(LINE) int asleep = 0;  // workers that have blocked, but for those that are called
    int spinning = 0;
    alignas(LINE) int callers = 0; // products that would have members
    const void *last_caller = NULL;  // a thread
    long long changed_ns = 0;        // when another thread called than before
    long long ended_ns = 0;          // when a product ended whose workers had blocked
    long long crowded_ns = 0;        // when other programs were seen to want the CPUs
    alignas(LINE) uint64_t open = 0, taken = 0;  // a bit for each phase: it can be joined; it is somebody's
    Phase phases[PHASES];
};
Team team;
bool has_fork_handler = false;

template <class T> INLINE T get(const T &x) { return __atomic_load_n(&x, __ATOMIC_SEQ_CST); }
template <class T> INLINE void set(T &x, T value) { __atomic_store_n(&x, value, __ATOMIC_SEQ_CST); }
template <class T> INLINE T add(T &x, T some) { return __atomic_fetch_add(&x, some, __ATOMIC_SEQ_CST); }
INLINE void clear(uint64_t &x, uint64_t bits) { __atomic_fetch_and(&x, ~bits, __ATOMIC_SEQ_CST); }
INLINE bool exchange(uint64_t &x, uint64_t &old, uint64_t value) {
    return __atomic_compare_exchange_n(&x, &old, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
INLINE uint64_t members_in(uint64_t state) { return (state & MEMBERS) / MEMBER; }

INLINE long long clock_ns(clockid_t clock = CLOCK_MONOTONIC) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Wait actively until something holds, for SPIN_NS at most. */
template <class Condition> INLINE bool spin_until(const Condition &holds) {
    long long end = 0;
    for (;;) {
        for (int i = 0; i < PAUSES; i++) {
            if (holds()) return true;
#if defined(__x86_64__)
            __builtin_ia32_pause();
#elif defined(__aarch64__)
            asm volatile("isb");
#endif
        }
        const long long now = clock_ns();
        if (!end) end = now + SPIN_NS;
        else if (now > end) return false;
    }
}

/* How the calling thread rounds, and what it does with subnormal numbers. */
INLINE unsigned modes_here() {
#if defined(__x86_64__)
    return __builtin_ia32_stmxcsr() & 0xffc0;
#elif defined(__aarch64__)
    uint64_t modes;
    asm volatile("mrs %0, fpcr" : "=r"(modes));
    return (unsigned)modes;
#else
    return 0;
#endif
}
INLINE void take_modes(unsigned modes) {
    if (modes == modes_here()) return;
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(modes);
#elif defined(__aarch64__)
    asm volatile("msr fpcr, %0" : : "r"((uint64_t)modes));
#endif
}

/* Call a worker that has blocked, if there is one. */
void call_worker() {
    if (!get(team.asleep)) return;
    pthread_mutex_lock(&team.lock);
    const bool is_there = get(team.asleep) > 0;
    if (is_there) add(team.asleep, -1), team.called++;
    pthread_mutex_unlock(&team.lock);
    if (is_there) pthread_cond_signal(&team.bell);
}

/* Its bit in `open` and `taken`. */
INLINE uint64_t bit_of(const Phase &phase) { return (uint64_t)1 << (&phase - team.phases); }

INLINE void close(Phase &phase) {
    clear(team.open, bit_of(phase));
    clear(phase.state, OPEN);
}

/* The system may wake a worker on its caller's CPU, and leave it there while all others are busy: then both would wait for
   each other. */
void go_elsewhere(int cpu) {
    pthread_mutex_lock(&team.lock);
    const cpus allowed = team.of_main;
    pthread_mutex_unlock(&team.lock);
    leave_cpu(cpu, &allowed);
}

/* Join a phase, take pieces until there are none, and leave. Others are called by those who have come, so that the caller
   is not kept from its work. */
bool help(Phase &phase) {
    const int cpu = get(phase.cpu);
    if (cpu >= 0 && cpu == cpu_here()) go_elsewhere(cpu);
    uint64_t state = get(phase.state), members;
    do {
        members = members_in(state);
        if (!(state & OPEN) || members >= get(phase.seats)) return false;
    } while (!exchange(phase.state, state, state + MEMBER));
    if (members + 1 < phase.seats) {
        for (int i = 0; i < 2; i++) call_worker();
    } else
        clear(team.open, bit_of(phase));
    take_modes(phase.modes);
    phase.run(phase.work, (int)members + 1);
    close(phase);
    add(phase.left, (uint64_t)1);
    if (get(phase.is_awaited)) {
        pthread_mutex_lock(&team.lock);
        pthread_mutex_unlock(&team.lock);
        pthread_cond_signal(&phase.over);
    }
    return true;
}

bool help_any() {
    bool helped = false;
    for (uint64_t open = get(team.open); open; open &= open - 1) helped |= help(team.phases[__builtin_ctzll(open)]);
    return helped;
}

/* Whether a phase has been opened within SPIN_NS. */
bool wait_actively() {
    add(team.spinning, 1);
    const bool found = spin_until([] { return get(team.open) != 0; });
    add(team.spinning, -1);
    return found;
}

/* Block until called, unless a phase is open. */
void block() {
    pthread_mutex_lock(&team.lock);
    add(team.asleep, 1);
    if (get(team.open)) add(team.asleep, -1);
    else {
        while (!team.called) pthread_cond_wait(&team.bell, &team.lock);
        team.called--;
    }
    pthread_mutex_unlock(&team.lock);
}

void *work(void *) {
    for (;;)
        if (!help_any() && !wait_actively()) block();
    return NULL;
}

/* The child has none of the threads: neither workers, nor those that had taken a phase or the lock. */
void begin_again() {
    new (&team) Team;
}

/* Workers go where the main thread has gone; the lock is held. */
void follow_main_thread() {
    if (main_thread_moved(&team.of_main))
        for (int i = 0; i < team.workers; i++) place_thread(team.threads[i], i + 1, &team.of_main);
}

/* So many workers, or as many as the system starts: how many there are. */
int start_workers(int wanted) {
    wanted = (int)min(wanted, get(team.most));
    if (get(team.workers) >= wanted) return wanted;
    pthread_attr_t attributes;
    sigset_t all, before;
    if (pthread_attr_init(&attributes)) return get(team.workers);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_mutex_lock(&team.lock);
    if (!has_fork_handler) has_fork_handler = !pthread_atfork(NULL, NULL, begin_again);
    follow_main_thread();
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (team.workers < wanted && !pthread_create(&team.threads[team.workers], &attributes, work, NULL)) {
        place_thread(team.threads[team.workers], team.workers + 1, &team.of_main);
        add(team.workers, 1);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    const int workers = team.workers;
    if (workers < wanted) set(team.most, workers);
    pthread_mutex_unlock(&team.lock);
    pthread_attr_destroy(&attributes);
    return (int)min(workers, wanted);
}

/* Threads that a product may have: the caller alone in a parallel region of OpenMP, whose threads multiply at the same
   time. */
int threads_allowed(int wanted) {
    return wanted == 1 || omp_in_parallel() ? 1 : (int)min(min(wanted, omp_get_thread_limit()), get(team.most) + 1);
}

/* Asked once a tick of the system's clock. */
void follow_main_thread_at_times() {
#if defined(CLOCK_MONOTONIC_COARSE)
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (__atomic_exchange_n(&team.tick, now.tv_nsec, __ATOMIC_RELAXED) == now.tv_nsec) return;
    if (pthread_mutex_trylock(&team.lock)) return;
    follow_main_thread();
    pthread_mutex_unlock(&team.lock);
#endif
}

/* A phase that is nobody's, or NULL. */
Phase *take_phase() {
    uint64_t taken = get(team.taken), bit;
    do {
        bit = ~taken & (taken + 1);
        if (!bit) return NULL;
    } while (!exchange(team.taken, taken, taken | bit));
    return &team.phases[__builtin_ctzll(bit)];
}

thread_local long long waits_here = 0;  // how often the calling thread has blocked for members
/* Wait for the members that are inside; none joins any more. */
void wait_for_members(Phase &phase) {
    const uint64_t joined = members_in(get(phase.state));
    const auto all_left = [&] { return get(phase.left) == joined; };
    if (spin_until(all_left)) return;
    pthread_mutex_lock(&team.lock);
    set(phase.is_awaited, 1);
    for (; !all_left(); waits_here++) pthread_cond_wait(&phase.over, &team.lock);
    set(phase.is_awaited, 0);
    pthread_mutex_unlock(&team.lock);
}

/* Whether other programs want the CPUs: a thread that does not block, but where it waits for members, has had less of its
   core than the time that has passed since the tick before. Then a worker would take from them, or from another caller,
   more than it gives. */
#if defined(__linux__)
bool is_crowded() {
    static thread_local struct { long tick; long long ns, cpu_ns, blocked, waited, preempted; } last;
    struct timespec coarse;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &coarse);
    if (coarse.tv_nsec != last.tick) {
        struct rusage used;
        getrusage(RUSAGE_THREAD, &used);
        const decltype(last) now = {coarse.tv_nsec, clock_ns(), clock_ns(CLOCK_THREAD_CPUTIME_ID),
                                    used.ru_nvcsw, waits_here, used.ru_nivcsw};
        const long long ns = now.ns - last.ns, blocked = now.blocked - last.blocked;
        const bool is_known = ns < LONG_AGO_NS && blocked <= now.waited - last.waited;
        const bool has_less = now.cpu_ns - last.cpu_ns < ns - ns / 4, preempted = now.preempted - last.preempted > blocked;
        if (is_known && has_less && preempted) set(team.crowded_ns, now.ns);
        last = now;
    }
    return get(team.crowded_ns) && clock_ns() - get(team.crowded_ns) < CROWDED_NS;
}
#else
bool is_crowded() { return false; }
#endif

/* Whether another thread has called shortly before, and so may be between two calls. */
thread_local char caller_here;
bool has_others() {
    const void *const last = get(team.last_caller);
    const long long changed = get(team.changed_ns);
    if (last == &caller_here) return changed && clock_ns() - changed < OTHERS_NS;
    const long long now = clock_ns();
    if (now - changed > OTHERS_NS / 2) {
        set(team.last_caller, (const void *)&caller_here);
        if (last) set(team.changed_ns, now);
    }
    return last;
}

/* The product that the calling thread is in: whether workers are called that have blocked, and whether its end counts for
   the next one. */
struct ProductHere {
    bool calls, is_timed;
};
thread_local ProductHere product_here = {};

/* A product of so many vectors begins: how many threads it is to be planned for, of those it may have. A core that another
   caller is taken to have is not a worker's, unless no other can call as long as it runs; who has blocked costs a short
   product more than it gives. */
int begin_product(int threads, double vectors, bool is_only_caller = false) {
    if (threads == 1) return 1;
    ProductHere &here = product_here;
    const int others = add(team.callers, 1), asleep = get(team.asleep), all = get(team.workers);
    here.calls = vectors > WORTH_A_CALL, here.is_timed = !here.calls && asleep;
    if (here.is_timed) here.calls = clock_ns() - get(team.ended_ns) < ONCE_MORE_NS;
    Count workers = min(threads - 1, here.calls ? all : max(0, all - asleep));
    if (workers > 0) workers -= max(others, !is_only_caller && vectors < OF_OTHERS && has_others());
    return workers > 0 && !is_crowded() ? 1 + (int)workers : 1;
}
/* It ends; `threads` are those that it might have had. */
void end_product(int threads) {
    if (threads == 1) return;
    if (product_here.is_timed) set(team.ended_ns, clock_ns());
    product_here = {};
    add(team.callers, -1);
}

/* Call `run` with the caller as member 0, and with as many workers as come, at most `seats`, until one has returned: then
   no piece is left. Returns when all have. */
void run_phase(uint64_t seats, void (*run)(const void *work, int member), const void *work) {
    Phase *const phase = take_phase();
    if (!phase) return run(work, 0);
    follow_main_thread_at_times();
    phase->modes = modes_here(), phase->run = run, phase->work = work;
    set(phase->left, (uint64_t)0), set(phase->seats, seats), set(phase->cpu, cpu_here());
    set(phase->state, (get(phase->state) & ~(NUMBER - 1)) + NUMBER + OPEN);
    __atomic_fetch_or(&team.open, bit_of(*phase), __ATOMIC_SEQ_CST);
    if (product_here.calls && (uint64_t)get(team.spinning) < seats) call_worker();
    run(work, 0);
    close(*phase);
    wait_for_members(*phase);
    clear(team.taken, bit_of(*phase));
}

}  // namespace
