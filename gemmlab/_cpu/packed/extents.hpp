/* What the loops take for a cache, a page or a line, worked out from what the machine says of itself. Every such number
   is here, with its formula; the numbers left beside the loops are counts that no machine changes. None of these
   changes a bit of a result: the depth of a block, kc, which does, is in the tables of kernels.cpp.

   The source is Low, Igual, Smith and Quintana-Orti, "Analytical Modeling Is Enough for High-Performance BLIS" (ACM
   TOMS 2016): a block is to stay in its cache while others pass through it, so it gets what these leave of the ways.
   There the block of k is the outer loop, and L2 holds a block of A while panels of B pass. Here L2 holds a strip of C
   too, from one block of k to the next, while A and B pass; so the shares are smaller than the paper's. */
#pragma once

#include "problem.hpp"

namespace {

/* The readings, in bytes: of caches, what belongs to one core. `_cpu/machine.py` reads and clamps them. */
struct Machine {
    Count l1, l1_way;       // a way: addresses at this distance share a set
    Count l2;
    Count l3;               // a core's share, or 0
    Count page, huge_page;  // huge: or 0
};

struct Extents {
    Count in_place;           // bytes of B that is multiplied as it is stored, for more than a few rows
    Count at_once;            // bytes of the products of a batch that a tile goes through
    Count conflict;           // rows of C at this distance, or a multiple of it, evict each other
    Count a_in_l2;            // bytes of a packed block of A, as deep as B is packed
    Count strip_columns;      // of C, at most
    Count thin_b;             // bytes of packed B that few rows use, and soon no longer
    Count a_of_a_thread;      // bytes of packed A that a thread keeps
    Count b_of_a_thread;      // bytes of a packed block of B for each thread of a team,
    Count min_b;              // and at least
    Count round;              // bytes of the partial results that are added at a time, if they are more than threads
    Count huge_page;          // buffers of this size or more begin at one; or 0
};

constexpr Count KIB = 1 << 10, MIB = 1 << 20;

/* L1. In place, B comes from L1 and L2 in turn, and that costs nothing up to 8/3 of L1, by measurement; and from no more
   pages than the smallest table of them has room for beside A and C, half of 64.
   L2. A quarter for A, a quarter for what few rows take of B. From one block of k to the next, a strip of C stays while
   as many columns of B pass, 4 KiB each with what is read ahead: half of L2.
   L3. A core's share: half for packed A that is used again, half for its part of packed B. A virtual machine may report
   the whole of a cache that it shares with others, so no more than 4 MiB is believed; where the share is small or none,
   2 MiB, since fewer columns of B would not pay for packing A for each. One thread may take what another leaves. */
INLINE Extents extents_of(const Machine &x) {
    const Count share = max(2 * MIB, min(x.l3, 4 * MIB)) / 2;
    Count columns = 64;
    while (columns < 512 && 2 * columns * 4 * KIB <= x.l2) columns *= 2;
    return {
        .in_place = min(min(8 * x.l1 / 3, x.l2 / 4), 32 * x.page),
        .at_once = x.l1 / 4,
        .conflict = x.l1_way,
        .a_in_l2 = x.l2 / 4,
        .strip_columns = columns,
        .thin_b = max(x.l2 / 4, 128 * KIB),
        .a_of_a_thread = share, .b_of_a_thread = share, .min_b = 2 * share, .round = 2 * share,
        .huge_page = x.huge_page <= 4 * MIB ? x.huge_page : 0,
    };
}

/* Bytes of a panel that the micro-kernel reads ahead of a step, which takes so many bytes and cycles: as many as pass
   while a line comes from L3, in about 112 cycles. It is worked out when the kernel is compiled, for its registers. */
constexpr int bytes_ahead(int bytes, int cycles) {
    int ahead = 256;
    while (2 * ahead * cycles <= 112 * bytes) ahead *= 2;
    return ahead;
}

}  // namespace
