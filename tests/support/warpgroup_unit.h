/* Products of warpgroups on the host: what kernels/units/warpgroups.h asks of a GPU, by the PTX ISA's description.

   The unit sees local memory by another way than work-items (the "async proxy"): here, a second copy of it, in which is what
   was published. A copy to local memory poisons its place there at once. A product reads its operands when it is started and
   again when it is waited for, as late as that may be: if they are not the same, the program ends. */
#include <array>
#include <map>
#include <set>

#define COPY_POISONS(to) memset(as_published(to), POISON, 16)
#define ITEM_HAS_COPIED(copy) landed[self->number].push_back((copy).to)
static const int NUMBER = sizeof(STORED), LOCAL_BYTES = 232448, FIRST_BYTE = 48;  // it need not begin at a multiple of more than 16
alignas(1 << 18) static uchar local_bytes[LOCAL_BYTES + FIRST_BYTE], published[LOCAL_BYTES + FIRST_BYTE];
static std::vector<void *> landed[GROUP_X];
#define LOCAL_ARRAY(type, name, count)                                                                                \
    static_assert((count) * sizeof(type) <= LOCAL_BYTES, "more than a work-group has");                               \
    type *name = (type *)(local_bytes + FIRST_BYTE)
#define LOCAL_ADDRESS(pointer) ((uint)((const uchar *)(pointer) - local_bytes))
static uchar *as_published(const void *place) { return published + LOCAL_ADDRESS(place); }
static std::set<const void *> unpublished;  // barriers
static void publish_writes() {
    unpublished.clear();
    for (void *place : landed[self->number]) memcpy(as_published(place), place, 16);
    landed[self->number].clear();
}

/* A barrier's 64 bits: arrivals that a phase takes, arrivals still to come, and the phase's parity. A phase does not end
   before the bytes that it expects have come. */
static std::map<ulong *, int> expected;
static void init_barrier(ulong *barrier, const int arrivals) {
    *barrier = (ulong)arrivals << 32 | arrivals << 1;
    unpublished.insert(barrier);
}
static void came(ulong *barrier, const int arrivals, const int bytes) {
    const uint of_phase = *barrier >> 32, left = ((uint)*barrier >> 1) - arrivals, parity = *barrier & 1;
    if ((int)left < 0) abort();
    expected[barrier] -= bytes;
    const bool ends = left == 0 && expected[barrier] == 0;
    *barrier = (ulong)of_phase << 32 | (ends ? of_phase << 1 | !parity : left << 1 | parity);
}
static void arrive(ulong *barrier) { came(barrier, 1, 0); }
static void expect_bytes(ulong *barrier, const int bytes) { came(barrier, 1, -bytes); }

/* Boxes come when nothing else can go on: the first first, or the last. tests/support/unit_products.py makes the maps. */
enum OfMap { ADDRESS, ITEMSIZE, NUMBERS, LINES, MATRICES, TO_LINE, TO_MATRIX, OF_LINE, OF_BOX };
struct Box {
    const long *map;
    int x, y, z;
    uchar *to;
    ulong *barrier;
};
static std::deque<Box> boxes;
static void use_map(const ulong *) {}
static void copy_box(uint4 *to, const ulong *map, int x, int y, int product, ulong *barrier) {
    const Box box{(const long *)map, x, y, product, as_published(to), barrier};
    if (unpublished.count(barrier) || LOCAL_ADDRESS(to) % 1024 || box.map[OF_LINE] * box.map[ITEMSIZE] != 128) abort();
    memset(box.to, POISON, box.map[OF_BOX] * 128);
    boxes.push_back(box);
}
static bool late_work(bool last_first) {
    if (boxes.empty()) return false;
    const Box box = last_first ? boxes.back() : boxes.front();
    last_first ? boxes.pop_back() : boxes.pop_front();
    const long *map = box.map, size = map[ITEMSIZE];
    for (int line = 0; line < map[OF_BOX]; line++)
        for (int i = 0; i < 128; i += size) {
            const long x = box.x + i / size, y = box.y + line;
            const bool inside = x < map[NUMBERS] && y < map[LINES] && box.z < map[MATRICES];
            const uchar *from = (const uchar *)map[ADDRESS] + x * size + y * map[TO_LINE] + box.z * map[TO_MATRIX];
            uchar *to = box.to + line * 128 + ((i / 16 ^ line % 8) * 16 + i % 16);
            inside ? memcpy(to, from, size) : memset(to, 0, size);
        }
    came(box.barrier, 0, map[OF_BOX] * 128);
    return true;
}
#define LATE_WORK late_work
static bool phase_has_ended(const Item &item) { return (int)(*(const ulong *)item.barrier & 1) != item.parity; }
static void wait_for_phase(ulong *barrier, const int parity) {
    self->barrier = barrier, self->parity = parity, self->may_go_on = phase_has_ended;
    if (!phase_has_ended(*self)) wait_for(FOR_PHASE);
}

/* A number's bytes, where the unit looks for them: row and byte of a slice of k of a tile in panels of 128 bytes. */
static const uchar *found(ulong place, bool along_k, int row, int byte) {
    const int step_8 = (place >> 32 & 0x3fff) * 16, panel = (place >> 16 & 0x3fff) * 16, in_k = byte / NUMBER;
    if (place >> 62 != 1) abort();  // the exclusive or of 128 bytes
    uint at = (place & 0x3fff) * 16;
    if (along_k)
        at += row % 8 * 128 + row / 8 * step_8 + byte;
    else
        at += row * NUMBER % 128 + row * NUMBER / 128 * panel + in_k % 8 * 128 + in_k / 8 * step_8 + byte % NUMBER;
    return published + (at ^ (at >> 7 & 7) << 4);
}
typedef std::array<uchar, 32> Row;
static Row row_of(ulong place, bool along_k, int row) {
    Row bytes;
    for (int i = 0; i < 32; i += NUMBER) memcpy(bytes.data() + i, found(place, along_k, row, i), NUMBER);
    return bytes;
}

/* The operands of a product of one work-item: two rows of A, and its columns of B. */
struct Product {
    ulong a, b;
    std::vector<Row> read() const {
        std::vector<Row> rows;
        for (int i = 0; i < 2; i++)
            rows.push_back(row_of(a, A_ALONG_K, self->number / WARP_ITEMS % 4 * 16 + lane() / 4 + 8 * i));
        for (int x = 0; x < TILE_X; x++)
            if (x % 8 / 2 == lane() % 4) rows.push_back(row_of(b, B_ALONG_K, x));
        return rows;
    }
    std::vector<Row> at_start;
};
static std::vector<Product> started[GROUP_X];
static std::deque<std::vector<Product>> under_way[GROUP_X];
static bool has_begun[GROUP_X];

template <class Real> static void begin_products(Real (*)[4]) { has_begun[self->number] = true; }
template <class Real> static void multiply_add_tiles(Real (*)[4], ulong a, ulong b) {
    if (!has_begun[self->number]) abort();
    Product one{a, b};
    one.at_start = one.read();
    started[self->number].push_back(one);
}
static void commit_products() {
    under_way[self->number].push_back(std::move(started[self->number]));
    started[self->number].clear();
    has_begun[self->number] = false;
}
template <class Real> static void wait_for_products_but(size_t most, Real (*c)[4]) {
    auto &groups = under_way[self->number];
    for (; groups.size() > most; groups.pop_front())
        for (const Product &one : groups.front()) {
            const std::vector<Row> rows = one.read();
            if (rows != one.at_start) abort();
            for (int x = 0; x < TILE_X / 8; x++)
                for (int i = 0; i < 4; i++) {
                    double terms[8 * IN_A_PART];
                    for (int k = 0; k < 8; k++) {
                        part a, b;
                        memcpy(&a, rows[i / 2].data() + 4 * k, 4), memcpy(&b, rows[2 + x * 2 + i % 2].data() + 4 * k, 4);
                        for (int n = 0; n < IN_A_PART; n++) terms[k * IN_A_PART + n] = number_of(a, n) * number_of(b, n);
                    }
                    c[x][i] = added(c[x][i], terms, 8 * IN_A_PART);
                }
        }
}
template <class Real> static void wait_for_products_before(Real (*c)[4]) { wait_for_products_but(1, c); }
template <class Real> static void wait_for_products(Real (*c)[4]) { wait_for_products_but(0, c); }
