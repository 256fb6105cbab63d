/* The pieces of a phase, and who takes them. */
#pragma once

#include "listening.hpp"

namespace {

/* Pieces of a phase, numbered from 0: a range of them for each member, and for those who have finished theirs, what is left
   of the others'. */
constexpr int MAX_RANGES = 64;
struct Ranges {
    int count;
    struct alignas(64) Range {
        Count next, end;
    } at[MAX_RANGES];

    Ranges(Count pieces, int members) : count((int)min(min(members, MAX_RANGES), pieces)) {
        for (int i = 0; i < count; i++) at[i].next = share(pieces, i, count), at[i].end = share(pieces, i + 1, count);
    }
    void close() {
        for (int i = 0; i < count; i++) __atomic_store_n(&at[i].next, at[i].end, __ATOMIC_RELAXED);
    }
};
class Pieces {
    Ranges &ranges;
    int mine, passed = 0;

  public:
    Pieces(Ranges &ranges, int member) : ranges(ranges), mine(member % ranges.count) {}

    /* A piece that nobody has taken, or -1: none is left, or the product ends early. */
    INLINE Count take() {
        if (is_over()) ranges.close();
        for (; passed < ranges.count; passed++, mine = mine + 1 == ranges.count ? 0 : mine + 1) {
            Ranges::Range &range = ranges.at[mine];
            if (__atomic_load_n(&range.next, __ATOMIC_RELAXED) >= range.end) continue;
            const Count piece = __atomic_fetch_add(&range.next, 1, __ATOMIC_RELAXED);
            if (piece < range.end) return piece;
        }
        return -1;
    }
};

/* Call `body(member, pieces)` in the caller and in as many workers as come. There are at most `threads` members. */
template <class Body> void share_out(int threads, Count pieces, const Body &body) {
    struct Work {
        const Body &body;
        Ranges &ranges;
    };
    if (pieces < 1) return;
    Ranges ranges(pieces, threads);
    const Work work = {body, ranges};
    const auto run = [](const void *given, int member) {
        const Work &work = *(const Work *)given;
        Pieces pieces(work.ranges, member);
        work.body(member, pieces);
    };
    const uint64_t seats = (uint64_t)min(pieces, threads) - 1;
    seats ? run_phase(seats, run, &work) : run(&work, 0);
}

/* The pieces of a task of another library, in the caller and in as many workers as come. */
using Task = void (*)(const void *work, Count piece);
void share_task(int threads, Count pieces, Task task, const void *work) {
    share_out(threads, pieces, [&](int, Pieces &some) {
        for (Count i; (i = some.take()) >= 0;) task(work, i);
    });
}

}  // namespace
