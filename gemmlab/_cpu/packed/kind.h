/* Everything for one type of sums; see packed.h for what defines it. */
#include "types.h"
#include "sums.h"
#ifdef MULTIPLY_TILES
#include "amx_tile.h"
#else
#include "tile.h"
#endif
#include "loops.h"
#include "paths.h"
