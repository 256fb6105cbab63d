#undef KIND
#undef T
#undef LANES_NUMBER
