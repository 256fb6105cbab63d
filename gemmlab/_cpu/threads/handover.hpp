/* Whether a product gives the interpreter's lock to other threads while it runs.

   Without the lock, threads of Python multiply at the same time. But a thread that waits for the lock has blocked, and to
   wake it takes microseconds, on virtual machines tens. A short product takes less, and keeps the lock; a long one gives it
   away. For those between, while several threads multiply, both are tried in turn, and what all threads together have
   multiplied decides for some time. */
#pragma once

#include "team.hpp"

namespace {

constexpr double SHORT_VECTORS = 1e4;   // multiplied and added: two or three microseconds
constexpr double MIDDLE_VECTORS = 3e5;  // some sixty: more than any waking takes
constexpr long long TRIAL_NS = 20000000, CHOSEN_NS = 20 * TRIAL_NS;

/* Read and written by who has the lock. */
class Handover {
    enum { GIVING, KEEPING, CHOSEN } period = GIVING;
    long long begun_ns = 0;    // of the period; 0: one thread alone multiplies
    double vectors_done = 0, rate_giving = 0;
    long products = 0, beside_others = 0;
    bool keeps_middle = false;

    void begin(decltype(GIVING) next, bool keeps, long long now) {
        period = next, keeps_middle = keeps, begun_ns = now, vectors_done = 0, products = beside_others = 0;
    }

  public:
    int away = 0;  // products without the lock: that run, or wait to have it back

    bool keeps(double vectors) const { return vectors < SHORT_VECTORS || (vectors < MIDDLE_VECTORS && keeps_middle); }
    bool counts(double vectors) const {
        return SHORT_VECTORS <= vectors && vectors < MIDDLE_VECTORS && (begun_ns || away);
    }
    /* A product that counts has ended, which had begun beside others that were without the lock. */
    void note(double vectors, int others, long long now) {
        const long long passed = now - begun_ns, length = period == CHOSEN ? CHOSEN_NS : TRIAL_NS;
        if (passed > 2 * length) return begin(GIVING, false, now);  // the first one, or the first one for long
        vectors_done += vectors, products++, beside_others += others > 0;
        if (passed < length) return;
        const double rate = vectors_done / (double)passed;
        if (!keeps_middle && beside_others < products / 2) begin(GIVING, false, 0);
        else if (period == GIVING) rate_giving = rate, begin(KEEPING, true, now);
        else if (period == KEEPING) begin(CHOSEN, rate > rate_giving, now);
        else begin(GIVING, false, now);
    }
};

}  // namespace
