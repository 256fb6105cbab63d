/* Independent chains that keep a core's multipliers busy, each in one register.

   A multiply-add takes about 4 cycles, and a core starts 2 in each (large ARM cores 4), so 8 (16)
   independent chains keep it busy. x86-64-v2 has no fused multiply-add: a multiply and an add follow each
   other, the same 2 flops in 6 to 8 cycles, and 14 chains with two operands take all 16 registers of SSE.
   The chains are separate variables, because an array of them is spilled to the stack. */
#ifndef GEMMLAB_CHAINS_H
#define GEMMLAB_CHAINS_H

#include "vector.h"

#if defined(__ARM_NEON) || defined(__VSX__)
#define CHAINS 16
#define FOR_EACH_CHAIN(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) \
                           DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15)
#else
#define CHAINS 14
#define FOR_EACH_CHAIN(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) \
                           DO(8) DO(9) DO(10) DO(11) DO(12) DO(13)
#endif
#define KEEP_CHAIN(i) __asm__ volatile("" : "+" KEEP(a##i));

#endif
