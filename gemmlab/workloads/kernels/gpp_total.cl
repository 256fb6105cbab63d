// totals[s] += the sums of all work-groups.

__kernel GROUP void total(const int groups, __global const double2 *sums, __global double2 *totals)
{
    __local double2 part[ITEMS];
    const int sum = get_group_id(1);
    double re = 0, im = 0;
    for (int i = ITEM; i < groups; i += ITEMS) {
        const double2 value = sums[(size_t)sum * groups + i];
        re += value.x;
        im += value.y;
    }
    part[ITEM].x = re;
    part[ITEM].y = im;
    add_up(part, 1);
    if (ITEM == 0) {
        totals[sum].x += part[0].x;
        totals[sum].y += part[0].y;
    }
}
