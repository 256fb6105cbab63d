"""The plan of the compiled loops as Python sees it, the fields of `plan.Plan`; and the calls that they make."""

from gemmlab._cpu.packed_backend.loops cimport (
    BY_ROWS_OF_B, BY_ROWS_OF_C, BY_VECTOR, DOTS, FIVE_LOOPS, SLICES, Call, Part, Plan, Product, pieces_in,
)


cdef inline dict in_words(const Product &x, const Plan &plan):
    """The numbers of a plan, and of its first part; `strategy` is where it stands in `plan.STRATEGIES`."""
    cdef const Part *part = &plan.parts[0][0][0]
    cdef Py_ssize_t m = plan.rows, n = plan.columns, k = min(x.k, x.kc) if plan.sharing == SLICES else x.k
    if part.strategy == FIVE_LOOPS:
        loops = {"strategy": 0, "mr": x.kernel.mr, "nr": x.kernel.nr, "mc": part.blocks.mc, "nc": part.blocks.nc,
                 "kr": part.blocks.kr, "ns": part.blocks.ns, "kept": part.blocks.kept,
                 "rows_of_b": part.blocks.rows_of_b, "tile_k": min(part.blocks.tile_k, x.k),
                 "packs_a": part.blocks.packs_a, "packs_b": x.packed == NULL, "separate": part.blocks.separate}
    elif part.strategy == BY_VECTOR:
        m, n = max(m, n), 1
        rows = (m + part.by_vector.blocks - 1) // part.by_vector.blocks
        loops = {"strategy": 4 + <int> part.by_vector.passes, "nr": 1,
                 "mr": x.kernel.dot_rows if part.by_vector.passes == DOTS else rows}
    else:
        loops = {"strategy": 1 + <int> part.in_place.order, "mr": part.in_place.panels.rows(0),
                 "nr": part.in_place.strip, "peeled": part.peeled,
                 "packs_b": part.in_place.gathers or part.in_place.copies}
        if part.in_place.order == BY_ROWS_OF_C or part.in_place.order == BY_ROWS_OF_B:
            loops["nc"] = loops["ns"] = min(n - part.peeled, part.in_place.columns)
        if part.in_place.order == BY_ROWS_OF_B:
            loops["ns"] = min(n - part.peeled, part.in_place.columns, part.in_place.in_l1)
            loops["rows_of_b"] = part.in_place.depth
    return {"threads": plan.threads, "slices": plan.slices, "pieces": pieces_in(plan), "is_mirrored": plan.is_mirrored,
            "m": m, "n": n, "k": k, "kc": min(x.kc, x.k), "panel_bytes": x.kernel.step // x.kernel.group,
            "workspace": plan.bytes, **loops}


cdef inline void append_call(void *calls, Call what, const Py_ssize_t *extents, const void *address) noexcept nogil:
    """Its name, rows, columns and depth, and an address."""
    with gil:
        names = ("pack_a", "pack_b", "packed_tile", "unpacked_tile", "dot", "vector_tile", "unpack", "mirror")
        (<list> calls).append((names[<int> what], (extents[0], extents[1], extents[2]), <size_t> address))
