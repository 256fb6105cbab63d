// tuned: as register, with seven ideas more. On a GPU (LOCAL_COPY 1):
//
//     1  local memory     a work-group copies tiles of A and B there, STEP_K deep, and all its work-items read them
//     2  warp tiles       the 32 work-items of a warp compute a compact tile of C: WARP_Y of them down, the rest across
//     3  wide accesses    A_WIDTH, B_WIDTH and C_WIDTH elements at once in global memory, FRAGMENT in local memory
//     4  double buffers   with BUFFERS 2 the next tiles come into registers during the work, and into the other buffer
//     5  layout           tiles lie column after column of A, with PAD elements between, so that no banks collide
//     6  tile order       work-groups go down PANEL tiles of C, then to the next column, so that A and B stay in L2
//     7  split k          SPLIT_K work-groups share the sum of one tile of C; `add_parts` adds their sums in order
//
//     each BLOCK_Y x BLOCK_X tile of C, by one work-group:
//         for p0 in 0..k by STEP_K:
//             tile_a = A[i0:i0+BLOCK_Y, p0:p0+STEP_K], tile_b = B[p0:p0+STEP_K, j0:j0+BLOCK_X]
//             for p in 0..STEP_K:
//                 a = TILE_Y elements of tile_a, b = TILE_X elements of tile_b
//                 for y, x:                         c[y,x] += a[y] b[x]
//         C[i0:i0+BLOCK_Y, j0:j0+BLOCK_X] = c of all work-items
//
// On a CPU (LOCAL_COPY 0) a work-group is one work-item, the tile of C is its own, and b and c are vectors of LANES
// elements. There the caches do what local memory does.
//
// Traffic: A is read n / BLOCK_X times and B m / BLOCK_Y times. From local memory, (TILE_Y + TILE_X) / (TILE_Y TILE_X)
// elements per multiply-add.
//
// A and B may be transposed (A_ALONG_K 0, B_ALONG_K 1). At the edges of C the last rows and columns are read again; at
// the end of k the tiles are filled up with zeros.

#define JOIN_(type, width) type##width
#define JOIN(type, width) JOIN_(type, width)
typedef JOIN(REAL, 2) real2;
typedef JOIN(REAL, 4) real4;
#if LANES == 1
typedef real lanes;
#else
typedef JOIN(REAL, LANES) lanes;
#endif

#define WARP 32
#define WARP_X (WARP / WARP_Y)
#define BLOCK_Y (LOCAL_COPY ? WARPS_Y * WARP_Y * TILE_Y : TILE_Y)
#define BLOCK_X (LOCAL_COPY ? WARPS_X * WARP_X * TILE_X : TILE_X)

// The first row and column of this work-group's tile of C.
int2 first_of_tile()
{
    const int columns = get_num_groups(0), rows = get_num_groups(1);
    const int number = get_group_id(1) * columns + get_group_id(0);
    const int above = number / (PANEL * columns) * PANEL, height = min(PANEL, rows - above);
    const int in_panel = number - above * columns;
    int2 first;
    first.x = in_panel / height * BLOCK_X;
    first.y = (above + in_panel % height) * BLOCK_Y;
    return first;
}

#if LOCAL_COPY

// The vectors of a tile that one work-item copies.
#define EACH(block, width) ((block * STEP_K / width + GROUP_X - 1) / GROUP_X)
#define A_EACH EACH(WARPS_Y * WARP_Y * TILE_Y, A_WIDTH)
#define B_EACH EACH(WARPS_X * WARP_X * TILE_X, B_WIDTH)

void load(real *to, const __global real *from, const int width)
{
    if (width == 4) {
        const real4 all = *(const __global real4 *)from;
        to[0] = all.x, to[1] = all.y, to[2] = all.z, to[3] = all.w;
    } else if (width == 2) {
        const real2 all = *(const __global real2 *)from;
        to[0] = all.x, to[1] = all.y;
    } else
        to[0] = from[0];
}

void load_local(real *to, const LOCAL_POINTER real *from, const int width)
{
    if (width == 4) {
        const real4 all = *(const LOCAL_POINTER real4 *)from;
        to[0] = all.x, to[1] = all.y, to[2] = all.z, to[3] = all.w;
    } else if (width == 2) {
        const real2 all = *(const LOCAL_POINTER real2 *)from;
        to[0] = all.x, to[1] = all.y;
    } else
        to[0] = from[0];
}

void store_local(LOCAL_POINTER real *to, const real *from, const int width)
{
    if (width == 4) {
        real4 all;
        all.x = from[0], all.y = from[1], all.z = from[2], all.w = from[3];
        *(LOCAL_POINTER real4 *)to = all;
    } else if (width == 2) {
        real2 all;
        all.x = from[0], all.y = from[1];
        *(LOCAL_POINTER real2 *)to = all;
    } else
        to[0] = from[0];
}

void store(__global real *to, const real *from, const int width)
{
    if (width == 4) {
        real4 all;
        all.x = from[0], all.y = from[1], all.z = from[2], all.w = from[3];
        *(__global real4 *)to = all;
    } else if (width == 2) {
        real2 all;
        all.x = from[0], all.y = from[1];
        *(__global real2 *)to = all;
    } else
        to[0] = from[0];
}

// The step of k and the row of A (or column of B) where vector `i` of this work-item begins. With `along_k` it holds
// consecutive steps of k, else consecutive rows.
int2 place(const int i, const int block, const int along_k, const int width)
{
    const int number = get_local_id(0) + i * GROUP_X, across = (along_k ? STEP_K : block) / width;
    int2 at;
    at.x = along_k ? number % across * width : number / across;
    at.y = along_k ? number / across : number % across * width;
    return at;
}

// Copy this work-item's part of a tile to registers. `rows` and `steps` of the operand are left.
void fetch(real *next, const __global real *from, const INDEX ld, const int rows, const int steps, const int block,
           const int along_k, const int width, const int each)
{
    #pragma unroll
    for (int i = 0; i < each; i++) {
        const int2 at = place(i, block, along_k, width);
        if (block * STEP_K / width % GROUP_X && at.x * along_k + at.y * along_k >= 0 && get_local_id(0) + i * GROUP_X >= block * STEP_K / width)
            continue;
        const int row = min(at.y, along_k ? rows - 1 : rows - width);
        if (steps >= STEP_K)
            load(next + i * width, from + (along_k ? row * ld + at.x : at.x * ld + row), width);
        else
            #pragma unroll
            for (int e = 0; e < width; e++) {
                const int p = at.x + (along_k ? e : 0), r = row + (along_k ? 0 : e);
                next[i * width + e] = p < steps ? from[along_k ? r * ld + p : p * ld + r] : 0;
            }
    }
}

// Copy it from there to local memory.
void put(LOCAL_POINTER real *tile, const real *next, const int block, const int along_k, const int width,
         const int each)
{
    #pragma unroll
    for (int i = 0; i < each; i++) {
        const int2 at = place(i, block, along_k, width);
        if (block * STEP_K / width % GROUP_X && get_local_id(0) + i * GROUP_X >= block * STEP_K / width)
            continue;
        if (along_k)
            #pragma unroll
            for (int e = 0; e < width; e++)
                tile[(at.x + e) * (block + PAD) + at.y] = next[i * width + e];
        else
            store_local(tile + at.x * (block + PAD) + at.y, next + i * width, width);
    }
}

// The elements of step p that a work-item needs: FRAGMENT in a row, then those of its neighbours in the warp.
void fragments(real *to, const LOCAL_POINTER real *tile, const int p, const int block, const int count,
               const int neighbours)
{
    #pragma unroll
    for (int q = 0; q < count / FRAGMENT; q++)
        load_local(to + q * FRAGMENT, tile + p * (block + PAD) + q * neighbours * FRAGMENT, FRAGMENT);
}

void multiply(real c[TILE_Y][TILE_X], const real *a, const real *b)
{
    #pragma unroll
    for (int y = 0; y < TILE_Y; y++)
        #pragma unroll
        for (int x = 0; x < TILE_X; x++)
            c[y][x] += a[y] * b[x];
}

#define FETCH(p0)                                                                                            \
    fetch(next_a, A + (p0) * (A_ALONG_K ? 1 : lda), lda, m - i0, end - (p0), BLOCK_Y, A_ALONG_K, A_WIDTH, A_EACH); \
    fetch(next_b, B + (p0) * (B_ALONG_K ? 1 : ldb), ldb, n - j0, end - (p0), BLOCK_X, B_ALONG_K, B_WIDTH, B_EACH)
#define PUT(buffer)                                                                       \
    put(tile_a + (buffer) * A_TILE, next_a, BLOCK_Y, A_ALONG_K, A_WIDTH, A_EACH);         \
    put(tile_b + (buffer) * B_TILE, next_b, BLOCK_X, B_ALONG_K, B_WIDTH, B_EACH)
#define FRAGMENTS(to, buffer, p)                                                          \
    fragments(a[to], tile_a + (buffer) * A_TILE + y0, p, BLOCK_Y, TILE_Y, WARP_Y);        \
    fragments(b[to], tile_b + (buffer) * B_TILE + x0, p, BLOCK_X, TILE_X, WARP_X)
#define A_TILE (STEP_K * (BLOCK_Y + PAD))
#define B_TILE (STEP_K * (BLOCK_X + PAD))

__kernel GROUP void gemm(OPERANDS)
{
    __local real4 local_a[BUFFERS * STEP_K * (WARPS_Y * WARP_Y * TILE_Y + PAD) / 4];
    __local real4 local_b[BUFFERS * STEP_K * (WARPS_X * WARP_X * TILE_X + PAD) / 4];
    LOCAL_POINTER real *const tile_a = (LOCAL_POINTER real *)local_a, *const tile_b = (LOCAL_POINTER real *)local_b;
    const int part = get_group_id(2) % SPLIT_K, product = get_group_id(2) / SPLIT_K;
    const int depth = ((k + STEP_K - 1) / STEP_K + SPLIT_K - 1) / SPLIT_K * STEP_K;
    const int begin = part * depth, end = min(k, begin + depth);
    const int2 first = first_of_tile();
    const int i0 = first.y, j0 = first.x;
    A += A_start + product * A_step + i0 * (A_ALONG_K ? lda : 1);
    B += B_start + product * B_step + j0 * (B_ALONG_K ? ldb : 1);
    C += C_start + get_group_id(2) * C_step;

    const int id = get_local_id(0), lane = id % WARP, warp = id / WARP;
    const int y0 = warp / WARPS_X * WARP_Y * TILE_Y + lane / WARP_X * FRAGMENT;
    const int x0 = warp % WARPS_X * WARP_X * TILE_X + lane % WARP_X * FRAGMENT;
    real next_a[A_EACH * A_WIDTH], next_b[B_EACH * B_WIDTH], a[2][TILE_Y], b[2][TILE_X], c[TILE_Y][TILE_X];
    #pragma unroll
    for (int y = 0; y < TILE_Y; y++)
        #pragma unroll
        for (int x = 0; x < TILE_X; x++)
            c[y][x] = 0;

    FETCH(begin);
    PUT(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    int buffer = 0;
#if AHEAD
    FRAGMENTS(0, 0, 0);
    for (int p0 = begin; p0 < end; p0 += STEP_K) {
        const int more = p0 + STEP_K < end;
        if (more) {
            FETCH(p0 + STEP_K);
        }
        #pragma unroll
        for (int p = 0; p < STEP_K; p++) {
            if (p == STEP_K - 1) {
                buffer = 1 - buffer;
                if (more) {
                    PUT(buffer);
                }
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            FRAGMENTS((p + 1) % 2, buffer, (p + 1) % STEP_K);
            multiply(c, a[p % 2], b[p % 2]);
        }
    }
#else
    for (int p0 = begin; p0 < end; p0 += STEP_K) {
        const int more = p0 + STEP_K < end;
        if (more) {
            FETCH(p0 + STEP_K);
        }
        #pragma unroll
        for (int p = 0; p < STEP_K; p++) {
            FRAGMENTS(0, buffer, p);
            multiply(c, a[0], b[0]);
        }
        if (BUFFERS == 1)
            barrier(CLK_LOCAL_MEM_FENCE);
        else
            buffer = 1 - buffer;
        if (more) {
            PUT(buffer);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#endif

    #pragma unroll
    for (int y = 0; y < TILE_Y; y++) {
        const int i = i0 + y0 + y / FRAGMENT * WARP_Y * FRAGMENT + y % FRAGMENT;
        #pragma unroll
        for (int x = 0; x < TILE_X; x += C_WIDTH) {
            const int j = j0 + x0 + x / FRAGMENT * WARP_X * FRAGMENT + x % FRAGMENT;
            if (i < m && j < n)
                store(C + i * ldc + j, c[y] + x, C_WIDTH);
        }
    }
}

#else

// A vector of a row of B or C; `left` elements of the row are left.
lanes load_lanes(const __global real *from, const int left)
{
    if (left >= LANES)
        return JOIN(vload, LANES)(0, from);
    real some[LANES];
    for (int e = 0; e < LANES; e++)
        some[e] = e < left ? from[e] : 0;
    return JOIN(vload, LANES)(0, some);
}

void store_lanes(const lanes all, __global real *to, const int left)
{
    real some[LANES];
    if (left >= LANES)
        JOIN(vstore, LANES)(all, 0, to);
    else {
        JOIN(vstore, LANES)(all, 0, some);
        for (int e = 0; e < left; e++)
            to[e] = some[e];
    }
}

__kernel GROUP void gemm(OPERANDS)
{
    const int part = get_group_id(2) % SPLIT_K, product = get_group_id(2) / SPLIT_K;
    const int depth = (k + SPLIT_K - 1) / SPLIT_K, begin = part * depth, end = min(k, begin + depth);
    const int2 first = first_of_tile();
    const int i0 = first.y, j0 = first.x;
    A += A_start + product * A_step;
    B += B_start + product * B_step + j0;
    C += C_start + get_group_id(2) * C_step;
    const __global real *row[TILE_Y];
    lanes c[TILE_Y][TILE_X / LANES];
    #pragma unroll
    for (int y = 0; y < TILE_Y; y++) {
        row[y] = A + min(i0 + y, m - 1) * lda;
        #pragma unroll
        for (int x = 0; x < TILE_X / LANES; x++)
            c[y][x] = 0;
    }
    if (j0 + TILE_X <= n)
        for (int p = begin; p < end; p++) {
            lanes b[TILE_X / LANES];
            #pragma unroll
            for (int x = 0; x < TILE_X / LANES; x++)
                b[x] = JOIN(vload, LANES)(0, B + p * ldb + x * LANES);
            #pragma unroll
            for (int y = 0; y < TILE_Y; y++)
                #pragma unroll
                for (int x = 0; x < TILE_X / LANES; x++)
                    c[y][x] += row[y][p] * b[x];
        }
    else
        for (int p = begin; p < end; p++)
            #pragma unroll
            for (int x = 0; x < TILE_X / LANES; x++) {
                const lanes b = load_lanes(B + p * ldb + x * LANES, n - j0 - x * LANES);
                #pragma unroll
                for (int y = 0; y < TILE_Y; y++)
                    c[y][x] += row[y][p] * b;
            }
    #pragma unroll
    for (int y = 0; y < TILE_Y; y++)
        #pragma unroll
        for (int x = 0; x < TILE_X / LANES; x++)
            if (i0 + y < m)
                store_lanes(c[y][x], C + (i0 + y) * ldc + j0 + x * LANES, n - j0 - x * LANES);
}

#endif

// C = the sums of the parts of k, in their order.
__kernel void add_parts(const long count, __global const real *parts, __global real *C, const long C_start,
                        const long ldc, const long C_step, const int n, const int m)
{
    const long at = get_global_id(0);
    if (at >= (long)m * n)
        return;
    const long product = get_global_id(1);
    real sum = 0;
    for (int part = 0; part < SPLIT_K; part++)
        sum += parts[(product * SPLIT_K + part) * m * n + at];
    C[C_start + product * C_step + at / n * ldc + at % n] = sum;
}
