// What the kernels of the self-energy share: their arguments, and how a work-group adds up.
//
// The bands of one call have equal energies; the first `occupied` ones are the occupied ones. The rows are those from
// `first` on. A kernel writes 2 nend + 1 sums for each work-group: for each frequency ach, then asx, then achs, all
// without their signs and halves.

#define OPERANDS                                                                                                     \
    const int bands, const int occupied, const int first, const int rows, const int ncouls, const int nend,           \
    __global const double2 *left, __global const double2 *aqsn, __global const int *band,                             \
    __global const double2 *eps, __global const double2 *wt, __global const double *vcoul,                            \
    __global const double *wx, __global double2 *sums

// Adds up the work-items' values of `count` sums: work-item i has sum s at part[s * ITEMS + i], and finds the whole sum
// at part[s * ITEMS]. ITEMS is a power of two.
FUNCTION void add_up(LOCAL double2 *part, const int count)
{
    for (int stride = ITEMS / 2; stride > 0; stride /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int s = 0; s < count && ITEM < stride; s++) {
            part[s * ITEMS + ITEM].x += part[s * ITEMS + ITEM + stride].x;
            part[s * ITEMS + ITEM].y += part[s * ITEMS + ITEM + stride].y;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

// Where this work-group writes sum number `sum`.
FUNCTION size_t place_of(const int sum)
{
    return (sum * get_num_groups(1) + get_group_id(1)) * get_num_groups(0) + get_group_id(0);
}
