// tuned: as register, with eight ideas more, for GPUs. tuned_cpu.cl is the form for CPU devices.
//
//     local memory     a work-group copies tiles of A and B there, STEP_K deep, and all its work-items read them
//     wide accesses    16 bytes at a time (WIDE elements), in local memory and, where the layout allows, in global memory
//     double buffers   the next tiles come to registers during the work and, with BUFFERS 2, then to the other buffer
//     warp tiles       the 32 work-items of a warp, WARP_Y of them down, compute a compact tile of C; QUADS: see below
//     serpentine       with SERPENTINE 1, odd rows of a tile go backwards: each multiply-add shares a or b with the last
//     padding          PAD elements between the columns of a tile, so that writes to it hit different banks
//     tile order       work-groups go down GROUP_M tiles of C, then to the next column: A and B are found in L2
//     even waves       tiles that would not fill the device are cut along k into equal shares; see `EVEN_WAVES`
//
//     each BLOCK_Y x BLOCK_X tile of C, by a work-group:
//         for p0 in 0..k by STEP_K, or in a share of them:
//             tile_a = A[i0:i0+BLOCK_Y, p0:p0+STEP_K], tile_b = B[p0:p0+STEP_K, j0:j0+BLOCK_X]
//             for p in 0..STEP_K, by each work-item:
//                 a = TILE_Y elements of tile_a[:,p], b = TILE_X elements of tile_b[p,:]
//                 for y, x:                         c[y,x] += a[y] b[x]
//         C[i0:i0+BLOCK_Y, j0:j0+BLOCK_X] = c of all work-items
//
// Source: CUTLASS and the guide of Boehm for the tiles of work-groups, warps and work-items.
//
// Traffic: A is read n / BLOCK_X times and B m / BLOCK_Y times from global memory. From local memory come
// (TILE_Y + TILE_X) / (TILE_Y TILE_X) elements per multiply-add.
//
// A and B may be transposed: A_ALONG_K and B_ALONG_K say along which axis they are contiguous. At the edges of C the
// last rows and columns are read again; at the end of k the tiles are filled up with zeros.

#define WARP 32
#define WARP_X (WARP / WARP_Y)
// The place of a work-item in its warp, whose tiles of C are WARP_X times WARP_Y. With QUADS every four in a row make a
// square: of two neighbours one needs the same elements of A, the other the same of B, and hardware that joins the
// loads of such neighbours reads each tile in half the time.
#define LANE ((int)get_local_id(0) % WARP)
#if QUADS
#define LANE_Y (LANE / 2 % 2 + LANE / (2 * WARP_X) * 2)
#define LANE_X (LANE % 2 + LANE / 4 % (WARP_X / 2) * 2)
#else
#define LANE_Y (LANE / WARP_X)
#define LANE_X (LANE % WARP_X)
#endif
#define VECTORS(block, width) ((block) * STEP_K / (width))
#define EACH(block, width) ((VECTORS(block, width) + GROUP_X - 1) / GROUP_X) // vectors that a work-item copies
#define LD(block) ((block) + PAD)

void load(real *to, const __global stored *from, const int width)
{
    if (width == 1) {
        *to = READ(from);
        return;
    }
    const wide all = READ_WIDE(from);
    #pragma unroll
    for (int e = 0; e < WIDE; e++)
        to[e] = ((const real *)&all)[e];
}

wide joined(const real *from)
{
    wide all;
    #pragma unroll
    for (int e = 0; e < WIDE; e++)
        ((real *)&all)[e] = from[e];
    return all;
}

void store(__global stored_c *to, const real *from, const int width)
{
    if (width == 1)
        WRITE(to, *from);
    else
        WRITE_WIDE(to, joined(from));
}

// The step of k (x) and the row of A, or column of B, (y) of a vector of a tile. `along_k`: it holds several steps.
int2 place(const int vector, const int block, const int along_k, const int width)
{
    const int across = (along_k ? STEP_K : block) / width;
    int2 at;
    at.x = along_k ? vector % across * width : vector / across;
    at.y = along_k ? vector / across : vector % across * width;
    return at;
}

// Copy this work-item's vectors of a tile to registers. `rows` and `steps` are those that the operand has from here on.
void fetch(real *next, const __global stored *from, const INDEX ld, const int rows, const int steps, const int block,
           const int along_k, const int width)
{
    #pragma unroll
    for (int i = 0; i < EACH(block, width); i++) {
        const int vector = get_local_id(0) + i * GROUP_X;
        const int2 at = place(vector, block, along_k, width);
        if (VECTORS(block, width) % GROUP_X != 0 && vector >= VECTORS(block, width))
            return;
        const int row = min(at.y, along_k ? rows - 1 : (rows - 1) / width * width);
        if (steps >= STEP_K)
            load(next + i * width, from + (along_k ? row * ld + at.x : at.x * ld + row), width);
        else
            #pragma unroll
            for (int e = 0; e < width; e++) {
                const int p = at.x + (along_k ? e : 0), r = row + (along_k ? 0 : e);
                next[i * width + e] = p < steps ? READ(from + (along_k ? r * ld + p : p * ld + r)) : 0;
            }
    }
}

// Copy them from there to local memory: a tile of A is transposed, so that its columns are contiguous.
void put(LOCAL_POINTER real *tile, const real *next, const int block, const int along_k, const int width)
{
    #pragma unroll
    for (int i = 0; i < EACH(block, width); i++) {
        const int vector = get_local_id(0) + i * GROUP_X;
        const int2 at = place(vector, block, along_k, width);
        if (VECTORS(block, width) % GROUP_X != 0 && vector >= VECTORS(block, width))
            return;
        #pragma unroll
        for (int e = 0; e < width; e++)
            tile[along_k ? (at.x + e) * LD(block) + at.y : at.x * LD(block) + at.y + e] = next[i * width + e];
    }
}

// The elements of a step of k that a work-item needs: WIDE of them in a row, its neighbours' ones, the next WIDE, ...
void pick(real *to, const LOCAL_POINTER real *from, const int count, const int neighbours)
{
    #pragma unroll
    for (int q = 0; q < count / WIDE; q++) {
        const wide all = *(const LOCAL_POINTER wide *)(from + q * neighbours * WIDE);
        #pragma unroll
        for (int e = 0; e < WIDE; e++)
            to[q * WIDE + e] = ((const real *)&all)[e];
    }
}

// The columns and rows of a work-item's tile of C, in that of its work-group.
#define WARP_NUMBER ((int)get_local_id(0) / WARP)
#define FIRST_X (WARP_NUMBER % WARPS_X * WARP_X * TILE_X + LANE_X * WIDE)
#define FIRST_Y (WARP_NUMBER / WARPS_X * WARP_Y * TILE_Y + LANE_Y * WIDE)
#define COLUMN(x) (FIRST_X + (x) / WIDE * WARP_X * WIDE + (x) % WIDE)
#define ROW(y) (FIRST_Y + (y) / WIDE * WARP_Y * WIDE + (y) % WIDE)

// c = this work-item's part of the product of a block of A and one of B, which have so many rows and columns from here
// on, and are so deep. `buffer` is the one in local memory that is written next.
void multiply(real c[TILE_Y][TILE_X], const __global stored *A, const INDEX lda, const int rows,
              const __global stored *B, const INDEX ldb, const int columns, const int depth,
              LOCAL_POINTER real *tile_a, LOCAL_POINTER real *tile_b, int *buffer)
{
    real next_a[EACH(BLOCK_Y, A_WIDTH) * A_WIDTH], next_b[EACH(BLOCK_X, B_WIDTH) * B_WIDTH];
    real a[TILE_Y], b[TILE_X];
    #pragma unroll
    for (int y = 0; y < TILE_Y; y++)
        #pragma unroll
        for (int x = 0; x < TILE_X; x++)
            c[y][x] = 0;

    fetch(next_a, A, lda, rows, depth, BLOCK_Y, A_ALONG_K, A_WIDTH);
    fetch(next_b, B, ldb, columns, depth, BLOCK_X, B_ALONG_K, B_WIDTH);
    for (int p0 = 0; p0 < depth; p0 += STEP_K) {
        put(tile_a + *buffer * STEP_K * LD(BLOCK_Y), next_a, BLOCK_Y, A_ALONG_K, A_WIDTH);
        put(tile_b + *buffer * STEP_K * LD(BLOCK_X), next_b, BLOCK_X, B_ALONG_K, B_WIDTH);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (p0 + STEP_K < depth) {
            A += STEP_K * (A_ALONG_K ? 1 : lda);
            B += STEP_K * (B_ALONG_K ? 1 : ldb);
            fetch(next_a, A, lda, rows, depth - p0 - STEP_K, BLOCK_Y, A_ALONG_K, A_WIDTH);
            fetch(next_b, B, ldb, columns, depth - p0 - STEP_K, BLOCK_X, B_ALONG_K, B_WIDTH);
        }
        #pragma unroll
        for (int p = 0; p < STEP_K; p++) {
            pick(a, tile_a + (*buffer * STEP_K + p) * LD(BLOCK_Y) + FIRST_Y, TILE_Y, WARP_Y);
            pick(b, tile_b + (*buffer * STEP_K + p) * LD(BLOCK_X) + FIRST_X, TILE_X, WARP_X);
            #pragma unroll
            for (int y = 0; y < TILE_Y; y++)
                #pragma unroll
                for (int i = 0; i < TILE_X; i++) {
                    const int x = SERPENTINE && y % 2 ? TILE_X - 1 - i : i;
                    c[y][x] += a[y] * b[x];
                }
        }
        if (BUFFERS == 2)
            *buffer = 1 - *buffer;
        else
            barrier(CLK_LOCAL_MEM_FENCE);
    }
}

// Write a row of a work-item's tile to C, of which so many columns are left.
void write_row(__global stored_c *row, const real *c, const int columns)
{
    #pragma unroll
    for (int x = 0; x < TILE_X; x += C_WIDTH)
        if (COLUMN(x) < columns)
            store(row + COLUMN(x), c + x, C_WIDTH);
}

// Write all of it, of which so many rows are left too.
void write_tile(__global stored_c *block, const long ldc, real c[TILE_Y][TILE_X], const int rows, const int columns)
{
    #pragma unroll
    for (int y = 0; y < TILE_Y; y++)
        if (ROW(y) < rows)
            write_row(block + ROW(y) * ldc, c[y], columns);
}

#define TILES_IN_LOCAL_MEMORY                                                                                          \
    __local wide local_a[BUFFERS * STEP_K * LD(BLOCK_Y) / WIDE], local_b[BUFFERS * STEP_K * LD(BLOCK_X) / WIDE];       \
    LOCAL_POINTER real *tile_a = (LOCAL_POINTER real *)local_a, *tile_b = (LOCAL_POINTER real *)local_b;               \
    int buffer = 0

// The operands of a block of C: a tile of one of the products of the batch.
#define FIND_BLOCK(tile)                                                                                               \
    const int columns = (n + BLOCK_X - 1) / BLOCK_X, rows = (m + BLOCK_Y - 1) / BLOCK_Y;                               \
    const int product = (tile) / (columns * rows);                                                                     \
    const int2 first = first_of_tile((tile) % (columns * rows), columns, rows);                                        \
    const int i0 = first.y, j0 = first.x;                                                                              \
    const __global stored *block_of_a = A + A_start + product * A_step + i0 * (A_ALONG_K ? lda : 1);                   \
    const __global stored *block_of_b = B + B_start + product * B_step + j0 * (B_ALONG_K ? ldb : 1);                   \
    __global stored_c *block_of_c = C + C_start + product * C_step + i0 * ldc + j0

#if !EVEN_WAVES
__kernel GROUP void gemm(OPERANDS)
{
    TILES_IN_LOCAL_MEMORY;
    real c[TILE_Y][TILE_X];
    FIND_BLOCK((int)get_group_id(0));
    multiply(c, block_of_a, lda, m - i0, block_of_b, ldb, n - j0, k, tile_a, tile_b, &buffer);
    write_tile(block_of_c, ldc, c, m - i0, n - j0);
}
#else
// Even waves. Pairs of a tile and a step of k are numbered tile by tile. A tile before `whole` has a work-group to
// itself; the pairs of the others are cut into equal, contiguous shares, one for each of `shares` work-groups: as many
// as the device holds at a time. A tile in one share goes to C. Of a tile in several, each share keeps a sum, and
// `add_shares` adds them in the order of k.
#define SHARES const int tiles, const int whole, const int shares, __global real *sums, const long sums_start
#define FIRST_PAIR(share) ((int)((long)(share) * (tiles - whole) * steps / shares))
#define VECTORS_OF_SUM (TILE_Y * TILE_X / WIDE)

// Where a share keeps the sum of a tile that is in other shares too: there are two at most, of the tile that began in
// an earlier one, and of the tile that begins in this. A sum is wide vectors, those of all work-items side by side.
__global wide *sum_of(__global real *sums, const int share, const int begins)
{
    return (__global wide *)sums + ((long)share * 2 + begins) * VECTORS_OF_SUM * GROUP_X + get_local_id(0);
}

__kernel GROUP void gemm(OPERANDS, SHARES)
{
    TILES_IN_LOCAL_MEMORY;
    real c[TILE_Y][TILE_X];
    const int steps = (k + STEP_K - 1) / STEP_K, share = (int)get_group_id(0) - whole;
    const int last = share < 0 ? steps : FIRST_PAIR(share + 1);
    int pair = share < 0 ? 0 : FIRST_PAIR(share);
    do {
        const int begin = pair % steps, end = min(steps, begin + last - pair);
        const int p0 = begin * STEP_K, depth = min(k, end * STEP_K) - p0;
        FIND_BLOCK(share < 0 ? (int)get_group_id(0) : whole + pair / steps);
        block_of_a += p0 * (A_ALONG_K ? 1 : lda);
        block_of_b += p0 * (B_ALONG_K ? 1 : ldb);
        multiply(c, block_of_a, lda, m - i0, block_of_b, ldb, n - j0, depth, tile_a, tile_b, &buffer);
        if (begin == 0 && end == steps) {
            write_tile(block_of_c, ldc, c, m - i0, n - j0);
        } else {
            __global wide *sum = sum_of(sums + sums_start, share, begin == 0);
            #pragma unroll
            for (int y = 0; y < TILE_Y; y++)
                #pragma unroll
                for (int x = 0; x < TILE_X; x += WIDE)
                    sum[(y * TILE_X + x) / WIDE * GROUP_X] = joined(c[y] + x);
        }
        pair += end - begin;
    } while (pair < last);
}

// Add the sums of a tile, in the order of k: a row of each work-item's part of it.
__kernel GROUP void add_shares(OPERANDS, SHARES)
{
    const int steps = (k + STEP_K - 1) / STEP_K, tile = get_group_id(0) / TILE_Y, y = get_group_id(0) % TILE_Y;
    const long pairs = (tiles - whole) * steps, begin = tile * steps, end = begin + steps;
    const int first_share = ((begin + 1) * shares - 1) / pairs, last_share = (end * shares - 1) / pairs;
    FIND_BLOCK(whole + tile);
    real c[TILE_X];
    if (first_share == last_share || ROW(y) >= m - i0) // of one share: it is in C
        return;
    #pragma unroll
    for (int x = 0; x < TILE_X; x++)
        c[x] = 0;
    for (int share = first_share; share <= last_share; share++) {
        const __global wide *sum = sum_of(sums + sums_start, share, begin >= FIRST_PAIR(share));
        #pragma unroll
        for (int x = 0; x < TILE_X; x += WIDE) {
            const wide all = sum[(y * TILE_X + x) / WIDE * GROUP_X];
            #pragma unroll
            for (int e = 0; e < WIDE; e++)
                c[x + e] += ((const real *)&all)[e];
        }
    }
    write_row(block_of_c + ROW(y) * ldc, c, n - j0);
}
#endif
