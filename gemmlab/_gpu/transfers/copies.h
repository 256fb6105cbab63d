/* Pieces of host memory, copied to or from pinned buffers by several threads, each piece by one of them. */
#ifndef GEMMLAB_COPIES_H
#define GEMMLAB_COPIES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef _WIN32
#include <windows.h>
#define doze() Sleep(0)
#else
#include <time.h>
#define doze() nanosleep(&(struct timespec){0, 20000}, 0)
#endif

#define BLOCK 32 /* rows and columns of a block of single elements: its lines stay in L1 */
#define SPINS 20000 /* looks at a counter, some tens of microseconds, before the thread sleeps as long */

/* Rows of C are not read again soon, so they are written past the caches: a store through them reads its line first. */
#ifdef __SSE2__
#include <emmintrin.h>
static void copy_past_caches(char *to, const char *from, ptrdiff_t bytes)
{
    const ptrdiff_t head = -(uintptr_t)to & 15;
    if (bytes < 256) {
        memcpy(to, from, bytes);
        return;
    }
    memcpy(to, from, head);
    to += head, from += head, bytes -= head;
    for (; bytes >= 64; to += 64, from += 64, bytes -= 64) {
        const __m128i *source = (const __m128i *)from;
        __m128i *target = (__m128i *)to;
        const __m128i x = _mm_loadu_si128(source), y = _mm_loadu_si128(source + 1);
        const __m128i z = _mm_loadu_si128(source + 2), w = _mm_loadu_si128(source + 3);
        _mm_stream_si128(target, x);
        _mm_stream_si128(target + 1, y);
        _mm_stream_si128(target + 2, z);
        _mm_stream_si128(target + 3, w);
    }
    memcpy(to, from, bytes);
    _mm_sfence();
}
#else
#define copy_past_caches memcpy
#endif

/* A matrix: `row` and `column` bytes from each row and each column to the next. In its buffer it is row-major. */
typedef struct {
    char *host;
    ptrdiff_t row, column, rows, columns;
} piece;

/* A transfer: piece i lies in buffer i % buffers. It may be copied once i < allowed; done[i] says that it was. */
typedef struct {
    const piece *pieces;
    char *const *buffer;
    ptrdiff_t count, buffers, itemsize;
    int to_buffer;
    ptrdiff_t next, allowed;
    char *done;
} transfer;

static void copy_elements(char *to, ptrdiff_t to_row, ptrdiff_t to_column, const char *from, ptrdiff_t from_row,
                          ptrdiff_t from_column, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t itemsize)
{
    for (ptrdiff_t i0 = 0; i0 < rows; i0 += BLOCK)
        for (ptrdiff_t j0 = 0; j0 < columns; j0 += BLOCK)
            for (ptrdiff_t i = i0; i < rows && i < i0 + BLOCK; i++)
                for (ptrdiff_t j = j0; j < columns && j < j0 + BLOCK; j++) {
                    char *target = to + i * to_row + j * to_column;
                    const char *source = from + i * from_row + j * from_column;
                    if (itemsize == 4)
                        *(uint32_t *)target = *(const uint32_t *)source;
                    else if (itemsize == 8)
                        *(uint64_t *)target = *(const uint64_t *)source;
                    else
                        memcpy(target, source, itemsize);
                }
}

static void copy_piece(const piece *p, char *buffer, ptrdiff_t itemsize, int to_buffer)
{
    const ptrdiff_t bytes = p->columns * itemsize;
    if (p->column == itemsize && to_buffer) {
        for (ptrdiff_t i = 0; i < p->rows; i++)
            memcpy(buffer + i * bytes, p->host + i * p->row, bytes);
    } else if (p->column == itemsize) {
        for (ptrdiff_t i = 0; i < p->rows; i++)
            copy_past_caches(p->host + i * p->row, buffer + i * bytes, bytes);
    } else if (to_buffer) {
        copy_elements(buffer, bytes, itemsize, p->host, p->row, p->column, p->rows, p->columns, itemsize);
    } else {
        copy_elements(p->host, p->row, p->column, buffer, bytes, itemsize, p->rows, p->columns, itemsize);
    }
}

/* Return once piece i may be copied; 0 if it will not be. */
static int wait_until_allowed(const transfer *t, ptrdiff_t i)
{
    ptrdiff_t allowed;
    for (ptrdiff_t looks = 0; i >= (allowed = __atomic_load_n(&t->allowed, __ATOMIC_ACQUIRE)); looks++) {
        if (allowed < 0)
            return 0;
        if (looks > SPINS)
            doze();
    }
    return 1;
}

/* Return once piece i has been copied; 0 if it will not be. */
static int wait_until_done(const transfer *t, ptrdiff_t i)
{
    for (ptrdiff_t looks = 0; !__atomic_load_n(&t->done[i], __ATOMIC_ACQUIRE); looks++) {
        if (__atomic_load_n(&t->allowed, __ATOMIC_ACQUIRE) < 0)
            return 0;
        if (looks > SPINS)
            doze();
    }
    return 1;
}

/* Copy all pieces: the threads take the next in turn. */
static void copy_pieces(transfer *t, int threads)
{
#pragma omp parallel num_threads(threads)
    {
        ptrdiff_t i;
        while ((i = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED)) < t->count && wait_until_allowed(t, i)) {
            copy_piece(&t->pieces[i], t->buffer[i % t->buffers], t->itemsize, t->to_buffer);
            __atomic_store_n(&t->done[i], 1, __ATOMIC_RELEASE);
        }
    }
}

#endif
