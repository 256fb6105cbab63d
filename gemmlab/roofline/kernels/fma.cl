// fma: multiply-adds in registers, in chains that do not wait for each other.
//
//     each work-item:
//         for step in 0..steps:
//             for chain in 0..CHAINS:                       x[chain] = x[chain] factor + addend
//
// CHAINS hide the latency of a multiply-add. LANES is a number, or several where a compiler makes no vectors of
// work-items. Each chain nears addend / (1 - factor), so no number grows out of bounds.

typedef REAL real;

__kernel GROUP void multiply_adds(const int steps, const real factor, const real addend, __global LANES *out)
{
    LANES x[CHAINS];
    #pragma unroll
    for (int chain = 0; chain < CHAINS; chain++)
        x[chain] = (real)(get_local_id(0) + chain);
    for (int step = 0; step < steps; step++)
        #pragma unroll
        for (int chain = 0; chain < CHAINS; chain++)
            x[chain] = x[chain] * factor + addend;
    LANES sum = x[0];
    #pragma unroll
    for (int chain = 1; chain < CHAINS; chain++)
        sum += x[chain];
    out[get_global_id(0)] = sum;
}
