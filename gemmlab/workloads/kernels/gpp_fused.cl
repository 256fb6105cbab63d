// The fused form on a device: M[p,g] = sum_n left[n,p] aqsn[band[n],g] in tiles, each weighed while it is in registers.
//
//     each ROWS x COLUMNS tile of M, by a work-group, ELEMENTS of it by a work-item:
//         for the occupied bands, then for the others:
//             for n0 in steps of DEPTH:
//                 left[n0:n0+DEPTH, tile's rows], aqsn[n0:n0+DEPTH, tile's columns] into local memory
//                 multiply what came the step before, and add to the work-item's elements
//             weigh the elements: for asx after the occupied bands, for ach and achs after all
//
// UNIT: multiplied by a matrix unit in double precision, by the instruction of tensor (units.h is before this text).
// STORED: M is in memory, over the occupied bands as `left` and over all bands as `aqsn`, and is only weighed.
//
// Traffic from global memory: 32 / ROWS + 32 / COLUMNS bytes of the factors a complex multiply-add, eps and wt twice.

#define FREQUENCIES 4  // weighed together, so that eps and wt are read once for all of them

// Element i of a work-item is at row ROW(i) and column COLUMN(i) of the tile.
#if UNIT
// A warp has WARP_Y x WARP_X tiles of 16 x 8; each of its 32 lanes holds four elements of a tile.
#define WARPS_X (COLUMNS / (8 * WARP_X))
#define LANE (ITEM % 32)
#define WARP_ROW ((ITEM / 32) / WARPS_X * 16 * WARP_Y)
#define WARP_COLUMN ((ITEM / 32) % WARPS_X * 8 * WARP_X)
#define ELEMENTS (4 * WARP_X * WARP_Y)
#define ROW(i) (WARP_ROW + (i) / (4 * WARP_X) * 16 + (i) % 4 / 2 * 8 + LANE / 4)
#define COLUMN(i) (WARP_COLUMN + (i) / 4 % WARP_X * 8 + LANE % 4 * 2 + (i) % 2)
#define PADDING 2  // so that eight lanes, which read 16 bytes each from four steps of n, use all banks
#else
#define ELEMENTS (TILE_X * TILE_Y)
#define ROW(i) ((i) / TILE_X * GROUP_Y + (int)get_local_id(1))
#define COLUMN(i) ((i) % TILE_X * GROUP_X + (int)get_local_id(0))
#define PADDING 0
#endif

#define LEFT_WIDTH (ROWS + PADDING)
#define RIGHT_WIDTH (COLUMNS + PADDING)
#define LEFT_EACH ((DEPTH * ROWS + ITEMS - 1) / ITEMS)  // elements that a work-item brings to local memory
#define RIGHT_EACH ((DEPTH * COLUMNS + ITEMS - 1) / ITEMS)

#define OWN ((FREQUENCIES + 1) * ITEMS)
#ifdef STORED
#define MEMORY OWN
#else
#define TILES (2 * DEPTH * (LEFT_WIDTH + RIGHT_WIDTH))
#define MEMORY (TILES > OWN ? TILES : OWN)
#endif

#if UNIT
FUNCTION void multiply(double *re, double *im, LOCAL const double2 *left, LOCAL const double2 *right)
{
    #pragma unroll
    for (int k = 0; k < DEPTH; k += 8) {
        double a_re[WARP_Y][4], a_im[WARP_Y][4];
        #pragma unroll
        for (int i = 0; i < 4 * WARP_Y; i++) {
            const int row = WARP_ROW + i / 4 * 16 + i % 2 * 8 + LANE / 4, n = k + i % 4 / 2 * 4 + LANE % 4;
            a_re[i / 4][i % 4] = left[n * LEFT_WIDTH + row].x;
            a_im[i / 4][i % 4] = left[n * LEFT_WIDTH + row].y;
        }
        #pragma unroll
        for (int x = 0; x < WARP_X; x++) {
            double b_re[2], b_im[2], minus_b_im[2];
            #pragma unroll
            for (int i = 0; i < 2; i++) {
                const double2 b = right[(k + i * 4 + LANE % 4) * RIGHT_WIDTH + WARP_COLUMN + x * 8 + LANE / 4];
                b_re[i] = b.x;
                b_im[i] = b.y;
                minus_b_im[i] = -b.y;
            }
            #pragma unroll
            for (int y = 0; y < WARP_Y; y++) {
                multiply_add(re + 4 * (y * WARP_X + x), a_re[y], b_re);
                multiply_add(im + 4 * (y * WARP_X + x), a_re[y], b_im);
            }
            #pragma unroll
            for (int y = 0; y < WARP_Y; y++) {
                multiply_add(re + 4 * (y * WARP_X + x), a_im[y], minus_b_im);
                multiply_add(im + 4 * (y * WARP_X + x), a_im[y], b_re);
            }
        }
    }
}
#elif !defined(STORED)
FUNCTION void multiply(double *re, double *im, LOCAL const double2 *left, LOCAL const double2 *right)
{
    #pragma unroll
    for (int k = 0; k < DEPTH; k++) {
        double2 a[TILE_Y], b[TILE_X];
        #pragma unroll
        for (int y = 0; y < TILE_Y; y++)
            a[y] = left[k * LEFT_WIDTH + y * GROUP_Y + get_local_id(1)];
        #pragma unroll
        for (int x = 0; x < TILE_X; x++)
            b[x] = right[k * RIGHT_WIDTH + x * GROUP_X + get_local_id(0)];
        #pragma unroll
        for (int i = 0; i < ELEMENTS; i++) {
            re[i] += a[i / TILE_X].x * b[i % TILE_X].x;
            im[i] += a[i / TILE_X].x * b[i % TILE_X].y;
            re[i] -= a[i / TILE_X].y * b[i % TILE_X].y;
            im[i] += a[i / TILE_X].y * b[i % TILE_X].x;
        }
    }
}
#endif

// Adds the terms of TOGETHER elements, computed side by side, for each frequency, to the work-item's sums in local memory. The
// loop over the frequencies is a loop in the machine's code too: unrolled, it would not fit the instruction cache.
FUNCTION void weigh(const double *re, const double *im, const double2 *e, const double2 *pole, const double *v,
                    const int of_occupied, __global const double *wx, const int nend, LOCAL double2 *own)
{
    double term_re[TOGETHER], term_im[TOGETHER];
    double2 static_sum = own[FREQUENCIES * ITEMS];
    #pragma unroll
    for (int i = 0; i < TOGETHER; i++) {
        term_re[i] = (re[i] * e[i].x - im[i] * e[i].y) * v[i];
        term_im[i] = (re[i] * e[i].y + im[i] * e[i].x) * v[i];
        static_sum.x += term_re[i];
        static_sum.y += term_im[i];
    }
    own[FREQUENCIES * ITEMS] = static_sum;
    #pragma unroll 1
    for (int w = 0; w < FREQUENCIES && w < nend; w++) {
        double2 sum = own[w * ITEMS];
        #pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            double hole_re, hole_im, exchange_re, exchange_im;
            weights(pole[i].x, pole[i].y, wx[w], &hole_re, &hole_im, &exchange_re, &exchange_im);
            const double weight_re = of_occupied ? exchange_re : hole_re;
            const double weight_im = of_occupied ? exchange_im : hole_im;
            sum.x += term_re[i] * weight_re - term_im[i] * weight_im;
            sum.y += term_re[i] * weight_im + term_im[i] * weight_re;
        }
        own[w * ITEMS] = sum;
    }
}

// All elements of the work-item, inlined once for each value of `of_occupied`.
FUNCTION void weigh_all(const double *re, const double *im, const int p0, const int g0, const int first, const int rows,
                        const int ncouls, __global const double2 *eps, __global const double2 *wt,
                        __global const double *vcoul, const int of_occupied, __global const double *wx, const int nend,
                        LOCAL double2 *own)
{
    #pragma unroll UNROLL
    for (int i = 0; i < ELEMENTS; i += TOGETHER) {
        double2 e[TOGETHER], pole[TOGETHER];
        double v[TOGETHER];
        #pragma unroll
        for (int j = 0; j < TOGETHER; j++) {
            const int p = p0 + ROW(i + j), g = g0 + COLUMN(i + j), inside = p < rows && g < ncouls;
            const size_t at = inside ? (size_t)(first + p) * ncouls + g : 0;
            e[j] = eps[at];
            pole[j] = wt[at];
            v[j] = inside ? vcoul[first + p] : 0;
        }
        weigh(re + i, im + i, e, pole, v, of_occupied, wx, nend, own);
    }
}

__kernel GROUP void fused(OPERANDS)
{
    __local double2 memory[MEMORY];
#ifndef STORED
    LOCAL double2 *tile_left = memory, *tile_right = memory + 2 * DEPTH * LEFT_WIDTH;
#endif
    LOCAL double2 *own = memory;  // each work-item's sums
    const int p0 = get_group_id(0) * ROWS, g0 = get_group_id(1) * COLUMNS;
    double re[ELEMENTS], im[ELEMENTS];
    #pragma unroll
    for (int i = 0; i < ELEMENTS; i++)
        re[i] = im[i] = 0;

    for (int phase = 0; phase < 2; phase++) {
        const int of_occupied = phase == 0;
#ifdef STORED
        #pragma unroll
        for (int i = 0; i < ELEMENTS; i++)
            if (p0 + ROW(i) < rows && g0 + COLUMN(i) < ncouls && (!of_occupied || occupied > 0)) {
                const double2 m = (of_occupied ? left : aqsn)[(size_t)(p0 + ROW(i)) * ncouls + g0 + COLUMN(i)];
                re[i] = m.x;
                im[i] = m.y;
            }
#else
        const int begin = of_occupied ? 0 : occupied, end = of_occupied ? occupied : bands;
        for (int n0 = begin, turn = 0; n0 < end + DEPTH; n0 += DEPTH, turn ^= 1) {
            double2 next_left[LEFT_EACH], next_right[RIGHT_EACH];  // in flight while the last tiles are multiplied
            #pragma unroll
            for (int i = 0; i < LEFT_EACH; i++) {
                const int n = n0 + (i * ITEMS + ITEM) / ROWS, p = p0 + (i * ITEMS + ITEM) % ROWS;
                next_left[i].x = next_left[i].y = 0;
                if (n < end && p < rows)
                    next_left[i] = left[(size_t)n * rows + p];
            }
            #pragma unroll
            for (int i = 0; i < RIGHT_EACH; i++) {
                const int n = n0 + (i * ITEMS + ITEM) / COLUMNS, g = g0 + (i * ITEMS + ITEM) % COLUMNS;
                next_right[i].x = next_right[i].y = 0;
                if (n < end && g < ncouls)
                    next_right[i] = aqsn[(size_t)band[n] * ncouls + g];
            }
            if (n0 > begin)
                multiply(re, im, tile_left + turn * DEPTH * LEFT_WIDTH, tile_right + turn * DEPTH * RIGHT_WIDTH);
            #pragma unroll
            for (int i = 0; i < LEFT_EACH; i++) {
                const int n = (i * ITEMS + ITEM) / ROWS, p = (i * ITEMS + ITEM) % ROWS;
                if (n < DEPTH)
                    tile_left[((turn ^ 1) * DEPTH + n) * LEFT_WIDTH + p] = next_left[i];
            }
            #pragma unroll
            for (int i = 0; i < RIGHT_EACH; i++) {
                const int n = (i * ITEMS + ITEM) / COLUMNS, g = (i * ITEMS + ITEM) % COLUMNS;
                if (n < DEPTH)
                    tile_right[((turn ^ 1) * DEPTH + n) * RIGHT_WIDTH + g] = next_right[i];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
#endif
        for (int w0 = 0; w0 < nend; w0 += FREQUENCIES) {
            for (int w = 0; w <= FREQUENCIES; w++)
                own[w * ITEMS + ITEM].x = own[w * ITEMS + ITEM].y = 0;
            if (of_occupied && occupied > 0)
                weigh_all(re, im, p0, g0, first, rows, ncouls, eps, wt, vcoul, 1, wx + w0, nend - w0, own + ITEM);
            if (!of_occupied)
                weigh_all(re, im, p0, g0, first, rows, ncouls, eps, wt, vcoul, 0, wx + w0, nend - w0, own + ITEM);
            add_up(own, FREQUENCIES + 1);
            if (ITEM == 0) {
                for (int w = 0; w < FREQUENCIES && w0 + w < nend; w++)
                    sums[place_of((of_occupied ? nend : 0) + w0 + w)] = own[w * ITEMS];
                if (!of_occupied && w0 == 0)
                    sums[place_of(2 * nend)] = own[FREQUENCIES * ITEMS];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
}
