// clear: zeros at the start of a workspace, for a kernel that adds to what it finds there.

__kernel void clear(const long count, __global int *workspace)
{
    const long i = get_global_id(0);
    if (i < count)
        workspace[i] = 0;
}
