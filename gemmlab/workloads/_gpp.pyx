# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""The loops of the self-energy, shared among threads; `gpp.h` has them."""

from cython.parallel cimport prange

from gemmlab._cpu._driver cimport usable_threads

cdef extern from "gpp.h" nogil:
    ctypedef struct gpp_problem:
        Py_ssize_t nb, nvband, ncouls, ngpown, nend
        const double *aqsm
        const double *aqsn
        const double *eps
        const double *wt
        const double *vcoul
        const double *wx
        Py_ssize_t wx_step
        const int *column
        Py_ssize_t bands_im, rows_im
    void run_loop(int loop, const gpp_problem *x, Py_ssize_t outer, double complex *sums)
    void row_of_product(double *all, const double *occupied, const double *eps, const double *wt, Py_ssize_t columns,
                        const double *wx, Py_ssize_t nend, double v, double complex *sums)

NAMES = ("ngpw", "npgw", "pgnw", "hoisted", "hoisted-planes", "blocked", "blocked-planes")  # as in LOOPS


def run(
    str name not None, const double[:, ::1] aqsm, const double[:, ::1] aqsn, const double[:, ::1] eps,
    const double[:, ::1] wt, const double[::1] vcoul, const double[:, ::1] wx, const int[::1] column,
    Py_ssize_t nvband, Py_ssize_t bands_im, Py_ssize_t rows_im, double complex[:, ::1] sums, Py_ssize_t first,
    Py_ssize_t last, int threads,
):
    """Add one loop's sums to rows first to last of `sums`, which has one for each band, or each row of eps (pgnw).

    Arrays are complex numbers as pairs, or planes above each other; imaginary parts are `bands_im` and `rows_im`
    numbers after the real ones.
    """
    cdef gpp_problem x
    cdef int loop = NAMES.index(name)
    cdef Py_ssize_t outer
    cdef int team = usable_threads(threads)
    cdef bint planes = name.endswith("planes")
    x.nvband, x.nend, x.ngpown = nvband, wx.shape[1], column.shape[0]
    x.nb = aqsm.shape[0] // (2 if planes else 1)
    x.ncouls = aqsm.shape[1] // (1 if planes else 2)
    x.aqsm, x.aqsn, x.eps, x.wt = &aqsm[0, 0], &aqsn[0, 0], &eps[0, 0], &wt[0, 0]
    x.vcoul, x.wx, x.column = &vcoul[0], &wx[0, 0], &column[0]
    x.wx_step = x.nend if wx.shape[0] > 1 else 0
    x.bands_im, x.rows_im = bands_im, rows_im
    for outer in prange(first, last, nogil=True, num_threads=team, schedule="static"):
        run_loop(loop, &x, outer, &sums[outer, 0])


def weigh(
    double[:, ::1] product, const double[:, ::1] occupied, const double[:, :] eps, const double[:, :] wt,
    const double[::1] vcoul, const double[::1] wx, double complex[:, ::1] sums, int threads,
):
    """Add a product's weighted sums to the rows of `sums`. The arrays are complex numbers as pairs, with unit steps.

    `product` is over the bands that are not occupied; `occupied`, which may be None, is added to it.
    """
    cdef Py_ssize_t p, columns = product.shape[1] // 2, nend = wx.shape[0]
    cdef bint has_occupied = occupied is not None
    cdef int team = usable_threads(threads)
    for p in prange(product.shape[0], nogil=True, num_threads=team, schedule="static"):
        row_of_product(&product[p, 0], &occupied[p, 0] if has_occupied else NULL, &eps[p, 0], &wt[p, 0], columns,
                       &wx[0], nend, vcoul[p], &sums[p, 0])
