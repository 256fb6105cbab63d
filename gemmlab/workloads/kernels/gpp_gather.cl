// left[n,p] = conj(aqsm[band[n], column[p]]): the rows of the product's first factor, side by side.

__kernel GROUP void gather(const int bands, const int first, const int rows, const int ncouls,
                           __global const double2 *aqsm, __global const int *band, __global const int *column,
                           __global double2 *left)
{
    const int p = get_global_id(0), n = get_global_id(1);
    if (p >= rows || n >= bands)
        return;
    double2 value = aqsm[(size_t)band[n] * ncouls + column[first + p]];
    value.y = -value.y;
    left[(size_t)n * rows + p] = value;
}
