// emulated_parts: float32 products out of products of bfloat16 or float16 parts; docs/precision/emulated.md explains the schemes.
// Complex ones are real products too, of [[Re A, -Im A], [Im A, Re A]] by [[Re B], [Im B]], real and imaginary parts in turn.
//
//     exponents       the power of two of each row of A, and each column of B, for float16; and whether it has no number
//     split           each number: bfloat16 parts (three), or two float16 numbers of it times its row's power of two
//     multiply_parts  each number of C: the products of parts, the smallest first, with sums in float32
//     finish          instead, after a matrix unit has multiplied (tensor_parts.cl): the powers of two, and what is no number
//
// Parts lie so that k is contiguous. They are kept as floats, which hold them exactly, or as a matrix unit takes them.
//
// The host says PARTS (3 or 2), PAIRS (how many), SUMS (products in a sum), CHUNK (of k, whose sums are added up first),
// OF_A and OF_B (the parts of each pair), FOR_UNIT (0 or 1), REALS (of a number of A, B and C). Rows, numbers and k are those of real matrices; starts and steps in A, B and C are in reals.

#if FOR_UNIT
typedef ushort kept;
#else
typedef float kept;
#endif
#define SCALING 128 // work-items of a work-group of exponents
#define SPREAD 32   // rows and numbers of a tile of split
#define PAIR_EXPONENT 15
#define LARGEST_BF16 as_float((uint)0x7f7f0000)
#define SPECIAL (-0x7fffffff)

// A number of a real matrix whose rows are so many `distinct` ones of memory, or these twice: of A if it is complex.
float number_at(__global const float *x, const int row, const int p, const long along, const long across,
                const int rows, const int distinct)
{
#if REALS == 1
    return x[row * along + p * across];
#else
    const int imaginary = row >= distinct, of_a = rows > distinct, odd = p % 2;
    const float found = x[(row - imaginary * distinct) * along + p / 2 * across + (imaginary ? 1 - odd : odd)];
    return of_a && odd && !imaginary ? -found : found;
#endif
}

// A work-group takes `at_once` rows, and each of its work-items a part of one of them: so that neighbours read neighbours.
__kernel void exponents(const int rows, const int distinct, const int numbers, __global const float *x, const long start,
                        const long along, const long across, const int at_once, __global int *scale,
                        const long scale_start)
{
    __local uint found[SCALING];
    const int item = get_local_id(0), row = get_group_id(0) * at_once + item % at_once, first = item / at_once;
    uint largest = 0; // as bits they have the same order
    if (row < rows)
        for (int p = first; p < numbers; p += SCALING / at_once)
            largest = max(largest, as_uint(number_at(x + start, row, p, along, across, rows, distinct)) & (uint)0x7fffffff);
    found[item] = largest;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (first > 0 || row >= rows)
        return;
    for (int other = item + at_once; other < SCALING; other += at_once)
        largest = max(largest, found[other]);
    const int exponent = largest >> 23, length = 32 - (int)clz(largest & 0x7fffff);
    const int below = exponent ? exponent - 126 : largest ? length - 149 : 0; // the largest is below 2^below
    scale[scale_start + row] = exponent == 0xff ? SPECIAL : PARTS == 2 ? PAIR_EXPONENT - below : 0;
}

float through_bf16(const float x)
{
    const uint bits = as_uint(x);
    return min(max(as_float((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000), -LARGEST_BF16), LARGEST_BF16);
}

float through_half(const float x)
{
    ushort stored[1];
    vstore_half(x, 0, (half *)stored);
    return vload_half(0, (half *)stored);
}

// A part as it is kept: exact in float32.
kept kept_of(const float x)
{
#if !FOR_UNIT
    return x;
#elif PARTS == 2
    ushort bits;
    vstore_half(x, 0, (half *)&bits);
    return bits;
#else
    return (ushort)(as_uint(x) >> 16);
#endif
}

// A tile comes to local memory along the axis in which its numbers lie (`across` REALS: in a row), and is taken along rows.
__kernel void split(const int rows, const int distinct, const int numbers, __global const float *x, const long start,
                    const long along, const long across, __global const int *scale, const long scale_start,
                    __global kept *parts, const long parts_start, const long ld)
{
    __local float tile[SPREAD][SPREAD + 1];
    const int across_x = get_local_id(0), first_y = get_local_id(1), height = get_local_size(1);
    const int p0 = get_group_id(0) * SPREAD, row0 = get_group_id(1) * SPREAD, in_rows = across == REALS;
    for (int y = first_y; y < SPREAD; y += height) {
        const int row = row0 + (in_rows ? y : across_x), p = p0 + (in_rows ? across_x : y);
        if (row < rows && p < numbers)
            tile[in_rows ? y : across_x][in_rows ? across_x : y] =
                number_at(x + start, row, p, along, across, rows, distinct);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int y = first_y; y < SPREAD; y += height) {
        const int row = row0 + y, p = p0 + across_x;
        if (row >= rows || p >= numbers)
            continue;
        const int power = scale[scale_start + row];
        float left = power == SPECIAL ? 0 : tile[y][across_x];
        if (PARTS == 2)
            left = ldexp(left, power);
        for (int part = 0; part < PARTS; part++) {
            const float here = PARTS == 2 ? through_half(left) : through_bf16(left);
            parts[parts_start + ((long)part * rows + row) * ld + p] = kept_of(here);
            left -= here;
        }
    }
}

// A number of C by plain sums, where its row or its column has infinities or NaN.
float plain_sum(const int i, const int j, const int m, const int n, const int k, __global const float *a, const long lda,
                __global const float *b, const long ldb)
{
    float total = 0;
    for (int p = 0; p < k; p++)
        total += number_at(a, i, p, lda, REALS, m, m / REALS) * number_at(b, j, p, REALS, ldb, n, n);
    return total;
}

// Where a number of a real matrix of m rows lies in C.
long place_in_c(const int i, const int j, const int m, const long ldc)
{
    const int distinct = m / REALS;
    return i % distinct * ldc + j * REALS + i / distinct;
}

#if !FOR_UNIT
__constant const int of_a[PAIRS] = {OF_A};
__constant const int of_b[PAIRS] = {OF_B};

__kernel void multiply_parts(const int m, const int n, const int k, __global const float *parts, const long a_parts,
                             const long b_parts, const long ld, __global const int *scale, const long rows_start,
                             const long columns_start, __global const float *a, const long a_start, const long lda,
                             __global const float *b, const long b_start, const long ldb,
                             __global float *c, const long c_start, const long ldc)
{
    const int j = get_global_id(0), i = get_global_id(1);
    if (i >= m || j >= n)
        return;
    const int of_row = scale[rows_start + i], of_column = scale[columns_start + j];
    __global float *result = c + c_start + place_in_c(i, j, m, ldc);
    if (of_row == SPECIAL || of_column == SPECIAL) {
        *result = plain_sum(i, j, m, n, k, a + a_start, lda, b + b_start, ldb);
        return;
    }
    float total = 0;
    for (int chunk = 0; chunk < k; chunk += CHUNK) {
        const int end = min(k, chunk + CHUNK);
        float part = 0;
        for (int pair = 0; pair < PAIRS; pair++) {
            const __global float *x = parts + a_parts + ((long)of_a[pair] * m + i) * ld;
            const __global float *y = parts + b_parts + ((long)of_b[pair] * n + j) * ld;
            for (int first = chunk; first < end; first += SUMS) {
                float sum = 0;
                for (int p = first; p < min(end, first + SUMS); p++)
                    sum += x[p] * y[p];
                part += sum;
            }
        }
        total += part;
    }
    *result = PARTS == 2 ? ldexp(total, -(of_row + of_column)) : total;
}
#else
// The sums of a unit are in C itself, or elsewhere where C is complex.
__kernel void finish(const int m, const int n, const int k, __global const float *sums, const long sums_start,
                     const long lds, __global const int *scale, const long rows_start, const long columns_start,
                     __global const float *a, const long a_start, const long lda,
                     __global const float *b, const long b_start, const long ldb,
                     __global float *c, const long c_start, const long ldc)
{
    const int j = get_global_id(0), i = get_global_id(1);
    if (i >= m || j >= n)
        return;
    const int of_row = scale[rows_start + i], of_column = scale[columns_start + j];
    const float sum = sums[sums_start + i * lds + j];
    __global float *result = c + c_start + place_in_c(i, j, m, ldc);
    if (of_row == SPECIAL || of_column == SPECIAL)
        *result = plain_sum(i, j, m, n, k, a + a_start, lda, b + b_start, ldb);
    else if (PARTS == 2)
        *result = ldexp(sum, -(of_row + of_column));
    else if (REALS == 2)
        *result = sum;
}
#endif
