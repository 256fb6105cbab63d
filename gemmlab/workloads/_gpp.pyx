# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""The loops of the self-energy, shared among threads; `loops/gpp.c` has them."""

cimport numpy as cnp
from cython.parallel cimport prange

from gemmlab._cpu.threads._threads cimport usable_threads

from gemmlab._cpu import isa

cnp.import_array()

cdef extern from "tables.h" nogil:
    enum:
        GPP_LOOPS
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
    ctypedef void (*gpp_loop)(const gpp_problem *, Py_ssize_t, double complex *) noexcept nogil
    ctypedef struct gpp_loops:
        const char *names[GPP_LOOPS]
        gpp_loop loops[GPP_LOOPS]
        void (*row_of_product)(double *, const double *, const double *, const double *, Py_ssize_t, const double *,
                               Py_ssize_t, double, double complex *) noexcept nogil


cdef class Loops:
    """The loops of one instruction set, by default the one in force.

    Arrays are complex numbers as pairs, or planes above each other.
    """

    cdef const gpp_loops *loops

    def __init__(self, str isa_name=None):
        self.loops = <const gpp_loops *> <size_t> isa.table("gemmlab.workloads.loops", "gpp", isa_name)

    @property
    def names(self):
        """The loops' names."""
        return tuple([self.loops.names[loop].decode() for loop in range(GPP_LOOPS)])

    def run(self, str name not None, cnp.ndarray[double, ndim=2, mode="c"] aqsm,
            cnp.ndarray[double, ndim=2, mode="c"] aqsn, cnp.ndarray[double, ndim=2, mode="c"] eps,
            cnp.ndarray[double, ndim=2, mode="c"] wt, cnp.ndarray[double, mode="c"] vcoul,
            cnp.ndarray[double, ndim=2, mode="c"] wx, cnp.ndarray[int, mode="c"] column, Py_ssize_t nvband,
            Py_ssize_t bands_im, Py_ssize_t rows_im, cnp.ndarray[double complex, ndim=2, mode="c"] sums,
            Py_ssize_t first, Py_ssize_t last, int threads):
        """Add one loop's sums to rows first to last of `sums`, which has one for each band, or each row of eps (pgnw).

        In planes the imaginary parts are `bands_im` and `rows_im` numbers after the real ones.
        """
        cdef gpp_problem x
        cdef gpp_loop loop = self.loops.loops[self.names.index(name)]
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
            loop(&x, outer, &sums[outer, 0])

    def weigh(self, cnp.ndarray[double, ndim=2, mode="c"] product, cnp.ndarray[double, ndim=2, mode="c"] occupied,
              cnp.ndarray[double, ndim=2] eps, cnp.ndarray[double, ndim=2] wt, cnp.ndarray[double, mode="c"] vcoul,
              cnp.ndarray[double, mode="c"] wx, cnp.ndarray[double complex, ndim=2, mode="c"] sums, int threads):
        """Add a product's weighted sums to the rows of `sums`. The arrays are pairs, with unit steps in rows.

        `product` is over the bands that are not occupied; `occupied`, which may be None, is added to it.
        """
        cdef Py_ssize_t p, columns = product.shape[1] // 2, nend = wx.shape[0]
        cdef bint has_occupied = occupied is not None
        cdef int team = usable_threads(threads)
        for p in prange(product.shape[0], nogil=True, num_threads=team, schedule="static"):
            self.loops.row_of_product(
                &product[p, 0], &occupied[p, 0] if has_occupied else NULL, &eps[p, 0], &wt[p, 0], columns, &wx[0], nend,
                vcoul[p], &sums[p, 0])
