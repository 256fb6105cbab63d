// tuned_vector: a matrix by a vector, y[i] = sum of M[i,p] x[p]: the form of tuned for GPUs where C has one column or one
// row. A row of C is a product by the transpose of B, so M is A or B'.
//
//     M_ALONG_K 1    rows of M are contiguous: a warp takes a row, its work-items WIDE numbers each, and their sums are added
//     M_ALONG_K 0    columns are contiguous: each work-item takes WIDE rows, and goes down the columns
//
//     each ROWS rows, by a work-group:
//         for p in a slice of 0..k:        sum[i] += M[i,p] x[p]
//         y[i] = sum[i], or the slice's sum, which `add_slices` adds to the others in their order
//
// Traffic: M is read once, and neighbouring work-items read neighbouring numbers: the roof is the device's memory.

#define LANES 32

#if M_ALONG_K
#define ROWS (GROUP_X / LANES)
#else
#define ROWS (GROUP_X * M_WIDTH)
#endif

#define VECTOR_PRODUCT                                                                                                 \
    const int rows, const int k, const int depth,                                                                      \
    __global const stored *M, const long M_start, const long ld, const long M_step,                                    \
    __global const stored *x, const long x_start, const long x_stride, const long x_step,                              \
    __global stored_c *y, const long y_start, const long y_stride, const long y_step,                                  \
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

// A sum of the slice: to y if it is the only one.
void keep(const real sum, const int row, const int rows, __global stored_c *y, const long y_stride, __global real *sums)
{
    if (get_num_groups(1) == 1)
        WRITE(y + row * y_stride, sum);
    else
        sums[((long)get_group_id(2) * get_num_groups(1) + get_group_id(1)) * rows + row] = sum;
}

__kernel GROUP void multiply_vector(VECTOR_PRODUCT)
{
    const int item = get_local_id(0), begin = (int)get_group_id(1) * depth, end = min(k, begin + depth);
    M += M_start + (long)get_group_id(2) * M_step;
    x += x_start + (long)get_group_id(2) * x_step;
    y += y_start + (long)get_group_id(2) * y_step;
    sums += sums_start;
    real numbers[M_WIDTH];
#if M_ALONG_K
    __local real parts[GROUP_X];
    const int row = (int)get_group_id(0) * ROWS + item / LANES, lane = item % LANES;
    const __global stored *of_row = M + min(row, rows - 1) * ld;
    const int whole = begin + (end - begin) / M_WIDTH * M_WIDTH;
    real sum = 0;
    #pragma unroll 4
    for (int p = begin + lane * M_WIDTH; p < whole; p += LANES * M_WIDTH) {
        load(numbers, of_row + p);
        #pragma unroll
        for (int e = 0; e < M_WIDTH; e++)
            sum += numbers[e] * READ(x + (p + e) * x_stride);
    }
    if (whole + lane < end)
        sum += READ(of_row + whole + lane) * READ(x + (whole + lane) * x_stride);
    parts[item] = sum;
    #pragma unroll
    for (int others = LANES / 2; others > 0; others /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < others)
            parts[item] += parts[item + others];
    }
    if (lane == 0 && row < rows)
        keep(parts[item], row, rows, y, y_stride, sums);
#else
    const int row = ((int)get_group_id(0) * GROUP_X + item) * M_WIDTH;
    if (row >= rows)
        return;
    real sum[M_WIDTH];
    #pragma unroll
    for (int e = 0; e < M_WIDTH; e++)
        sum[e] = 0;
    #pragma unroll 4
    for (int p = begin; p < end; p++) {
        load(numbers, M + p * ld + row);
        const real factor = READ(x + p * x_stride);
        #pragma unroll
        for (int e = 0; e < M_WIDTH; e++)
            sum[e] += numbers[e] * factor;
    }
    #pragma unroll
    for (int e = 0; e < M_WIDTH; e++)
        keep(sum[e], row + e, rows, y, y_stride, sums);
#endif
}

// Add the sums of slices of k, in their order.
__kernel GROUP void add_slices(const int rows, const int slices, __global const real *sums, const long sums_start,
                               __global stored_c *y, const long y_start, const long y_stride, const long y_step)
{
    const int row = get_global_id(0);
    if (row >= rows)
        return;
    const __global real *of_row = sums + sums_start + (long)get_group_id(2) * slices * rows + row;
    real sum = 0;
    for (int slice = 0; slice < slices; slice++)
        sum += of_row[(long)slice * rows];
    WRITE(y + y_start + (long)get_group_id(2) * y_step + row * y_stride, sum);
}
