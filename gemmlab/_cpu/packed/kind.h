/* Everything for one type of sums; see packed.h for what defines it. */
#define NAME(x) JOIN(x, KIND)
#define LANES (VECTOR_BYTES / (int)sizeof(T))
#include "tile.h"
#include "loops.h"
#include "paths.h"
