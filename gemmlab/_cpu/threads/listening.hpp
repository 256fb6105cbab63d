/* A long product listens: its caller asks at times whether to end early, and then takes no more pieces, nor does anybody. */
#pragma once

#include "team.hpp"

namespace {

constexpr double LONG_VECTORS = 1e8;  // multiplied and added: a product of fewer ends soon enough
constexpr long long LISTENED_EACH_NS = 250000000;  // asking may wait for other threads of Python

struct Listening {
    int (*ask)();
    long long asked_ns;
    bool is_over;
};
thread_local Listening *listening = NULL;

/* From now on, the product that the calling thread is in listens, if this is the main thread. */
void listen(Listening *here, int (*ask)()) {
    *here = {ask, clock_ns(), false};
    if (may_be_main_thread()) listening = here;
}
/* It has ended: whether early. */
bool stop_listening() {
    const bool is_over = listening && listening->is_over;
    listening = NULL;
    return is_over;
}

/* Whether it ends early. */
INLINE bool is_over() {
    Listening *const here = listening;
    if (!here || here->is_over) return here;
    const long long now = clock_ns();
    if (now - here->asked_ns < LISTENED_EACH_NS) return false;
    here->asked_ns = now;
    return here->is_over = here->ask();
}

}  // namespace
