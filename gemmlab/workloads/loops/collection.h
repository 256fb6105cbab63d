/* A collection of sorted lists, what may be built for it once, and queries: the numbers that some of its lists share.

       merge, svs     lists two at a time, the shortest first: merging; galloping ("small versus small")
       automatic      lists two at a time, by merging or galloping, as their lengths ask for
       adp            all lists at once
       skip           galloping over the last number of each block of BLOCK: they stay in the cache
       bucket         the numbers of a list by their leading bits; a number is looked up in its bucket
       bitmap         words of 64 documents, those without any left out; a summary has a bit for each word

   Sources: Moffat and Zobel (1996) for skips; Sanders and Transier (2007) for buckets. */
#ifndef GEMMLAB_COLLECTION_H
#define GEMMLAB_COLLECTION_H

#include <stdlib.h>

#include "lists.h"

static inline int grown(void **memory, size_t *room, size_t needed, size_t size) {
    if (needed <= *room)
        return 1;
    const size_t more = needed > 2 * *room ? needed : 2 * *room;
    void *larger = realloc(*memory, more * size);
    if (larger == NULL)
        return 0;
    *memory = larger;
    *room = more;
    return 1;
}

/* Where a number stands in a list that is not more than the one before it; 0 if none does. */
static inline size_t out_of_order(const number *list, size_t length) {
    int wrong = 0;
    for (size_t i = 1; i < length; i++)  // without a separate end, it runs in vectors
        wrong |= list[i] <= list[i - 1];
    for (size_t i = 1; wrong && i < length; i++)
        if (list[i] <= list[i - 1])
            return i;
    return 0;
}

/* Building */

static inline void build_ends(const number *list, size_t length, number *ends) {
    for (size_t i = 0; i < length / BLOCK; i++)
        ends[i] = list[i * BLOCK + BLOCK - 1];
}

static inline void build_bounds(const number *list, size_t length, int shift, size_t buckets, number *bounds) {
    size_t i = 0;
    for (size_t of = 0; of < buckets; of++) {
        bounds[of] = (number)i;
        while (i < length && (list[i] >> shift) == of)
            i++;
    }
    bounds[buckets] = (number)length;
}

static inline size_t count_words(const number *list, size_t length) {
    size_t words = length > 0;
    for (size_t i = 1; i < length; i++)
        words += (list[i] >> 6) != (list[i - 1] >> 6);
    return words;
}

static inline void build_bitmap(const number *list, size_t length, size_t summary_words, uint64_t *summary, uint32_t *ranks,
                                uint64_t *words) {
    size_t count = 0;
    memset(summary, 0, summary_words * sizeof *summary);
    for (size_t i = 0; i < length; i++) {
        const number word = list[i] >> 6;
        const uint64_t bit = (uint64_t)1 << (word & 63);
        if (!(summary[word >> 6] & bit)) {
            summary[word >> 6] |= bit;
            words[count++] = 0;
        }
        words[count - 1] |= (uint64_t)1 << (list[i] & 63);
    }
    uint32_t before = 0;
    for (size_t i = 0; i < summary_words; i++) {
        ranks[i] = before;
        before += (uint32_t)__builtin_popcountll(summary[i]);
    }
}

/* Two lists */

static inline size_t skip(const collection *x, const number *a, size_t na, int64_t t, number *out) {
    const number *b = x->buffer + x->starts[t], *ends = x->ends + x->first[t];
    const size_t nb = (size_t)x->lengths[t], blocks = nb / BLOCK;
    size_t i = 0, n = 0, of = 0;
    for (; i < na; i++) {
        of = lower_bound(ends, of, blocks, a[i]);
        if (of == blocks)
            break;
        out[n] = a[i];
        n += (size_t)has(b + of * BLOCK, a[i]);
    }
    return n + merge(a + i, na - i, b + blocks * BLOCK, nb - blocks * BLOCK, out + n);
}

static inline size_t bucket(const collection *x, const number *a, size_t na, int64_t t, number *out) {
    const number *b = x->buffer + x->starts[t], *bounds = x->bounds + x->first[t];
    const int shift = x->shifts[t];
    size_t n = 0;
    for (size_t i = 0; i < na; i++) {
        const number of = a[i] >> shift;
        unsigned found = 0;
        for (size_t j = bounds[of]; j < bounds[of + 1]; j++)
            found |= b[j] == a[i];
        out[n] = a[i];
        n += found;
    }
    return n;
}

/* Queries */

static inline size_t in_pairs(const collection *x, enum method method, const int64_t *terms, size_t count, number *out,
                              number *between) {
    const number *a = x->buffer + x->starts[terms[0]];
    size_t na = (size_t)x->lengths[terms[0]];
    for (size_t i = 1; i < count; i++) {
        const int64_t t = terms[i];
        const number *b = x->buffer + x->starts[t];
        const size_t nb = (size_t)x->lengths[t];
        number *to = (count - 1 - i) % 2 == 0 ? out : between;  /* the last ones are to be in `out` */
        switch (method) {
        case MERGE: na = merge(a, na, b, nb, to); break;
        case SVS: na = gallop(a, na, b, nb, to); break;
        case SKIP: na = skip(x, a, na, t, to); break;
        case BUCKET: na = bucket(x, a, na, t, to); break;
        default: na = nb >= GALLOP_RATIO * na ? gallop(a, na, b, nb, to) : merge(a, na, b, nb, to);
        }
        a = to;
    }
    return na;
}

static inline size_t by_bitmaps(const collection *x, const int64_t *terms, size_t count, number *out) {
    const uint64_t *first = x->summaries + (size_t)terms[0] * x->summary_words;
    size_t n = 0;
    for (size_t of = 0; of < x->summary_words; of++) {
        uint64_t shared = first[of];
        for (size_t t = 1; t < count; t++)
            shared &= x->summaries[(size_t)terms[t] * x->summary_words + of];
        for (; shared; shared &= shared - 1) {
            const uint64_t before = (shared & -shared) - 1;
            uint64_t word = ~(uint64_t)0;
            for (size_t t = 0; t < count && word; t++) {
                const size_t at = (size_t)terms[t] * x->summary_words + of;
                const int rank = __builtin_popcountll(x->summaries[at] & before);
                word &= x->words[x->first[terms[t]] + x->ranks[at] + rank];
            }
            const number base = (number)(of << 12 | (size_t)__builtin_ctzll(shared) << 6);
            for (; word; word &= word - 1)
                out[n++] = base | (number)__builtin_ctzll(word);
        }
    }
    return n;
}

static inline size_t by_all(const collection *x, const int64_t *terms, size_t count, void *room, number *out) {
    const number **lists = room;
    size_t *lengths = (size_t *)(lists + count), *at = lengths + count;
    for (size_t t = 0; t < count; t++) {
        lists[t] = x->buffer + x->starts[terms[t]];
        lengths[t] = (size_t)x->lengths[terms[t]];
    }
    return adp(lists, lengths, count, at, out);
}

/* Appends the numbers that lists `terms`, shortest first, share to what the worker has found; their count, or -1 if
   there is no memory. */
static inline int64_t run_query(const collection *x, enum method method, const int64_t *terms, size_t count, worker *w) {
    const size_t shortest = (size_t)x->lengths[terms[0]];
    if (!grown((void **)&w->found, &w->found_room, w->used + shortest + PAD, sizeof *w->found)
        || !grown((void **)&w->between, &w->between_room, shortest + PAD, sizeof *w->between)
        || !grown(&w->lists, &w->lists_room, count, 3 * sizeof(size_t)))
        return -1;
    number *out = w->found + w->used;
    size_t n;
    if (count == 1) {
        n = shortest;
        memcpy(out, x->buffer + x->starts[terms[0]], n * sizeof *out);
    } else if (method == ADP) {
        n = by_all(x, terms, count, w->lists, out);
    } else if (method == BITMAP) {
        n = by_bitmaps(x, terms, count, out);
    } else {
        n = in_pairs(x, method, terms, count, out, w->between);
    }
    w->used += n;
    return (int64_t)n;
}

#endif
