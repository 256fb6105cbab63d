/* What all files of cpu-packed share: one product C = A B, the kernel that multiplies it, and what the kernel is given.

       problem          this file: a product, a kernel, the operands of its functions
       simd             vectors of one instruction set
       numeric          the kinds of numbers, and how they are stored
       microkernel      the register tile (microkernel_amx: on AMX)  }  compiled once
       vectors          one column of B, or one row of A             }  for each instruction set;
       pack             panels of A and B, and the way of sums to C  }  kernels.cpp lists the kernels of one
       extents          what is worked out from the machine's caches and pages
       macrokernel      the five loops and their blocks
       in_place         loops on operands as they are stored
       vector_products  loops of a matrix by a vector
       sharing          how a product is shared out to threads, and the rule that chooses
       plan             how a product is computed: every decision, and the bytes that it takes
       run              what carries a plan out, and decides nothing

   Python's side is in `_cpu/packed_backend/`: calls on arrays, the plan in words, memory for panels, kernels that record.

   A is m x k, B is k x n, C is m x n. Strides are in bytes, as BLIS names them: rs_a leads from a row of A to the next,
   cs_a from a column to the next. Any stride will do, zero and negative ones too.

   All names are in an unnamed namespace: no two libraries share a function, which would run one instruction set's
   text on a processor that lacks it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define INLINE inline __attribute__((always_inline))

namespace {

using Count = ptrdiff_t;  // extents, and distances in bytes

struct Kernel;
struct Extents;

/* The operands of a micro-kernel. `depth` counts steps: groups of k, see `Kernel`; `numbers` those of k in them. The
   strides of A and B count where they are not packed; so do `products`, each a step further in A, B and C. */
struct Tile {
    const Kernel *kernel;
    Count rows, columns, depth;
    const char *a; Count rs_a, cs_a;
    const char *b; Count rs_b;
    char *c; Count rs_c, cs_c;
    bool add;     // to what C holds
    bool resume;  // go on with the sums that C holds, or that are kept apart
    bool pauses;  // the sums stay apart, to be gone on with
    char *sums;   // where they are apart, or NULL
    const char *ahead; Count of_ahead;  // what tiles to come read first, and bytes of it to prefetch at each step
    bool narrows; // the sums are whole, and go to C as it is stored
    const char *of_b;  // see `pair_products` of a kernel
    Count products, a_step, b_step, c_step, numbers;
};

/* A piece of A or B to be packed. `across` is the stride from a row of A, or a column of B, to the next; `along` is
   that of k. `width` rows or columns are padded with zeros to `padded`; `depth` counts numbers of k. */
struct Panel {
    const Kernel *kernel;
    void *to;
    const char *from;
    Count across, along, width, padded, depth;
};

/* Sums in a buffer, and the part of C that they go to. */
struct Sums {
    const Kernel *kernel;
    const char *from; Count rs_from;
    char *c; Count rs_c, cs_c, rows, columns;
    bool add;
};

constexpr int UNPACKED_ROWS = 12, MAX_UNPACKED_VECTORS = 8;  // of a tile on operands that are not packed

using MicroKernel = void (*)(const Tile &);
using Pack = void (*)(const Panel &);
using Unpack = void (*)(const Sums &);
using PairProducts = void (*)(const char *panel, Count width, Count pairs, char *to);

/* A matrix by a vector, where numbers of its columns are adjacent, and where those of its rows are. NULL: none at all,
   or dot products instead of rows. */
struct VectorKernels {
    MicroKernel columns, rows;
};

/* How numbers of one dtype are multiplied into sums of one dtype, on one instruction set. */
struct Kernel {
    const char *dtype, *out;   // of A and B, and of C, by NumPy's names
    int mc, kc;                // default rows and depth of a block of A
    int mr, nr;                // the register tile
    int lanes, vectors;        // sums in one vector, vectors of sums in one row of the tile
    int stored_lanes;          // numbers as they are stored in one vector: half as many complex ones as sums of their parts
    int group, step;           // numbers of k that one step multiplies, and their bytes in a panel
    int stored, sum, result;   // bytes of a number of A or B as stored, of a sum, of a number of C
    int parts;                 // numbers that make one sum: 2 if complex
    double cost;               // of a number of k for a vector of sums, in vectors of one that are multiplied and added
    bool as_stored;            // panels of A hold its numbers as they are stored; those of B too, unless they have parts
    bool narrows;              // C is stored in another type than its sums
    bool tiles_narrow;         // tiles may put whole sums to C as it is stored
    bool whole_panels;         // panels of A have MR rows, but for the last
    int unpacked_vectors[UNPACKED_ROWS];      // of the widest tile of so many rows on operands that are not packed,
    int unpacked_rows[MAX_UNPACKED_VECTORS];  // and rows of the highest of so many vectors
    int wide_vectors;                         // of a strip of operands that are not packed, where rows and columns are many
    void (*begin)(), (*end)(); // around a thread's share of tiles, or NULL
    const MicroKernel *packed;       // [rows - 1][vectors - 1]
    const MicroKernel *half_packed;  // the same, but A is as it is stored; or NULL
    const MicroKernel *unpacked;     // [rows - 1][vectors - 1][the last vector of B is whole]; or NULL
    MicroKernel dot, dots;        // one row of A, and `dot_rows` of them, by one column of B; or NULL
    VectorKernels column, row;    // A by one column of B, and one row of A by B
    int dot_rows, vector_rows, column_rows; // rows of `dots`; rows of A, or columns of B, that these take at least, and at most
    Pack pack_a, pack_b;
    Pack copy;          // a panel without conversion, of any width
    Pack gather;        // a panel of B as it is stored, or NULL
    Pack widen;         // numbers of C as they are summed
    Unpack unpack;      // sums to C as it is stored
    Unpack accumulate;  // sums to C as it is summed
    Unpack mirror;      // a block of C to the other side of its diagonal; NULL: C is not symmetric where B is A'
    PairProducts pair_products;  // of each row or column of a panel, what `Paired` subtracts (numeric.hpp); or NULL
    Unpack residues;    // sums of 32 bits to what a modulus leaves of them, in 8; or NULL
    int modulus;
};

/* The same numbers, multiplied into residues of the sums: the nearest to 0, 8 bits each. */
INLINE Kernel with_modulus(const Kernel &kernel, int modulus) {
    Kernel x = kernel;
    x.modulus = modulus, x.unpack = kernel.residues, x.narrows = true, x.result = 1, x.mirror = nullptr;
    return x;
}

/* One product, C = A B or, if it accumulates, C = C + A B. */
struct Product {
    const Kernel *kernel;
    const Extents *extents;  // of the machine
    Count m, n, k;
    const char *a; Count rs_a, cs_a;
    const char *b; Count rs_b, cs_b;
    char *c; Count rs_c, cs_c;
    int threads;
    double team_flop;    // what a team of two threads costs, in floating-point operations of one
    Count mc, kc, nc;    // blocks: rows of A at most, depth, columns of B at most
    Count max_b;         // bytes of a packed block of B; 0 for the default
    bool narrows;        // C is stored in another type than its sums
    bool accumulate;     // what C holds is the first addend
    bool of_transposes;  // B is A', the same numbers in memory: see `is_symmetric`
    const char *packed;  // all of B's panels, made before, or NULL; B is not read then
    Count packed_n, packed_j;  // columns in them, and the one where this B begins
    char *buffer;        // of the plan's `workspace` bytes, at a multiple of PAGE, or of LINE if it is less than one
};

/* Products of a batch with equal steps from each to the next. */
struct Steps {
    Count products, a, b, c;
};

constexpr int MAX_MR = 32, MAX_VECTORS = 4, MAX_VECTOR_BYTES = 64;
constexpr Count LINE = 128;       // bytes: two cache lines, which are often fetched together, or one of Apple
constexpr Count PAGE = 4096;      // bytes, in which a processor reads ahead
constexpr Count DOT_KC = 4096;    // kc where B is one column, whose sums are in lanes of k

INLINE Count min(Count x, Count y) { return x < y ? x : y; }
INLINE Count max(Count x, Count y) { return x > y ? x : y; }
/* Small products go without the divisions, which would cost them more than their arithmetic. */
INLINE Count ceil_div(Count extent, Count size) { return extent <= size ? extent > 0 : (extent + size - 1) / size; }
INLINE Count round_up(Count extent, Count step) { return ceil_div(extent, step) * step; }
/* The same for powers of two, which need no division. */
INLINE Count ceil_div_2(Count extent, int size) { return (extent + size - 1) >> __builtin_ctz(size); }
INLINE Count round_up_2(Count extent, Count step) { return (extent + step - 1) & -step; }
/* So many bytes, in whole cache lines. */
INLINE Count whole_lines(Count bytes) { return round_up_2(bytes, LINE); }
/* Where part `i` of `count` equal parts begins. */
INLINE Count share(Count extent, Count i, Count count) {
    return count == 1 ? extent * i : extent / count * i + min(i, extent % count);
}

}  // namespace
