/* Kernels that observe a product: one clocks its packing, the other records what would be done and multiplies nothing.

   Each is a copy of the kernel with other functions. The loops are those of any product: they see no difference. */
#pragma once

#include "team.hpp"

namespace {

/* Packing with a clock beside it; what all threads spend is summed. */
struct ClockedKernel : Kernel {
    const Kernel *real;
    long long ns;
};

void clocked_pack(const Panel &x, Pack Kernel::*pack) {
    ClockedKernel &clocked = *(ClockedKernel *)x.kernel;
    const long long start = clock_ns();
    (clocked.real->*pack)(x);
    __atomic_fetch_add(&clocked.ns, clock_ns() - start, __ATOMIC_RELAXED);
}
void clocked_pack_a(const Panel &x) { clocked_pack(x, &Kernel::pack_a); }
void clocked_pack_b(const Panel &x) { clocked_pack(x, &Kernel::pack_b); }
void clocked_gather(const Panel &x) { clocked_pack(x, &Kernel::gather); }

ClockedKernel clocked_kernel(const Kernel &kernel) {
    ClockedKernel clocked = {kernel, &kernel, 0};
    clocked.pack_a = clocked_pack_a, clocked.pack_b = clocked_pack_b, clocked.gather = clocked_gather;
    return clocked;
}

/* Which function of a kernel was called. */
enum Call { PACK_A, PACK_B, PACKED_TILE, UNPACKED_TILE, DOT_TILE, VECTOR_TILE, UNPACK, MIRROR };

/* What a product is recorded by. `call` has the extents in numbers and an address: of the operand packed, else of C.
   `access` has bytes that are read or written, in order; what it returns is no longer 0 when it wants no more. */
struct Recorder {
    void *context;
    void (*call)(void *context, Call what, const Count extents[3], const void *address);
    int (*access)(void *context, const void *address, Count bytes, int write);
};

struct RecordingKernel : Kernel {
    Recorder recorder;
    bool stopped;
};

/* One function's recording. A loop over adjacent numbers goes vector by vector, so each piece of memory is one access
   a pass; prefetches are left out, since what they name is read anyway. */
struct Recording {
    RecordingKernel &kernel;
    const Recorder &recorder;

    Recording(const Kernel *x) : kernel(*(RecordingKernel *)x), recorder(kernel.recorder) {}

    void call(Call what, Count rows, Count columns, Count depth, const void *address) const {
        const Count extents[3] = {rows, columns, depth};
        if (recorder.call) recorder.call(recorder.context, what, extents, address);
    }
    bool wanted() const { return recorder.access && !kernel.stopped; }
    void access(const char *address, Count bytes, int write) const {
        if (wanted() && recorder.access(recorder.context, address, bytes, write)) kernel.stopped = true;
    }
    void read(const char *address, Count bytes) const { access(address, bytes, 0); }
    void write(const char *address, Count bytes) const { access(address, bytes, 1); }

    /* Numbers of `size` bytes, one after the other, in one piece if they are adjacent. */
    void row(const char *address, Count stride, Count count, Count size, int written) const {
        if (stride == size) return access(address, count * size, written);
        for (Count i = 0; i < count; i++) access(address + i * stride, size, written);
    }

    /* What a step of k multiplies of A as it is stored: some numbers of each row. */
    void numbers_of_a(const Tile &x, Count p) const {
        const Count first = p * kernel.group, count = kernel.group == 1 ? 1 : min(kernel.group, x.numbers - first);
        for (Count i = 0; i < x.rows; i++) read(x.a + i * x.rs_a + first * x.cs_a, count * kernel.stored);
    }

    /* A tile of C: all its rows are read, if they are added to, and then all are written. */
    void put(const Tile &x) const {
        for (int written = !x.add; written < 2; written++) sums(x, written);
    }
    void sums(const Tile &x, int written) const {
        const Count size = x.narrows ? kernel.result : kernel.sum;
        for (Count i = 0; i < x.rows; i++) row(x.c + i * x.rs_c, x.cs_c, x.columns, size, written);
    }
};

/* As in pack.hpp: rows of the panel as they are stored, or squares of vectors, or number by number. `unit` numbers of k
   are side by side in `bytes` of a panel. */
void record_panel(const Recording &to, const Panel &x, Count unit, Count bytes) {
    const Kernel &kernel = to.kernel;
    const Count size = kernel.stored, lanes = kernel.lanes, rows = ceil_div(x.depth, unit), row_bytes = x.padded * bytes;
    char *const panel = (char *)x.to;
    if (x.along == size && x.across != size && kernel.parts == 1) {
        for (Count p = 0; p < rows; p += lanes)
            for (Count i = (x.padded - 1) / lanes * lanes; i >= 0; i -= lanes) {
                const Count numbers = min(lanes * unit, x.depth - p * unit), columns = min(lanes, x.padded - i);
                for (Count r = i; r < min(i + lanes, x.width); r++)
                    to.read(x.from + r * x.across + p * unit * size, numbers * size);
                for (Count q = p; q < min(p + lanes, rows); q++) to.write(panel + q * row_bytes + i * bytes, columns * bytes);
            }
        return;
    }
    for (Count p = 0; p < rows; p++) {
        for (Count q = p * unit; q < min((p + 1) * unit, x.depth); q++)
            to.row(x.from + q * x.along, x.across, x.width, size, 0);
        to.write(panel + p * row_bytes, row_bytes);
    }
}

void record_pack_a(const Panel &x) {
    const Recording to(x.kernel);
    to.call(PACK_A, x.width, 0, x.depth, x.from);
    if (to.wanted()) record_panel(to, x, to.kernel.group, to.kernel.step);
}
void record_pack_b(const Panel &x) {
    const Recording to(x.kernel);
    to.call(PACK_B, 0, x.width, x.depth, x.from);
    const Count in_4_bytes = 4 / to.kernel.stored;  // on AMX, a step of B is 16 rows of the panel
    if (to.wanted()) to.kernel.whole_panels ? record_panel(to, x, in_4_bytes, 4)
                                            : record_panel(to, x, to.kernel.group, to.kernel.step);
}

/* A step reads vectors of B, and of each row of A what is multiplied, from a panel or where it is stored. */
template <bool A_IS_PACKED> void record_tile_of_panels(const Tile &x) {
    const Recording to(x.kernel);
    const Kernel &kernel = to.kernel;
    const Count lanes = kernel.parts == 1 && !kernel.whole_panels ? kernel.lanes : kernel.nr;
    const Count apart = round_up(x.rows, kernel.mr) * kernel.nr * kernel.sum;  // bytes of sums, where tiles pause
    to.call(PACKED_TILE, x.rows, x.columns, x.depth * kernel.group, x.c);
    if (x.resume) to.read(x.sums, apart);
    for (Count p = 0; p < x.depth && to.wanted(); p++) {
        to.read(x.b + p * kernel.nr * kernel.step, round_up_2(x.columns, lanes) * kernel.step);
        if (A_IS_PACKED) to.read(x.a + p * x.rows * kernel.step, x.rows * kernel.step);
        else to.numbers_of_a(x, p);
    }
    x.pauses ? to.write(x.sums, apart) : to.put(x);
}

void record_unpacked_tile(const Tile &x) {
    const Recording to(x.kernel);
    to.call(UNPACKED_TILE, x.rows, x.columns, x.depth, x.c);
    for (Tile y = x; y.products > 0; y.products--, y.a += y.a_step, y.b += y.b_step, y.c += y.c_step) {
        if (y.resume) to.sums(y, 0);
        for (Count p = 0; p < y.depth && to.wanted(); p++) {
            to.read(y.b + p * y.rs_b, y.columns * to.kernel.sum);
            to.numbers_of_a(y, p);
        }
        to.put(y);
    }
}

void record_dot(const Tile &x) {
    const Recording to(x.kernel);
    const Count vector = to.kernel.lanes * to.kernel.sum, bytes = x.depth * to.kernel.sum;
    for (Tile y = x; y.products > 0; y.products--, y.a += y.a_step, y.b += y.b_step, y.c += y.c_step) {
        to.call(DOT_TILE, y.rows, y.columns, y.depth, y.c);
        for (Count at = 0; at < bytes && to.wanted(); at += vector) {
            to.read(y.b + at, min(vector, bytes - at));
            for (Count i = 0; i < y.rows; i++) to.read(y.a + i * y.rs_a + at, min(vector, bytes - at));
        }
        to.put(y);
    }
}

/* A matrix by a vector; sums are in registers or L1. Columns are recorded in the order of k, not in that of their sums. */
void record_columns(const Tile &x) {
    const Recording to(x.kernel);
    to.call(VECTOR_TILE, x.rows, x.columns, x.depth, x.c);
    for (Count p = 0; p < x.depth && to.wanted(); p++) {
        to.read(x.b + p * to.kernel.sum, to.kernel.sum);
        to.read(x.a + p * x.cs_a, x.rows * to.kernel.stored);
    }
    to.put(x);
}
void record_rows(const Tile &x) {
    const Recording to(x.kernel);
    const Count some = to.kernel.vector_rows;
    to.call(VECTOR_TILE, x.rows, x.columns, x.depth, x.c);
    for (Count i = 0; i < x.rows; i += some)
        for (Count p = 0; p < x.depth && to.wanted(); p += some) {
            const Count numbers = min(some, x.depth - p);
            to.read(x.b + p * to.kernel.sum, numbers * to.kernel.sum);
            for (Count r = i; r < min(i + some, x.rows); r++)
                to.read(x.a + r * x.rs_a + p * to.kernel.stored, numbers * to.kernel.stored);
        }
    to.put(x);
}
VectorKernels recorded(const VectorKernels &x) {
    return {x.columns ? record_columns : NULL, x.rows ? record_rows : NULL};
}

/* One pass over each row, a cache line at a time. */
void record_unpack(const Sums &x) {
    const Recording to(x.kernel);
    const Count sum = to.kernel.sum, result = to.kernel.result, some = x.cs_c == result ? 64 / max(sum, result) : 1;
    to.call(UNPACK, x.rows, x.columns, 0, x.c);
    for (Count i = 0; i < x.rows && to.wanted(); i++)
        for (Count j = 0; j < x.columns; j += some) {
            const Count count = min(some, x.columns - j);
            to.read(x.from + i * x.rs_from + j * sum, count * sum);
            to.write(x.c + i * x.rs_c + j * x.cs_c, count * result);
        }
}

/* Row by row of a block, each to a column of another. */
void record_mirror(const Sums &x) {
    const Recording to(x.kernel);
    to.call(MIRROR, x.rows, x.columns, 0, x.from);
    for (Count i = 0; i < x.rows && to.wanted(); i++) {
        to.row(x.from + i * x.rs_c, x.cs_c, x.columns, to.kernel.result, 0);
        to.row(x.c + i * x.cs_c, x.rs_c, x.columns, to.kernel.result, 1);
    }
}

/* Sums that are added to C, or put there. */
void record_accumulate(const Sums &x) {
    const Recording to(x.kernel);
    const Count sum = to.kernel.sum;
    for (Count i = 0; i < x.rows && to.wanted(); i++) {
        to.read(x.from + i * x.rs_from, x.columns * sum);
        for (int written = !x.add; written < 2; written++)
            to.row(x.c + i * x.rs_c, x.cs_c, x.columns, sum, written);
    }
}

template <MicroKernel record, int N> struct Recorded {
    MicroKernel at[N];
    constexpr Recorded() : at() {
        for (MicroKernel &one : at) one = record;
    }
};
constexpr Recorded<record_tile_of_panels<true>, MAX_MR * MAX_VECTORS> RECORDED_PACKED;
constexpr Recorded<record_tile_of_panels<false>, MAX_MR * MAX_VECTORS> RECORDED_HALF_PACKED;
constexpr Recorded<record_unpacked_tile, UNPACKED_ROWS * MAX_UNPACKED_VECTORS * 2> RECORDED_UNPACKED;

void pair_nothing(const char *, Count, Count, char *) {}

RecordingKernel recording_kernel(const Kernel &kernel, const Recorder &recorder) {
    RecordingKernel recording = {kernel, recorder, false};
    recording.begin = recording.end = NULL;
    recording.pack_a = recording.copy = record_pack_a, recording.pack_b = recording.gather = record_pack_b;
    recording.pair_products = kernel.pair_products ? pair_nothing : NULL;
    recording.packed = RECORDED_PACKED.at, recording.unpacked = kernel.unpacked ? RECORDED_UNPACKED.at : NULL;
    recording.half_packed = kernel.half_packed ? RECORDED_HALF_PACKED.at : NULL;
    recording.dot = recording.dots = kernel.dot ? record_dot : NULL;
    recording.column = recorded(kernel.column), recording.row = recorded(kernel.row);
    recording.mirror = kernel.mirror ? record_mirror : NULL;
    recording.unpack = record_unpack, recording.accumulate = record_accumulate;
    return recording;
}

}  // namespace
