// emulated: float32 and float64 products out of residues, in integers alone; docs/precision/emulated.md explains the scheme.
//
//     scales      each row of A, and each column of B: the power of two that makes integers of it
//     spread      each number: its integer's residues, one byte a modulus, so that k is contiguous
//     multiply    each modulus: C = A @ B of residues, modulo it
//     rebuild     each number of C: the integer of its residues, rounded once
//
// Every step has one result, whatever computes it: the bits are those of cpu-emulated. Rows of A and columns of B with
// infinities or NaN are marked by `scales`, and multiplied plainly by `rebuild`.
//
// The host says FLOAT64 (0 or 1), COUNT (of moduli), MODULI and FRACTIONS (lists of COUNT numbers), WEIGHTS (a list of
// COUNT times 6 limbs), REALS (2 of complex numbers, else 1), WHOLE (6 limbs of the product of all moduli). A limb has 32 bits. FRACTIONS are weights over
// that product, times 2^50.

typedef REAL real;

#if FLOAT64
#define MANTISSA 52
#define EXPONENTS 0x7ff
#define LOWEST (-1074) // the exponent of the smallest number
#define BITS_OF(x) as_ulong(x)
#define AS_REAL(x) as_double((ulong)(x))
#else
#define MANTISSA 23
#define EXPONENTS 0xff
#define LOWEST (-149)
#define BITS_OF(x) ((ulong)as_uint(x))
#define AS_REAL(x) as_float((uint)(x))
#endif
#define LIMBS 6
// Of complex numbers residues have three planes for each modulus: of real parts, of imaginary parts, and of their sums.
#define PLANES (2 * REALS - 1)
#define NORM_BITS 15
#define SPECIAL (-0x7fffffff) // the scale of a row with infinities or NaN
#define SCALING 128           // work-items of a work-group of scales
#define SPREAD 32             // rows and numbers of a tile of spread
#define BLOCK 65536           // of k: the sums of so many products of residues fit an int

__constant const int moduli[COUNT] = {MODULI};

// |x| = *mantissa * 2^(the result)
int parts_of(const real x, ulong *mantissa)
{
    const ulong bits = BITS_OF(x), low = bits & (((ulong)1 << MANTISSA) - 1);
    const int exponent = (int)(bits >> MANTISSA) & EXPONENTS;
    *mantissa = exponent ? low | (ulong)1 << MANTISSA : low;
    return LOWEST + (exponent ? exponent - 1 : 0);
}

int is_special(const real x) { return ((int)(BITS_OF(x) >> MANTISSA) & EXPONENTS) == EXPONENTS; }

int length_of(const ulong x) { return x ? 64 - (int)clz(x) : 0; }

// Rows, each of so many numbers `across` reals apart, `along` from row to row: the scale of each. `square` are the highest 63
// bits of the limit of a norm, squared, and `exponent` the power of two that they are to be multiplied by.
//
// A work-group takes `at_once` rows, and each of its work-items a part of one of them: so that neighbours read neighbours.
__kernel void scales(const int rows, const int numbers, __global const real *x, const long start, const long along,
                     const long across, const int at_once, const long square, const int exponent, __global int *scale,
                     const long scale_start)
{
    __local int tops[SCALING], specials[SCALING];
    __local ulong sums[SCALING];
    const int item = get_local_id(0), row = get_group_id(0) * at_once + item % at_once, step = SCALING / at_once;
    const int first = item / at_once, end = row < rows ? REALS * numbers : 0;
    const __global real *of_row = x + start + row * along;
    ulong mantissa, squares = 0;
    int top = LOWEST - 1, special = 0;
    for (int p = first; p < end; p += step) {
        const real number = of_row[p / REALS * across + p % REALS];
        const int low = parts_of(number, &mantissa);
        special |= is_special(number);
        if (mantissa)
            top = max(top, low + length_of(mantissa));
    }
    tops[item] = top;
    specials[item] = special;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int other = item % at_once; other < SCALING; other += at_once) {
        top = max(top, tops[other]);
        special |= specials[other];
    }
    // Elements are rounded up to 15 bits of the row's largest.
    for (int p = first; p < end; p += step) {
        const int shift = parts_of(of_row[p / REALS * across + p % REALS], &mantissa) + NORM_BITS - top;
        ulong element = mantissa != 0;
        if (shift >= 0)
            element = mantissa << shift;
        else if (shift > -63)
            element = (mantissa + ((ulong)1 << -shift) - 1) >> -shift;
        squares += element * element;
    }
    sums[item] = squares;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (first > 0 || row >= rows)
        return;
    for (int other = item + at_once; other < SCALING; other += at_once)
        squares += sums[other];
    int power = (exponent + 63) / 2;
    while (squares && 2 * power >= exponent && squares > (ulong)square >> (2 * power - exponent))
        power--;
    scale[scale_start + row] = special ? SPECIAL : squares ? power + NORM_BITS - top : 0;
}

// x * 2^shift modulo a modulus, rounded to the nearest integer before
int residue_of(const ulong mantissa, const int shift, const int modulus)
{
    if (shift >= 0) {
        ulong rest = mantissa % modulus;
        int left = shift;
        for (; left > 16; left -= 16)
            rest = (rest << 16) % modulus;
        return (int)((rest << left) % modulus);
    }
    if (shift < -63)
        return 0;
    const ulong low = mantissa & (((ulong)1 << -shift) - 1), middle = (ulong)1 << (-shift - 1);
    const ulong whole = mantissa >> -shift;
    return (int)((whole + (low > middle || (low == middle && whole % 2))) % modulus);
}

// A tile of numbers comes to local memory along the axis in which they lie in memory (`across` least: in a row), and is
// taken from there along rows, as residues lie.
__kernel void spread(const int rows, const int numbers, __global const real *x, const long start, const long along,
                     const long across, __global const int *scale, const long scale_start, __global signed char *residues,
                     const long residues_start, const long ld)
{
    __local real tile[REALS][SPREAD][SPREAD + 1];
    const int across_x = get_local_id(0), first_y = get_local_id(1), height = get_local_size(1);
    const int p0 = get_group_id(0) * SPREAD, row0 = get_group_id(1) * SPREAD, in_rows = across == REALS;
    for (int y = first_y; y < SPREAD; y += height) {
        const int row = row0 + (in_rows ? y : across_x), p = p0 + (in_rows ? across_x : y);
        if (row < rows && p < numbers)
            for (int i = 0; i < REALS; i++)
                tile[i][in_rows ? y : across_x][in_rows ? across_x : y] = x[start + row * along + p * across + i];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int y = first_y; y < SPREAD; y += height) {
        const int row = row0 + y, p = p0 + across_x;
        if (row >= rows || p >= numbers)
            continue;
        const int power = scale[scale_start + row];
        __global signed char *to = residues + residues_start + row * ld + p;
        const long plane = rows * ld;
        #pragma unroll
        for (int l = 0; l < COUNT; l++) {
            int sum = 0;
            for (int i = 0; i < REALS; i++) {
                ulong mantissa;
                const int low = parts_of(tile[i][y][across_x], &mantissa);
                int rest = power == SPECIAL ? 0 : residue_of(mantissa, low + power, moduli[l]);
                if (rest && BITS_OF(tile[i][y][across_x]) >> (8 * sizeof(real) - 1))
                    rest = moduli[l] - rest;
                rest = rest > (moduli[l] - 1) / 2 ? rest - moduli[l] : rest;
                to[(i * COUNT + l) * plane] = rest;
                sum += rest;
            }
            if (REALS == 2)
                to[(2 * COUNT + l) * plane] = sum > 127 ? sum - moduli[l] : sum < -128 ? sum + moduli[l] : sum;
        }
    }
}

__kernel void multiply(const int m, const int n, const int k, __global const signed char *bytes, const long a_start,
                       const long b_start, const long ld, __global uchar *rests, const long rests_start)
{
    const int j = get_global_id(0), i = get_global_id(1), l = get_global_id(2);
    if (i >= m || j >= n)
        return;
    const __global signed char *a = bytes + a_start + ((long)l * m + i) * ld;
    const __global signed char *b = bytes + b_start + ((long)l * n + j) * ld;
    const int modulus = moduli[l % COUNT];
    int rest = 0;
    for (int first = 0; first < k; first += BLOCK) {
        const int end = min(BLOCK, k - first);
        uint sum = 0; // it may wrap for 256, which divides 2^32
        for (int p = 0; p < end; p++)
            sum += (uint)((int)a[p] * (int)b[p]);
        rest = (rest + (int)sum % modulus + modulus) % modulus;
        a += end;
        b += end;
    }
    rests[rests_start + ((long)l * m + i) * n + j] = (uchar)rest;
}

// A number of limbs, times 2^exponent, as a real: rounded to nearest, ties to even, once.
real rounded(const ulong *limbs, const int exponent, const int negative)
{
    int top = LIMBS - 1;
    while (top > 0 && limbs[top] == 0)
        top--;
    const ulong second = top > 0 ? limbs[top - 1] : 0, third = top > 1 ? limbs[top - 2] : 0;
    const ulong sign = (ulong)negative << (8 * sizeof(real) - 1);
    const int length = length_of(limbs[top]), left = 32 - length;
    if (length == 0)
        return AS_REAL(0);
    ulong more = (third << left) & 0xffffffff;
    for (int i = 0; i < top - 2; i++)
        more |= limbs[i];
    const ulong window = (limbs[top] << 32 | second) << left | third >> (32 - left);
    const int end = 32 * top + length + exponent; // the number is below 2^end
    const int kept = min(MANTISSA + 1, end - LOWEST);
    if (kept < 0)
        return AS_REAL(sign);
    ulong digits = window > (ulong)1 << 63 || more; // with no bit kept: more than half of the smallest number
    if (kept > 0) {
        const ulong low = window & (((ulong)1 << (64 - kept)) - 1), middle = (ulong)1 << (63 - kept);
        digits = window >> (64 - kept);
        digits += low > middle || (low == middle && (more || digits % 2));
    }
    const long field = end - kept - LOWEST;
    if (field + (long)(digits >> MANTISSA) >= EXPONENTS)
        return AS_REAL(sign | (ulong)EXPONENTS << MANTISSA);
    return AS_REAL(sign | (((ulong)field << MANTISSA) + digits));
}

__constant const long fractions[COUNT] = {FRACTIONS};
__constant const long weights[COUNT * LIMBS] = {WEIGHTS};
__constant const long whole[LIMBS] = {WHOLE};

// The number of residues, or the real (0) or imaginary (1) part of it, times 2^exponent; `plane` from plane to plane.
real number_of(const __global uchar *rests, const long plane, const int imaginary, const int exponent)
{
    long sums[LIMBS], quotient = (long)1 << 49;
    for (int w = 0; w < LIMBS; w++)
        sums[w] = 0;
    for (int l = 0; l < COUNT; l++) {
        long rest = rests[l * plane];
        if (REALS == 2) {
            const int first = rests[l * plane], second = rests[(COUNT + l) * plane];
            const int both = imaginary ? rests[(2 * COUNT + l) * plane] - first - second : first - second;
            rest = (both + 2 * moduli[l]) % moduli[l];
        }
        quotient += rest * fractions[l];
        for (int w = 0; w < LIMBS; w++)
            sums[w] += rest * weights[l * LIMBS + w];
    }
    quotient >>= 50; // the nearest: never near a half
    long carry = 0;
    for (int w = 0; w < LIMBS; w++) {
        const long limb = sums[w] - quotient * whole[w] + carry;
        sums[w] = limb & 0xffffffff;
        carry = limb >> 32;
    }
    const int negative = carry < 0;
    ulong limbs[LIMBS];
    carry = negative;
    for (int w = 0; w < LIMBS; w++) {
        const long limb = negative ? 0xffffffff - sums[w] + carry : sums[w];
        limbs[w] = limb & 0xffffffff;
        carry = negative ? limb >> 32 : 0;
    }
    return rounded(limbs, exponent, negative);
}

__kernel void rebuild(const int m, const int n, const int k, __global const uchar *rests, const long rests_start,
                      __global const int *scale, const long rows_start, const long columns_start,
                      __global const real *a, const long a_start, const long lda,
                      __global const real *b, const long b_start, const long ldb,
                      __global real *c, const long c_start, const long ldc)
{
    const int j = get_global_id(0), i = get_global_id(1);
    if (i >= m || j >= n)
        return;
    const int of_row = scale[rows_start + i], of_column = scale[columns_start + j];
    __global real *result = c + c_start + i * ldc + REALS * j;
    if (of_row == SPECIAL || of_column == SPECIAL) {
        real sums[2] = {0, 0};
        for (int p = 0; p < k; p++) {
            const __global real *x = a + a_start + i * lda + REALS * p, *y = b + b_start + p * ldb + REALS * j;
            if (REALS == 2) {
                sums[0] += x[0] * y[0] - x[REALS - 1] * y[REALS - 1];
                sums[1] += x[0] * y[REALS - 1] + x[REALS - 1] * y[0];
            } else {
                sums[0] += x[0] * y[0];
            }
        }
        for (int part = 0; part < REALS; part++)
            result[part] = sums[part];
        return;
    }
    for (int part = 0; part < REALS; part++)
        result[part] = number_of(rests + rests_start + (long)i * n + j, (long)m * n, part, -(of_row + of_column));
}
