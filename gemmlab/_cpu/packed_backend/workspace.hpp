/* Memory for panels: kept between calls, each buffer used by one call at a time, given back on request. */
#pragma once

#include <stddef.h>
#include <stdlib.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "problem.hpp"

namespace {

constexpr int KEPT_BUFFERS = 8;

struct Buffer {
    size_t bytes;
    char *memory;
};

Buffer *kept_buffers[KEPT_BUFFERS];  // each exchanged as one

Buffer *take_kept(int i) { return __atomic_exchange_n(&kept_buffers[i], (Buffer *)NULL, __ATOMIC_SEQ_CST); }

void drop_buffer(Buffer *buffer) {
    if (buffer) free(buffer->memory);
    free(buffer);
}

/* A buffer of so many bytes, or NULL where there is no memory. Panels are read from end to end, and one entry covers a
   huge page of them; `huge_page` is its bytes, or 0. */
Buffer *new_buffer(size_t bytes, size_t huge_page) {
    Buffer *buffer = (Buffer *)malloc(sizeof *buffer);
    const bool huge = huge_page && bytes >= huge_page;
    const size_t alignment = huge ? huge_page : bytes > (size_t)(PAGE - LINE) ? (size_t)PAGE : (size_t)LINE;
    if (buffer) {
        buffer->bytes = (bytes + alignment - 1) / alignment * alignment;
        buffer->memory = (char *)aligned_alloc(alignment, buffer->bytes);
    }
    if (!buffer || !buffer->memory) {
        drop_buffer(buffer);
        return NULL;
    }
#if defined(__linux__)
    if (huge) madvise(buffer->memory, buffer->bytes, MADV_HUGEPAGE);
#endif
    return buffer;
}

/* A kept buffer of at least so many bytes, else a new one. */
Buffer *take_buffer(size_t bytes, size_t huge_page) {
    for (int i = 0; i < KEPT_BUFFERS; i++) {
        Buffer *buffer = take_kept(i);
        if (buffer && buffer->bytes >= bytes) return buffer;
        drop_buffer(buffer);
    }
    return new_buffer(bytes, huge_page);
}

void give_buffer(Buffer *buffer) {
    for (int i = 0; i < KEPT_BUFFERS; i++) {
        Buffer *none = NULL;
        if (__atomic_compare_exchange_n(&kept_buffers[i], &none, buffer, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return;
    }
    drop_buffer(buffer);
}

/* Bytes that were kept, and no longer are. */
size_t drop_buffers() {
    size_t bytes = 0;
    for (int i = 0; i < KEPT_BUFFERS; i++) {
        Buffer *buffer = take_kept(i);
        if (buffer) bytes += buffer->bytes;
        drop_buffer(buffer);
    }
    return bytes;
}

}  // namespace
