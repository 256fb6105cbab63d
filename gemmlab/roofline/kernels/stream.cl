// stream: global memory from one end to the other, once.
//
//     each group, another piece:
//         for round in 0..rounds:
//             for step in 0..STEPS, each work-item side by side:
//                 load:                                     sum[step] += a[at]
//                 copy:                                     c[at] = a[at]
//                 triad:                                    c[at] = a[at] + b[at] factor
//
// All loads of a round come before its stores, so that they are in flight together.

#define ROUND (STEPS * GROUP_X)
#define ARGUMENTS                                                                                    \
    const int rounds, const float factor, __global const LANES *a, __global const LANES *b, __global LANES *c
#define AT(step) (at + (step) * GROUP_X)
#define START long at = (long)get_group_id(0) * rounds * ROUND + get_local_id(0)

// Memory that was never written may not be there yet.
__kernel GROUP void fill(ARGUMENTS)
{
    START;
    const LANES value = a[0];
    for (int round = 0; round < rounds; round++, at += ROUND)
        #pragma unroll
        for (int step = 0; step < STEPS; step++)
            c[AT(step)] = value;
}

__kernel GROUP void load(ARGUMENTS)
{
    START;
    LANES sum[STEPS];
    #pragma unroll
    for (int step = 0; step < STEPS; step++)
        sum[step] = a[AT(step)];
    for (int round = 1; round < rounds; round++) {
        at += ROUND;
        #pragma unroll
        for (int step = 0; step < STEPS; step++)
            sum[step] = sum[step] + a[AT(step)];
    }
    #pragma unroll
    for (int step = 1; step < STEPS; step++)
        sum[0] = sum[0] + sum[step];
    c[get_global_id(0)] = sum[0];
}

__kernel GROUP void copy(ARGUMENTS)
{
    START;
    for (int round = 0; round < rounds; round++, at += ROUND) {
        LANES x[STEPS];
        #pragma unroll
        for (int step = 0; step < STEPS; step++)
            x[step] = a[AT(step)];
        #pragma unroll
        for (int step = 0; step < STEPS; step++)
            c[AT(step)] = x[step];
    }
}

__kernel GROUP void triad(ARGUMENTS)
{
    START;
    for (int round = 0; round < rounds; round++, at += ROUND) {
        LANES x[STEPS];
        #pragma unroll
        for (int step = 0; step < STEPS; step++)
            x[step] = a[AT(step)] + b[AT(step)] * factor;
        #pragma unroll
        for (int step = 0; step < STEPS; step++)
            c[AT(step)] = x[step];
    }
}
