// add_parts: the end of tuned with split k. C = the sums of the parts of k, added in their order.

typedef REAL real;
typedef STORED stored;

__kernel void add_parts(const int m, const int n, const int parts, const __global real *sums,
                        const long start, __global stored *C, const long C_start, const long ldc, const long C_step)
{
    const long product = get_group_id(2), at = get_global_id(0), size = (long)m * n;
    if (at >= size)
        return;
    real sum = 0;
    for (int part = 0; part < parts; part++)
        sum += sums[start + (product * parts + part) * size + at];
    WRITE(C + C_start + product * C_step + at / n * ldc + at % n, sum);
}
