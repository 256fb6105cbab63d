// tuned_thin: a matrix by a few vectors, y[i,v] = sum of M[i,p] x[p,v]: the form of tuned for GPUs where C has few columns or
// few rows. A product with few rows is one by the transpose of B, so M is A or B'.
//
//     M_ALONG_K 1    rows of M are contiguous: PARTS work-items go along each of ITEM_ROWS rows, M_WIDTH numbers each
//     M_ALONG_K 0    columns are contiguous: each work-item takes M_WIDTH rows, and PARTS of them share out the slice of k
//
//     each ROWS rows, by a work-group:
//         for p in a slice of 0..k:            sum[i,v] += M[i,p] x[p,v]
//         y[i,v] = the sums of all PARTS, or the slice's sum, which `add_slices` adds to the others in their order
//
// Traffic: M is read once, and neighbouring work-items read neighbouring numbers: the roof is the device's memory. x comes from
// caches: once for ITEM_ROWS rows, or for all rows of a warp.

#define PARTS 8 // of a sum, by as many work-items
#if M_ALONG_K
#define ROWS (GROUP_X / PARTS * ITEM_ROWS)
#define ROW(i) ((int)(get_group_id(0) * ROWS) + (i) * (GROUP_X / PARTS) + item / PARTS)
#define PART (item % PARTS)
#define ITEM_OF_PART(part) (item / PARTS * PARTS + (part))
#else
#define ITEM_ROWS M_WIDTH
#define ROWS (GROUP_X / PARTS * M_WIDTH)
#define ROW(i) ((int)(get_group_id(0) * ROWS) + item % (GROUP_X / PARTS) * M_WIDTH + (i))
#define PART (item / (GROUP_X / PARTS))
#define ITEM_OF_PART(part) ((part) * (GROUP_X / PARTS) + item % (GROUP_X / PARTS))
#endif

#define THIN_PRODUCT                                                                                                   \
    const int rows, const int vectors, const int k, const int depth,                                                   \
    __global const stored *M, const long M_start, const long ld, const long M_step,                                    \
    __global const stored *x, const long x_start, const long x_stride, const long x_apart, const long x_step,          \
    __global stored_c *y, const long y_start, const long y_stride, const long y_apart, const long y_step,              \
    __global real *sums, const long sums_start

// M_WIDTH neighbouring numbers of M.
void load(real *to, const __global stored *from)
{
#if M_WIDTH == 1
    *to = READ(from);
#else
    const wide all = READ_WIDE(from);
    #pragma unroll
    for (int e = 0; e < WIDE; e++)
        to[e] = ((const real *)&all)[e];
#endif
}

__kernel GROUP void multiply_thin(THIN_PRODUCT)
{
    __local real parts[PARTS][GROUP_X];
    const int item = get_local_id(0), begin = (int)get_group_id(1) * depth, end = min(k, begin + depth);
    const int is_whole = get_num_groups(1) == 1; // not a slice
    M += M_start + (long)get_group_id(2) * M_step;
    x += x_start + (long)get_group_id(2) * x_step;
    y += y_start + (long)get_group_id(2) * y_step;
    sums += sums_start + ((long)get_group_id(2) * get_num_groups(1) + get_group_id(1)) * rows * vectors;
    real sum[ITEM_ROWS][VECTORS];
    #pragma unroll
    for (int i = 0; i < ITEM_ROWS; i++)
        #pragma unroll
        for (int v = 0; v < VECTORS; v++)
            sum[i][v] = 0;

#if M_ALONG_K
    const int whole = begin + (end - begin) / M_WIDTH * M_WIDTH;
    for (int p = begin + PART * M_WIDTH; p < whole; p += PARTS * M_WIDTH) {
        real numbers[ITEM_ROWS][M_WIDTH];
        #pragma unroll
        for (int i = 0; i < ITEM_ROWS; i++)
            load(numbers[i], M + min(ROW(i), rows - 1) * ld + p);
        #pragma unroll
        for (int e = 0; e < M_WIDTH; e++)
            #pragma unroll
            for (int v = 0; v < VECTORS; v++) {
                const real factor = READ(x + (p + e) * x_stride + min(v, vectors - 1) * x_apart);
                #pragma unroll
                for (int i = 0; i < ITEM_ROWS; i++)
                    sum[i][v] += numbers[i][e] * factor;
            }
    }
    if (whole + PART < end) // fewer than a vector are left
        #pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            const real factor = READ(x + (whole + PART) * x_stride + min(v, vectors - 1) * x_apart);
            #pragma unroll
            for (int i = 0; i < ITEM_ROWS; i++)
                sum[i][v] += READ(M + min(ROW(i), rows - 1) * ld + whole + PART) * factor;
        }
#else
    if (ROW(0) < rows)
        #pragma unroll 4
        for (int p = begin + PART; p < end; p += PARTS) {
            real numbers[M_WIDTH];
            load(numbers, M + p * ld + ROW(0));
            #pragma unroll
            for (int v = 0; v < VECTORS; v++) {
                const real factor = READ(x + p * x_stride + min(v, vectors - 1) * x_apart);
                #pragma unroll
                for (int i = 0; i < M_WIDTH; i++)
                    sum[i][v] += numbers[i] * factor;
            }
        }
#endif

    // Add the parts: PARTS sums of each work-item at a time, of which it then adds one.
    #pragma unroll
    for (int first = 0; first < ITEM_ROWS * VECTORS; first += PARTS) {
        const int mine = first + PART, row = ROW(mine / VECTORS), v = mine % VECTORS;
        real total = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        #pragma unroll
        for (int i = 0; i < PARTS; i++)
            if (first + i < ITEM_ROWS * VECTORS)
                parts[i][item] = sum[(first + i) / VECTORS][(first + i) % VECTORS];
        barrier(CLK_LOCAL_MEM_FENCE);
        #pragma unroll
        for (int part = 0; part < PARTS; part++)
            total += parts[PART][ITEM_OF_PART(part)];
        if (mine < ITEM_ROWS * VECTORS && row < rows && v < vectors) {
            if (is_whole)
                WRITE(y + row * y_stride + v * y_apart, total);
            else
                sums[row * vectors + v] = total;
        }
    }
}

// Add the sums of slices of k, in their order.
__kernel GROUP void add_slices(const int rows, const int vectors, const int slices, __global const real *sums,
                               const long sums_start, __global stored_c *y, const long y_start, const long y_stride,
                               const long y_apart, const long y_step)
{
    const int i = get_global_id(0), row = i / vectors, v = i % vectors;
    if (row >= rows)
        return;
    const __global real *all = sums + sums_start + (long)get_group_id(2) * slices * rows * vectors + i;
    real sum = 0;
    for (int slice = 0; slice < slices; slice++)
        sum += all[(long)slice * rows * vectors];
    WRITE(y + y_start + (long)get_group_id(2) * y_step + row * y_stride + v * y_apart, sum);
}
