// transpose: a batch of matrices, row by row, from columns that lie one after another; through local memory, so that both
// sides are read and written along a row of memory.

#define TILE 32

typedef REAL real;

__kernel void transpose(const int rows, const int columns,
                        __global const real *from, const long from_start, const long from_ld, const long from_step,
                        __global real *to, const long to_start, const long to_ld, const long to_step)
{
    __local real tile[TILE][TILE + 1];
    const int x = get_local_id(0), first_y = get_local_id(1), height = get_local_size(1);
    const int i0 = get_group_id(1) * TILE, j0 = get_group_id(0) * TILE;
    from += from_start + get_group_id(2) * from_step;
    to += to_start + get_group_id(2) * to_step;
    for (int y = first_y; y < TILE; y += height)
        if (i0 + x < rows && j0 + y < columns)
            tile[y][x] = from[(j0 + y) * from_ld + i0 + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int y = first_y; y < TILE; y += height)
        if (i0 + y < rows && j0 + x < columns)
            to[(i0 + y) * to_ld + j0 + x] = tile[x][y];
}
