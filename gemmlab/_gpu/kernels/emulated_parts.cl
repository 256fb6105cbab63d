// emulated_parts: float32 products out of products of bfloat16 or float16 parts; docs/precision/emulated.md explains the schemes.
//
//     split           each number: bfloat16 parts (three), or two float16 numbers of it times its row's power of two
//     exponents       for float16: the power of two of each row of A, and each column of B
//     multiply_parts  each number of C: the products of parts, the smallest first, with sums in float32
//
// Parts are kept as floats, which hold them exactly, so that k is contiguous. Where a matrix unit is to multiply them, they
// are the numbers that it takes.
//
// The host says PARTS (3 or 2), PAIRS (how many), SUMS (products in a sum), CHUNK (of k, whose sums are added up first),
// OF_A and OF_B (the parts of each pair). With PARTS 2, the
// second part is times 2^11.

#define LOW_BITS 11
#define PAIR_EXPONENT 15
#define LARGEST_BF16 as_float((uint)0x7f7f0000)
#define SPECIAL (-0x7fffffff)

__constant const int of_a[PAIRS] = {OF_A};
__constant const int of_b[PAIRS] = {OF_B};

int is_special(const float x) { return (as_uint(x) >> 23 & 0xff) == 0xff; }

__kernel void exponents(const int rows, const int numbers, __global const float *x, const long start, const long along,
                        const long across, __global int *scale, const long scale_start)
{
    const int row = get_global_id(0);
    if (row >= rows)
        return;
    uint largest = 0; // as bits they have the same order
    for (int p = 0; p < numbers; p++)
        largest = max(largest, as_uint(x[start + row * along + p * across]) & (uint)0x7fffffff);
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

__kernel void split(const int rows, const int numbers, __global const float *x, const long start, const long along,
                    const long across, __global const int *scale, const long scale_start, __global float *parts,
                    const long parts_start)
{
    const int p = get_global_id(0), row = get_global_id(1);
    if (row >= rows || p >= numbers)
        return;
    const int power = scale[scale_start + row];
    float left = power == SPECIAL ? 0 : x[start + row * along + p * across];
    if (PARTS == 2)
        left = ldexp(left, power);
    for (int part = 0; part < PARTS; part++) {
        const float here = PARTS == 2 ? through_half(left) : through_bf16(left);
        parts[parts_start + ((long)part * rows + row) * numbers + p] = here;
        left = (left - here) * (PARTS == 2 ? 1 << LOW_BITS : 1);
    }
}

__kernel void multiply_parts(const int m, const int n, const int k, __global const float *parts, const long a_parts,
                             const long b_parts, __global const int *scale, const long rows_start,
                             const long columns_start, __global const float *a, const long a_start, const long lda,
                             __global const float *b, const long b_start, const long ldb,
                             __global float *c, const long c_start, const long ldc)
{
    const int j = get_global_id(0), i = get_global_id(1);
    if (i >= m || j >= n)
        return;
    const int of_row = scale[rows_start + i], of_column = scale[columns_start + j];
    float total = 0;
    if (of_row == SPECIAL || of_column == SPECIAL) {
        for (int p = 0; p < k; p++)
            total += a[a_start + i * lda + p] * b[b_start + p * ldb + j];
        c[c_start + i * ldc + j] = total;
        return;
    }
    for (int chunk = 0; chunk < k; chunk += CHUNK) {
        const int end = min(k, chunk + CHUNK);
        float part = 0;
        for (int pair = 0; pair < PAIRS; pair++) {
            const __global float *x = parts + a_parts + ((long)of_a[pair] * m + i) * k;
            const __global float *y = parts + b_parts + ((long)of_b[pair] * n + j) * k;
            if (PARTS == 2 && of_a[pair] + of_b[pair] == 0)
                part = ldexp(part, -LOW_BITS); // what was summed before are products of low parts
            for (int first = chunk; first < end; first += SUMS) {
                float sum = 0;
                for (int p = first; p < min(end, first + SUMS); p++)
                    sum += x[p] * y[p];
                part += sum;
            }
        }
        total += part;
    }
    c[c_start + i * ldc + j] = PARTS == 2 ? ldexp(total, -(of_row + of_column)) : total;
}
