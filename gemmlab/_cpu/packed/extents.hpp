/* What the loops take for a cache, worked out from what the machine says of itself. Every such number is
   here, with its formula; the numbers beside the loops are counts that no machine changes. None of these changes a bit
   of a result: the depth of a block, kc, which does, is in the table of kernels.cpp.

   The source is Low, Igual, Smith and Quintana-Orti, "Analytical Modeling Is Enough for High-Performance BLIS" (ACM
   TOMS 2016): a block is to stay in its cache while others pass, so it gets the ways that these leave. Where the loops
   are not those of BLIS, the shares were found by simulating the caches of other machines, and by measuring. */
#pragma once

#include "problem.hpp"

namespace {

/* The readings, in bytes; of caches, what belongs to one core. `_cpu/machine.py` reads and clamps them. */
struct Machine {
    Count l1, l1_way;       // a way: addresses at this distance share a set
    Count l2, l2_way;
    Count l3;               // a core's share, or 0
    Count huge_page;        // or 0
};

/* All in bytes. */
struct Extents {
    Count at_once;        // products of a batch that a tile goes through
    Count panel;          // of B, for tiles that ask for more than L2 gives
    Count conflict, ways; // of L1: addresses at this distance, or a multiple of it, share a set; so many of them fit
    Count l2, l2_way;
    Count in_place;       // B that is multiplied as it is stored by any number of rows,
    Count rows_in_l1;     // some rows of B, for all rows of A,
    Count few_rows_sums;  // sums of a few rows, which are loaded and stored once for some rows of B
    Count short_k_b;      // B that whole rows of C pass by
    Count deep_a;         // a block of A, as deep as B is packed
    Count thin_b;         // packed B that only few rows use
    Count a_of_a_thread;  // packed A that a thread keeps
    Count b_of_a_thread;  // a packed block of B, for each thread of a team,
    Count min_b;          // and at least
    Count round;          // partial results that are added at a time, if they are more than threads
    Count huge_page;      // buffers of this size or more begin at a multiple of it; or 0
};

constexpr Count KIB = 1 << 10, MIB = 1 << 20;

/* L1    A quarter is for what is used at once, a third for a panel of B while A passes by from L2 (measured on AMX), and
         two thirds for rows of B that go through all rows of A. Rows that are a way apart share a set. Of B as it is
         stored, three eighths stay, and the rest is read again from L2 for each tile of rows (measured).
   L2    Half is for B as it is stored where rows of C pass by it; a quarter for the sums of a few rows, for A as deep
         as B is packed, and for B that few rows use. For the last two, 512 KiB pay on a smaller L2 too (simulated):
         a part of them comes from L3 then, but B is read, or A packed, for fewer blocks.
   L3    Half of a core's share is for packed A that is used again, half for its part of packed B. A machine without L3
         has L2 for that. Of a share, 4 MiB are believed: a virtual machine may report what others use too. */
INLINE Extents extents_of(const Machine &x) {
    const Count last = min(max(x.l3, x.l2), 4 * MIB), deep = max(x.l2 / 4, 512 * KIB);
    return {.at_once = x.l1 / 4, .panel = x.l1 / 3, .conflict = x.l1_way, .ways = x.l1 / x.l1_way, .l2 = x.l2,
            .l2_way = x.l2_way, .in_place = min(8 * x.l1 / 3, x.l2 / 4), .rows_in_l1 = 2 * x.l1 / 3, .few_rows_sums = x.l2 / 4,
            .short_k_b = x.l2 / 2, .deep_a = deep, .thin_b = deep, .a_of_a_thread = last / 2, .b_of_a_thread = last / 2,
            .min_b = last, .round = last, .huge_page = x.huge_page};
}

/* Bytes of packed A that L2 holds, one block of k deep, while panels of B of so many bytes pass: the paper's
   inequality. One way is for C, and as many for B as a panel fills. */
INLINE Count block_of_a_bytes(const Extents &x, Count panel) {
    return max(x.l2 / 4, x.l2 - (1 + ceil_div(panel, x.l2_way)) * x.l2_way);
}

/* Bytes of a panel of B that the micro-kernel reads ahead of a step of k, which takes so many bytes and cycles: as many
   as pass while a line comes from L3, in about 112 cycles. The kernel's registers say how many, so this is compiled. */
constexpr int bytes_ahead(int bytes, int cycles) {
    int ahead = 256;
    while (2 * ahead * cycles <= 112 * bytes) ahead *= 2;
    return ahead;
}

}  // namespace
