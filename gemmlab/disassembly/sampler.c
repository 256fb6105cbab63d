/* Notes the address of the instruction that the processor is at, each time that a process has used some of its time.

   One sampler a process; `start` gives it memory for so many addresses, `stop` says how many there are. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>

static uintptr_t *addresses;
static volatile long room, count;
static struct sigaction before;

static void note(int number, siginfo_t *information, void *context) {
    (void)number, (void)information;
    const ucontext_t *at = context;
    if (count < room)
#if defined(__x86_64__)
        addresses[count++] = (uintptr_t)at->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
        addresses[count++] = (uintptr_t)at->uc_mcontext.pc;
#endif
}

__attribute__((visibility("default"))) int gemmlab_start_sampler(uintptr_t *memory, long numbers, long microseconds) {
    struct sigaction action;
    const struct timeval every = {0, microseconds};
    const struct itimerval timer = {every, every};
    addresses = memory, room = numbers, count = 0;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = note;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    return sigaction(SIGPROF, &action, &before) || setitimer(ITIMER_PROF, &timer, 0);
}

__attribute__((visibility("default"))) long gemmlab_stop_sampler(void) {
    const struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_PROF, &never, 0);
    sigaction(SIGPROF, &before, 0);
    return count;
}
