// What the loops of a device share. LANES is what a work-item handles at once: a number, or a vector of several.

// The host knows the shape of the groups when it compiles: compilers use it.
#ifndef GROUP
#define GROUP __attribute__((reqd_work_group_size(GROUP_X, GROUP_Y, 1)))
#endif
