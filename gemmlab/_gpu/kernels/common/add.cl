// add: the product of one block of k to the sum of those before it, for a streamed product whose k is too long for one.

typedef REAL real;

__kernel void add(__global real *c, __global const real *partial, const long count)
{
    const long i = get_global_id(0);
    if (i < count)
        c[i] += partial[i];
}
