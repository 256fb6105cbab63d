/* Pieces of host memory, copied to or from pinned buffers by several threads, each piece by one of them. */
#ifndef GEMMLAB_COPIES_H
#define GEMMLAB_COPIES_H

#include <stdint.h>
#include <string.h>
#ifdef _WIN32
#include <windows.h>
#define doze() Sleep(0)
#else
#include <time.h>
#define doze() nanosleep(&(struct timespec){0, 20000}, 0)
#endif

#define BLOCK 32L /* rows and columns of a block of single elements: its lines stay in L1 */
#define SPINS 20000 /* looks at a counter, some tens of microseconds, before the thread sleeps as long */

/* Rows of C are not read again soon, so they are written past the caches: a store through them reads its line first. */
#ifdef __SSE2__
#include <emmintrin.h>
static void copy_past_caches(char *to, const char *from, long bytes)
{
    const long head = -(uintptr_t)to & 15;
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
    long row, column, rows, columns;
} piece;

/* A transfer: piece i lies in buffer i % buffers. It may be copied once i < allowed; done[i] says that it was. */
typedef struct {
    const piece *pieces;
    char *const *buffer;
    long count, buffers, itemsize;
    int to_buffer;
    long next, allowed;
    char *done;
} transfer;

static void copy_elements(char *to, long to_row, long to_column, const char *from, long from_row, long from_column,
                          long rows, long columns, long itemsize)
{
    for (long i0 = 0; i0 < rows; i0 += BLOCK)
        for (long j0 = 0; j0 < columns; j0 += BLOCK)
            for (long i = i0; i < rows && i < i0 + BLOCK; i++)
                for (long j = j0; j < columns && j < j0 + BLOCK; j++) {
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

static void copy_piece(const piece *p, char *buffer, long itemsize, int to_buffer)
{
    const long bytes = p->columns * itemsize;
    if (p->column == itemsize && to_buffer) {
        for (long i = 0; i < p->rows; i++)
            memcpy(buffer + i * bytes, p->host + i * p->row, bytes);
    } else if (p->column == itemsize) {
        for (long i = 0; i < p->rows; i++)
            copy_past_caches(p->host + i * p->row, buffer + i * bytes, bytes);
    } else if (to_buffer) {
        copy_elements(buffer, bytes, itemsize, p->host, p->row, p->column, p->rows, p->columns, itemsize);
    } else {
        copy_elements(p->host, p->row, p->column, buffer, bytes, itemsize, p->rows, p->columns, itemsize);
    }
}

/* Return once piece i may be copied; 0 if it will not be. */
static int wait_until_allowed(const transfer *t, long i)
{
    long allowed;
    for (long looks = 0; i >= (allowed = __atomic_load_n(&t->allowed, __ATOMIC_ACQUIRE)); looks++) {
        if (allowed < 0)
            return 0;
        if (looks > SPINS)
            doze();
    }
    return 1;
}

/* Return once piece i has been copied; 0 if it will not be. */
static int wait_until_done(const transfer *t, long i)
{
    for (long looks = 0; !__atomic_load_n(&t->done[i], __ATOMIC_ACQUIRE); looks++) {
        if (__atomic_load_n(&t->allowed, __ATOMIC_ACQUIRE) < 0)
            return 0;
        if (looks > SPINS)
            doze();
    }
    return 1;
}

/* Copy all pieces: the threads take the next one in turn. */
static void copy_pieces(transfer *t, int threads)
{
#pragma omp parallel num_threads(threads)
    {
        long i;
        while ((i = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED)) < t->count && wait_until_allowed(t, i)) {
            copy_piece(&t->pieces[i], t->buffer[i % t->buffers], t->itemsize, t->to_buffer);
            __atomic_store_n(&t->done[i], 1, __ATOMIC_RELEASE);
        }
    }
}

#endif
