// copy: a batch of matrices from any strides to any other strides, for operands whose rows are not contiguous.
// One work-item per element; strides are in elements.

typedef REAL real;

__kernel void copy(const int rows, const int columns,
                   __global const real *from, const long from_start, const long from_row, const long from_column,
                   const long from_step,
                   __global real *to, const long to_start, const long to_row, const long to_column,
                   const long to_step)
{
    const long i = get_global_id(1), j = get_global_id(0), s = get_group_id(2);
    if (i < rows && j < columns)
        to[to_start + s * to_step + i * to_row + j * to_column] =
            from[from_start + s * from_step + i * from_row + j * from_column];
}
