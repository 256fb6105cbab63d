/* AMX's eight registers, as all our code has them: each a tile of 16 rows of 64 bytes. */
#ifndef GEMMLAB_TILE_REGISTERS_H
#define GEMMLAB_TILE_REGISTERS_H

#include <stdint.h>

typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_configuration;

static const tile_configuration TILES_OF_16_ROWS = {
    .palette = 1, .start_row = 0, .reserved = {},
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

#endif
