// The order in which the work-groups of tuned take the tiles of C: down GROUP_M of them, then to the next column, so that
// A and B are found in a shared cache.

// The first column (x) and row (y) of tile `number` of a C with so many columns and rows of tiles.
int2 first_of_tile(const int number, const int columns, const int rows)
{
    const int above = number / (GROUP_M * columns) * GROUP_M, height = min(GROUP_M, rows - above);
    const int in_group = number - above * columns;
    int2 first;
    first.x = in_group / height * BLOCK_X;
    first.y = (above + in_group % height) * BLOCK_Y;
    return first;
}
