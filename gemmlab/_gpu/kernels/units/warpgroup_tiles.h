// The tiles of tensor_async in local memory: panels of 128 bytes, as a unit takes them. Rows of a tile that lies along k
// have 128 bytes; of one that lies across it, so many panels follow each other as its rows have times 128 bytes.

#define WARPGROUP 128
#define LINE 8 // vectors in 128 bytes
#define SWIZZLE ((ulong)1 << 62) // the unit's name for the exclusive or below

// Where vector `x` of a row lies.
int vector_at(const int row, const int x, const int tile_rows, const int vectors)
{
    return (x / LINE * tile_rows + row) * LINE + (x % LINE ^ row % LINE);
}

// Where a part of a tile is, as the unit takes it: addresses and steps in vectors; the step from eight rows to the next
// eight, and the step from panel to panel.
ulong place_of(const LOCAL_POINTER uint4 *tile, const int tile_rows)
{
    return SWIZZLE | (ulong)(8 * LINE) << 32 | (ulong)(tile_rows * LINE) << 16 | LOCAL_ADDRESS(tile) >> 4;
}

// Where tiles begin in an array that has 8 LINE vectors more than they take: where the exclusive or begins anew.
#define FIRST_TILE(memory) ((memory) + (-(int)(LOCAL_ADDRESS(memory) >> 4) & (8 * LINE - 1)))

// Vectors from a slice of k to the next: two of each row, or the rows of a slice.
#define SLICE(along_k) ((along_k) ? 2 : 16 * LINE)

// The next stage to fill or to use, and the parity of how often all were.
typedef struct {
    int stage, round;
} Ring;

INLINED void next(Ring *at)
{
    if (++at->stage == STAGES) {
        at->stage = 0;
        at->round ^= 1;
    }
}
