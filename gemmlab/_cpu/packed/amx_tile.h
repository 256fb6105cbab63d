/* The micro-kernel on AMX: C[rows x columns] (+)= A B, all sums in four of its eight registers, each a tile of 16 x 16.

       for p in 0..steps:                                    a step: 16 cells of k, 64 bytes of each row and column
           sum[0..1][0..1] += A[0..1] B[0..1]                a tile of A: 16 rows of 64 bytes
                                                             a tile of B: 16 cells of k for 16 columns

   Of the registers, 4 hold sums, 2 A, 2 B: four products on four tiles read. Rows and columns that C does not have
   are computed from whatever lies there, and left out when C is written. A sum is one chain in the order of p, as in
   tile.h, and each product within it adds its pairs of bfloat16 as the processor does.

   Included once for each type T of sums; MULTIPLY_TILES(sum, a, b) is the instruction. */

#define MR 32
#define NR 32
#define VECTORS 2
#define WHOLE_PANELS 1  /* panels of A are of MR rows, but for the last */
#define TILE_ROWS 16
#define TILE_BYTES (TILE_ROWS * 64)
#define IN_PLACE_ROWS MR
#define IN_PLACE_VECTORS 2

typedef struct NAME(Config) {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} NAME(Config);

INLINE void NAME(begin)(void) {
    static const NAME(Config) config = {
        .palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&config);
}
INLINE void NAME(end)(void) { _tile_release(); }

/* `height` is that of the panel of A: tiles of a step stand that many rows apart. */
INLINE void NAME(tiles)(const int tall, const int wide, Count height, Count steps, const char *a, const char *b,
                        char *c, Count ci) {
    _tile_zero(0);
    if (wide == 2) _tile_zero(1);
    if (tall == 2) _tile_zero(2);
    if (tall == 2 && wide == 2) _tile_zero(3);
    for (Count p = 0; p < steps; p++, a += height * STEP, b += NR * STEP) {
        _tile_loadd(4, a, STEP);
        _tile_loadd(6, b, NR * 4);
        MULTIPLY_TILES(0, 4, 6);
        if (wide == 2) {
            _tile_loadd(7, b + 64, NR * 4);
            MULTIPLY_TILES(1, 4, 7);
        }
        if (tall == 2) {
            _tile_loadd(5, a + TILE_BYTES, STEP);
            MULTIPLY_TILES(2, 5, 6);
            if (wide == 2) MULTIPLY_TILES(3, 5, 7);
        }
    }
    _tile_stored(0, c, ci);
    if (wide == 2) _tile_stored(1, c + 64, ci);
    if (tall == 2) _tile_stored(2, c + TILE_ROWS * ci, ci);
    if (tall == 2 && wide == 2) _tile_stored(3, c + TILE_ROWS * ci + 64, ci);
}

static void NAME(run_tile)(Count rows, Count columns, Count steps, const char *a, const char *b, char *c, Count ci,
                           Count cj, int add) {
    T sums[MR * NR] __attribute__((aligned(64)));
    const int whole = rows == MR && columns == NR && cj == sizeof(T) && !add;
    char *const to = whole ? c : (char *)sums;
    const Count step = whole ? ci : NR * (Count)sizeof(T);
    if (rows > TILE_ROWS && columns > LANES)
        NAME(tiles)(2, 2, rows, steps, a, b, to, step);
    else if (rows > TILE_ROWS)
        NAME(tiles)(2, 1, rows, steps, a, b, to, step);
    else if (columns > LANES)
        NAME(tiles)(1, 2, rows, steps, a, b, to, step);
    else
        NAME(tiles)(1, 1, rows, steps, a, b, to, step);
    if (whole) return;
    if (cj != sizeof(T)) {
        NAME(scatter)(sums, NR, rows, columns, c, ci, cj, add);
        return;
    }
    for (Count j = 0; j < columns; j += LANES) {
        const Part part = part_of((columns - j) * (Count)sizeof(T));
        for (Count i = 0; i < rows; i++) {
            char *row = c + i * ci + j * sizeof(T);
            V sum = LOOSE(sums + i * NR + j);
            if (add) sum = ADD((V)load_part(row, part), sum);
            store_part(row, part, (Bytes)sum);
        }
    }
}
