/* Copies of host memory by several threads: of rows, and of single elements where a row is not contiguous. */
#ifndef GEMMLAB_COPIES_H
#define GEMMLAB_COPIES_H

#include <stdint.h>
#include <string.h>

#define UNIT 65536L /* bytes that one thread copies at a time */
#define BLOCK 32L   /* rows and columns of a block of single elements: its lines stay in L1 */

/* Rows of `bytes` contiguous bytes, `to_row` and `from_row` bytes from each to the next. */
static void copy_rows(char *to, long to_row, const char *from, long from_row, long rows, long bytes, int threads)
{
    if (to_row == bytes && from_row == bytes) {
        bytes *= rows;
        rows = 1;
    }
    const long parts = (bytes + UNIT - 1) / UNIT;             /* of a long row */
    const long together = bytes < UNIT ? UNIT / bytes : 1;    /* short rows */
    const long units = parts > 1 ? rows * parts : (rows + together - 1) / together;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long unit = 0; unit < units; unit++) {
        if (parts > 1) {
            const long i = unit / parts, start = unit % parts * UNIT;
            memcpy(to + i * to_row + start, from + i * from_row + start, bytes - start < UNIT ? bytes - start : UNIT);
            continue;
        }
        const long end = (unit + 1) * together < rows ? (unit + 1) * together : rows;
        for (long i = unit * together; i < end; i++)
            memcpy(to + i * to_row, from + i * from_row, bytes);
    }
}

/* Elements of 4 or 8 bytes, with any strides in bytes. */
static void copy_elements(char *to, long to_row, long to_column, const char *from, long from_row, long from_column,
                          long rows, long columns, int itemsize, int threads)
{
    const long down = (rows + BLOCK - 1) / BLOCK, across = (columns + BLOCK - 1) / BLOCK;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long block = 0; block < down * across; block++) {
        const long i0 = block / across * BLOCK, j0 = block % across * BLOCK;
        const long i1 = i0 + BLOCK < rows ? i0 + BLOCK : rows, j1 = j0 + BLOCK < columns ? j0 + BLOCK : columns;
        for (long i = i0; i < i1; i++)
            for (long j = j0; j < j1; j++) {
                char *target = to + i * to_row + j * to_column;
                const char *source = from + i * from_row + j * from_column;
                if (itemsize == 4)
                    *(uint32_t *)target = *(const uint32_t *)source;
                else
                    *(uint64_t *)target = *(const uint64_t *)source;
            }
    }
}

#endif
