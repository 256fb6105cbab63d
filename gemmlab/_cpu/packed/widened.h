/* Integers of S, packed as the wider ones of T that are summed. Included once for each pair of types. */
typedef S PAIR(Narrow) __attribute__((vector_size(LANES * sizeof(S)), aligned(1), may_alias));
#define NUMBER(x) (T)(*(const S *)(x))
#define NUMBERS(x) __builtin_convertvector(*(const PAIR(Narrow) *)(x), V)
#define SAME 0
#include "panel.h"
