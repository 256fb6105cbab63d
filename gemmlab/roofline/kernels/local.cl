// local: a small window of memory, read again and again: in local memory, or in global memory, of which the nearest
// cache then has it.
//
//     each work-item:
//         for round in 0..rounds:
//             for step in 0..STEPS:                         sum[step] += window[first + step GROUP_X]
//             first moves on, round and round through WINDOW (a power of two): no round can keep numbers for the next

#define LENGTH (WINDOW + STEPS * GROUP_X)

__kernel GROUP void read_again(const int rounds, __global const LANES *numbers, __global LANES *out)
{
    int first = get_local_id(0);
#if IN_LOCAL
    __local LANES window[LENGTH];
    for (int i = first; i < LENGTH; i += GROUP_X)
        window[i] = numbers[i];
    barrier(CLK_LOCAL_MEM_FENCE);
#else
    __global const LANES *window = numbers;
#endif
    LANES sum[STEPS];
    #pragma unroll
    for (int step = 0; step < STEPS; step++)
        sum[step] = window[first + step * GROUP_X];
    for (int round = 1; round < rounds; round++) {
        first = (first + 7 * GROUP_X) & (WINDOW - 1);
        #pragma unroll
        for (int step = 0; step < STEPS; step++)
            sum[step] = sum[step] + window[first + step * GROUP_X];
    }
    #pragma unroll
    for (int step = 1; step < STEPS; step++)
        sum[0] = sum[0] + sum[step];
    out[get_global_id(0)] = sum[0];
}
