// Write the maps of A and B to global memory, with the addresses where these begin.

#define PARAMETERS(x) \
    const long x##0, const long x##1, const long x##2, const long x##3, \
    const long x##4, const long x##5, const long x##6, const long x##7, \
    const long x##8, const long x##9, const long x##10, const long x##11, \
    const long x##12, const long x##13, const long x##14, const long x##15
#define VALUES(x) \
    x##0, x##1, x##2, x##3, \
    x##4, x##5, x##6, x##7, \
    x##8, x##9, x##10, x##11, \
    x##12, x##13, x##14, x##15

__kernel GROUP void make_maps(PARAMETERS(a), PARAMETERS(b), const __global uchar *A, const long A_start,
                              const __global uchar *B, const long B_start, __global long *maps, const long start)
{
    const long words[] = {VALUES(a), VALUES(b)};
    if (get_local_id(0) > 0)
        return;
    maps += start;
    #pragma unroll
    for (int i = 0; i < 2 * WORDS_OF_MAP; i++)
        maps[i] = words[i];
    set_address(maps, A + A_start);
    set_address(maps + WORDS_OF_MAP, B + B_start);
    publish_maps();
}
