/* Memory for panels: kept between calls, each buffer used by one call at a time, given back on request. */
#ifndef GEMMLAB_PACKED_BUFFERS_H
#define GEMMLAB_PACKED_BUFFERS_H

#include <stdatomic.h>
#include <stdlib.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#define KEPT_BUFFERS 8
#define PAGE ((size_t)1 << 21)  /* a huge page: panels are read from end to end, and its one entry covers them */

typedef struct Buffer {
    size_t bytes;
    char *memory;
} Buffer;

static _Atomic(Buffer *) kept_buffers[KEPT_BUFFERS];

static void drop_buffer(Buffer *buffer) {
    if (buffer) free(buffer->memory);
    free(buffer);
}

/* A buffer of so many bytes, or NULL where there is no memory. */
static Buffer *new_buffer(size_t bytes) {
    Buffer *buffer = malloc(sizeof *buffer);
    const size_t alignment = bytes < PAGE ? 64 : PAGE;
    if (buffer) {
        buffer->bytes = (bytes + alignment - 1) / alignment * alignment;
        buffer->memory = aligned_alloc(alignment, buffer->bytes);
    }
    if (!buffer || !buffer->memory) {
        drop_buffer(buffer);
        return NULL;
    }
#if defined(__linux__)
    if (bytes >= PAGE) madvise(buffer->memory, buffer->bytes, MADV_HUGEPAGE);
#endif
    return buffer;
}

/* A kept buffer of at least so many bytes, else a new one. */
static Buffer *take_buffer(size_t bytes) {
    for (int i = 0; i < KEPT_BUFFERS; i++) {
        Buffer *buffer = atomic_exchange(&kept_buffers[i], NULL);
        if (buffer && buffer->bytes >= bytes) return buffer;
        drop_buffer(buffer);
    }
    return new_buffer(bytes);
}

static void give_buffer(Buffer *buffer) {
    for (int i = 0; i < KEPT_BUFFERS; i++) {
        Buffer *none = NULL;
        if (atomic_compare_exchange_strong(&kept_buffers[i], &none, buffer)) return;
    }
    drop_buffer(buffer);
}

/* Bytes that were kept, and no longer are. */
static size_t drop_buffers(void) {
    size_t bytes = 0;
    for (int i = 0; i < KEPT_BUFFERS; i++) {
        Buffer *buffer = atomic_exchange(&kept_buffers[i], NULL);
        if (buffer) bytes += buffer->bytes;
        drop_buffer(buffer);
    }
    return bytes;
}
#endif
