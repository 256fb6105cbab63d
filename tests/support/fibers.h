/* The work-items of a work-group on the host: each is a fiber, and runs until its fellows must come too.

   A warp's items run in turn to where they meet, then on; a warp runs until it must wait for others before the next warp
   begins. So one warp is as far ahead of the others as barriers allow. */
#include <cstdio>
#include <cstdlib>
#include <ucontext.h>
#include <vector>

enum Waits { NO, FOR_WARP, FOR_GROUP, FOR_PHASE, ENDED };

struct Item {
    ucontext_t context;
    int number, x, y, interval;
    Waits waits;
    bool (*may_go_on)(const Item &);  // of FOR_PHASE, with the two after it
    const void *barrier;
    int parity;
};
static Item *self;
static ucontext_t host;
static int group_x_now, group_y_now, group_z_now, groups_x, groups_y, groups_z = 1;

static long get_local_id(int axis) { return axis == 0 ? self->x : axis == 1 ? self->y : 0; }
static long get_local_size(int axis) { return axis == 0 ? GROUP_X : axis == 1 ? GROUP_Y : 1; }
static long get_group_id(int axis) { return axis == 0 ? group_x_now : axis == 1 ? group_y_now : group_z_now; }
static long get_num_groups(int axis) { return axis == 0 ? groups_x : axis == 1 ? groups_y : groups_z; }
static long get_global_id(int axis) { return get_group_id(axis) * get_local_size(axis) + get_local_id(axis); }

static void wait_for(Waits what) {
    self->waits = what;
    swapcontext(&self->context, &host);
}
static void barrier(int) {
    self->interval++;
    wait_for(FOR_GROUP);
}

static void run_kernel();  // the kernel, by one work-item
static void run_item() {
    run_kernel();
    self->waits = ENDED;
}

/* The items from `first` on until all wait for the group, or have ended. They must all do the same, or have ended. */
static void run_warp(std::vector<Item> &items, int first, int count) {
    do
        for (int i = first; i < first + count; i++) {
            if (items[i].waits == ENDED) continue;
            self = &items[i];
            self->waits = NO;
            swapcontext(&host, &self->context);
            if (i > first && self->waits != items[first].waits && self->waits != ENDED) abort();
        }
    while (items[first].waits == FOR_WARP);
}

/* What happens when no warp can go on, if there is such a thing. */
typedef bool (*LateWork)(bool last_first);
static bool no_late_work(bool) { return false; }

/* One work-group; `warp` items run together, the warps in order or, with `backwards`, from the last. Where no warp can go
   on, all wait for the group, or for ever. */
static void run_group(char *stacks, size_t stack, int warp, LateWork late_work, bool backwards) {
    const int count = GROUP_X * GROUP_Y;
    std::vector<Item> items(count);
    for (int i = 0; i < count; i++) {
        Item &x = items[i];
        x.number = i, x.x = i % GROUP_X, x.y = i / GROUP_X, x.interval = 0, x.waits = NO;
        getcontext(&x.context);
        x.context.uc_stack.ss_sp = stacks + i * stack, x.context.uc_stack.ss_size = stack;
        x.context.uc_link = &host;
        makecontext(&x.context, run_item, 0);
    }
    for (bool all_ended = false; !all_ended;) {
        bool has_run = false, at_barrier = true;
        all_ended = true;
        for (int next = 0; next < count; next += warp) {
            const int first = backwards ? count - warp - next : next;
            const Item &x = items[first];
            if (x.waits == NO || (x.waits == FOR_PHASE && x.may_go_on(x))) run_warp(items, first, warp), has_run = true;
            all_ended &= x.waits == ENDED, at_barrier &= x.waits == ENDED || x.waits == FOR_GROUP;
        }
        if (has_run || late_work(backwards)) continue;
        if (!at_barrier) abort();
        for (Item &x : items)
            if (x.waits == FOR_GROUP) x.waits = NO;
    }
}

/* All work-groups, one after the other. */
static void run_grid(int warp, LateWork late_work = no_late_work, bool backwards = false) {
    const size_t stack = 1 << 16;
    char *stacks = (char *)malloc(GROUP_X * GROUP_Y * stack);
    for (group_z_now = 0; group_z_now < groups_z; group_z_now++)
        for (group_y_now = 0; group_y_now < groups_y; group_y_now++)
            for (group_x_now = 0; group_x_now < groups_x; group_x_now++) run_group(stacks, stack, warp, late_work, backwards);
    free(stacks);
}
