# cython: language_level=3, freethreading_compatible=True
"""`matmul`: the compiled way for plain products.

A product of NumPy's arrays or lists needs no `Problem`, with `out`, `dtype`, `threads` and `accumulate` or without:
it is recognised here and passed to the compiled kernel. Everything else, including every error, is left to
`general_matmul` in `_api.products`.
"""

cimport numpy as cnp
from cpython.object cimport PyTypeObject

from gemmlab._cpu._driver cimport CompiledWay, product_of_numpy

import numpy

from gemmlab._process import forks
from gemmlab._config import MAX_THREADS, config, scope

cdef extern from "numpy/ndarraytypes.h":
    int NPY_USERDEF

cdef extern from "numpy/arrayobject.h":
    object PyArray_View(cnp.ndarray, void *, PyTypeObject *)

cnp.import_array()

cdef object numpy_matmul = numpy.matmul
cdef object scope_get = scope.get
cdef object general = None
cdef str default_backend = "auto"
cdef dict kernels = {}
cdef dict loop_dtypes = {}
cdef dict casts = {}
cdef object array_class = None
cdef object packed_class = None
cdef set of_numpy = set()
cdef object general_ufunc = None
cdef set products = {getattr(numpy, name) for name in ("vecdot", "matvec", "vecmat") if hasattr(numpy, name)}
cdef dict device_plans = {}
cdef int max_threads = MAX_THREADS


def set_general(function):
    """Set the function for all other products; `_api` calls this, because it imports this module."""
    global general
    general = function


def set_packed_class(kind):
    """The class of operands in panels."""
    global packed_class
    packed_class = kind


def register_kernel(str name, kernel):
    """From now on, plain products of this backend go to `kernel`, or to NumPy's matmul if it is None."""
    kernels[name] = kernel


def is_registered(str name):
    """Whether plain products of this backend take the compiled way already."""
    return name in kernels


def register_plans(kind, function):
    """From now on, ask `function` first for products of device arrays of this type; None: there is no plan yet."""
    device_plans[kind] = function


forks.in_child(kernels.clear)  # their libraries may be lost there


def settings_changed():
    """Read `gemmlab.config` again, and forget all kernels: their backends may be blocked now."""
    global default_backend
    default_backend = config.backend
    kernels.clear()


def matmul(a, b, /, out=None, *, backend=None, dtype=None, casting="same_kind", axes=None, threads=None,
           accumulate=False, **params):
    """Matrix product of two arrays, with the semantics of `numpy.matmul` and a backend of your choice.

    Parameters
    ----------
    a, b : array_like
        Matrices of shape (m, k) and (k, n), batches of matrices that broadcast, or vectors. No scalars.
    out : ndarray, optional
        The array to write the result to; it must have the result's shape. It is not read, unless `accumulate`.
    backend : str, optional
        A name from `gemmlab.backends()`, or a family such as "cpu". No other backend is ever used instead.
        Default: `gemmlab.use`, else `gemmlab.config.backend`, else "auto".
    dtype, casting, axes
        As for `numpy.matmul`.
    threads : int, optional
        Number of threads. Default: as many as the process may use, one for small products.
    accumulate : bool, optional
        Add the product to what `out` holds, `out + a @ b`, as BLAS does with beta = 1. What `out` holds is the first
        addend, in the dtype of the sums, and the result is rounded once to the dtype of `out`. So the last bits may
        differ from those of `out + a @ b`. Without `dtype`, an `out` of a wider dtype than the product's gives the sums
        its dtype. No temporary is needed, except where `out` overlaps an operand, is of another dtype than the product,
        or is of float16 or bfloat16. Errors about shapes and dtypes leave `out` as it was; after any other error its
        values are undefined. `cpu-packed` and the rungs below it can do this.
    **params
        Parameters of the backend; see `gemmlab.backends()[name].params`.

    Returns
    -------
    ndarray or scalar
        `out` if given; a NumPy scalar for two vectors.

    Raises
    ------
    ValueError
        Shapes that do not agree, a parameter value that the backend does not accept, or an `out` to add to whose
        elements share memory with each other.
    TypeError
        Arguments of a wrong type, a cast that `casting` does not allow, or `accumulate` without `out`.
    UnknownBackend, BackendUnavailable, UnsupportedProblem
        The named backend does not exist, cannot run here, or does not support this dtype, type of array or
        `accumulate`.

    Notes
    -----
    NumPy's floating-point warnings (`numpy.errstate`) come from "cpu-numpy" alone. With any other backend an overflow
    is inf in the result, and an invalid operation NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import gemmlab
    >>> a = np.arange(6.0).reshape(2, 3)
    >>> gemmlab.matmul(a, a.T, backend="cpu-blocked")
    array([[ 5., 14.],
           [14., 50.]])
    >>> c = np.ones((2, 2))
    >>> gemmlab.matmul(a, a.T, out=c, accumulate=True)
    array([[ 6., 15.],
           [15., 51.]])
    """
    if type(out) is tuple and len(out) == 1 and type(out[0]) is cnp.ndarray:  # as a ufunc's own protocol hands it on
        out = out[0]
    cdef bint is_usual = axes is None and not params and casting == "same_kind" and (
        accumulate is False if out is None else
        type(out) is cnp.ndarray and (accumulate is False or accumulate is True))
    if is_usual and (type(a) is cnp.ndarray or type(a) is list) and (type(b) is cnp.ndarray or type(b) is list):
        result = None
        if dtype is None and type(a) is cnp.ndarray and type(b) is cnp.ndarray:
            result = plain(a, b, out, backend, threads, cnp.PyArray_TYPE(a), accumulate, None)
        if result is None and accumulate is False:
            result = converted(a, b, out, dtype, backend, threads)
        if result is not None:
            return result if out is not None else scalar_or_array(result)
    elif is_usual and type(b) is packed_class and type(a) is cnp.ndarray and dtype is None:
        result = plain(a, b.placeholder, out, backend, threads, cnp.PyArray_TYPE(a), accumulate, b)
        if result is not None:
            return result
    elif (type(a) in device_plans and type(b) is type(a) and (out is None or type(out) is type(a))
            and dtype is None and axes is None and threads is None and accumulate is False
            and casting == "same_kind"):
        result = on_device(a, b, out, backend, params)
        if result is not None:
            return result
    options = {"dtype": dtype, "casting": casting, "axes": axes, "threads": threads, "accumulate": accumulate}
    return general(a, b, out, backend, options, params)


def vector_product(a, b, out, int ndim_a, int ndim_b, backend, dtype, casting, threads, dict params):
    """A plain product of operands of so many axes, the vectors among them real, so that `matmul` means the same as
    `matvec`, `vecmat` or `vecdot`; else None: the general way is to be taken."""
    if (dtype is not None or casting != "same_kind" or params
            or type(a) is not cnp.ndarray or type(b) is not cnp.ndarray or not (out is None or type(out) is cnp.ndarray)
            or cnp.PyArray_NDIM(a) != ndim_a or cnp.PyArray_NDIM(b) != ndim_b
            or (ndim_a == 1 and cnp.PyTypeNum_ISCOMPLEX(cnp.PyArray_TYPE(a)))):
        return None
    result = plain(a, b, out, backend, threads, cnp.PyArray_TYPE(a), False, None)
    return result if out is not None else scalar_or_array(result)


cdef inline object scalar_or_array(result):
    """As NumPy returns it: the product of two vectors is a scalar."""
    return result[()] if type(result) is cnp.ndarray and cnp.PyArray_NDIM(result) == 0 else result


def loop_dtype_of(of_a, of_b, dtype):
    """The dtype in which operands of these are multiplied, and whether it keeps all their values; None: the general way
    decides."""
    if {of_a.kind, of_b.kind} - set("?biufc") and not (of_a == of_b and of_a.name == "bfloat16"):
        return None
    try:
        found = numpy.promote_types(of_a, of_b) if dtype is None else numpy.dtype(dtype)
        if (dtype is not None and found.kind not in "?biufc") or not found.isnative:
            return None
        for casting in "safe", "same_kind":
            if numpy.can_cast(of_a, found, casting) and numpy.can_cast(of_b, found, casting):
                return found, casting == "safe"
    except TypeError:
        return None


cdef object converted(a, b, out, dtype, name, threads):
    """A product that is plain once its operands are arrays of the dtype that NumPy promotes them to, and its result is
    of the dtype of `out`; else None."""
    try:
        a = a if type(a) is cnp.ndarray else numpy.asarray(a)
        b = b if type(b) is cnp.ndarray else numpy.asarray(b)
        key = a.dtype, b.dtype, dtype
        if key not in loop_dtypes:
            loop_dtypes[key] = loop_dtype_of(*key)
        found = loop_dtypes[key]
    except (TypeError, ValueError):  # uneven lists, or a dtype that has no hash: the general way says what is wrong
        return None
    if found is None:
        return None
    of_sums, is_exact = found
    if out is None or out.dtype == of_sums:
        return in_sums_of(of_sums, is_exact, a, b, out, name, threads)
    key = of_sums, out.dtype
    if key not in casts:
        casts[key] = next((kind for kind in ("safe", "same_kind") if numpy.can_cast(of_sums, out.dtype, kind)), None)
    casting = casts[key]
    if casting is None or not out.flags.writeable or (casting == "same_kind" and is_numpys(name)):
        return None
    result = in_sums_of(of_sums, is_exact, a, b, None, name, threads)
    if result is None or result.shape != out.shape:
        return None
    if casting == "safe":
        numpy.copyto(out, result)
    else:
        with numpy.errstate(all="ignore"):
            numpy.copyto(out, result, casting="same_kind")
    return out


cdef object in_sums_of(dtype, bint is_exact, a, b, out, name, threads):
    """The product of operands as they are, where there is a kernel into sums of this dtype; else of copies in it."""
    cdef int of_sums = dtype.num
    if a.dtype != dtype and a.dtype == b.dtype:
        result = plain(a, b, out, name, threads, of_sums, False, None)
        if result is not None:
            return result
    if is_exact:
        return plain(as_type(a, dtype), as_type(b, dtype), out, name, threads, of_sums, False, None)
    if is_numpys(name):
        return None
    with numpy.errstate(all="ignore"):
        return plain(as_type(a, dtype), as_type(b, dtype), out, name, threads, of_sums, False, None)


cdef inline object as_type(x, dtype):
    return x if x.dtype == dtype and x.flags.aligned else x.astype(dtype)


cdef bint is_numpys(name):
    """Whether plain products of this backend are NumPy's, with its warnings."""
    name = requested(name, scope_get())
    return type(name) is str and kernels.get(name, name) is None


cdef inline object requested(name, current):
    """The backend of a call: its own, that of `use`, or that of the settings."""
    if name is None and current is not None:
        name = current.backend
    return default_backend if name is None else name


def set_array_class(kind, numbers, function):
    """The class of `gemmlab.asarray`, the types of operands beside it of which nothing has to be asked, and the
    function for all ufuncs that `ufunc_of_ours` leaves."""
    global array_class, of_numpy, general_ufunc
    array_class, of_numpy, general_ufunc = kind, numbers, function


def array_ufunc(self, ufunc, method, *inputs, **options):
    """`__array_ufunc__` of that class."""
    if not options and method == "__call__":
        result = ufunc_of_ours(ufunc, inputs)
        if result is not None:
            return result
    return general_ufunc(self, ufunc, method, *inputs, **options)


def product_of_ours(a, b):
    """a @ b, of arrays of our class and plain arrays; None where somebody has to be asked."""
    if not is_ours_or_plain(a) or not is_ours_or_plain(b):
        return None
    result = plain(a, b, None, None, None, cnp.PyArray_TYPE(a), False, None)  # without views of the operands
    if result is not None:
        return of_our_class(scalar_or_array(result))
    if a.dtype.kind not in "biufc" or b.dtype.kind not in "biufc":
        return None
    return of_our_class(matmul(as_plain(a), as_plain(b)))


cdef object ufunc_of_ours(ufunc, tuple inputs):
    """A ufunc of arrays of our class, plain arrays and numbers, a product by gemmlab; None where somebody has to be
    asked."""
    if ufunc is numpy_matmul:
        return product_of_ours(inputs[0], inputs[1])
    for x in inputs:
        if not is_ours_or_plain(x) and type(x) not in of_numpy:
            return None
    if len(inputs) == 1:
        result = ufunc(as_plain(inputs[0]))
    elif ufunc in products:
        return None
    elif len(inputs) == 2:
        result = ufunc(as_plain(inputs[0]), as_plain(inputs[1]))
    else:
        result = ufunc(*[as_plain(x) for x in inputs])
    if type(result) is tuple:
        return tuple([of_our_class(x) for x in result])
    return of_our_class(result)


cdef inline bint is_ours_or_plain(x):
    return type(x) is array_class or type(x) is cnp.ndarray


cdef inline object as_plain(x):
    return PyArray_View(x, NULL, <PyTypeObject *> cnp.ndarray) if type(x) is array_class else x


cdef inline object of_our_class(x):
    return PyArray_View(x, NULL, <PyTypeObject *> array_class) if type(x) is cnp.ndarray else x


cdef object plain(cnp.ndarray a, cnp.ndarray b, cnp.ndarray out, name, threads, int of_c, bint accumulate,
                  packed):
    """The product, if it is plain and the kernel of its backend is registered; None otherwise. `of_c`: NumPy's number
    of the result's type. `packed`: panels of B, whose placeholder `b` is, or None."""
    cdef bint is_numpys_too
    current = scope_get()
    if current is not None:
        if current.traces or current.params:
            return None
        if threads is None:
            threads = current.threads
    name = requested(name, current)
    if type(name) is not str:
        return None
    kernel = kernels.get(name, name)
    if kernel is name:
        return None
    if threads is None:
        if kernel is None:  # NumPy, whose product of bfloat16 has another dtype than ours
            is_numpys_too = cnp.PyArray_TYPE(a) == of_c < NPY_USERDEF and not accumulate and packed is None
            return product_of_numpy(a, b, out) if is_numpys_too else None
        return (<CompiledWay> kernel).plain(a, b, out, 0, of_c, accumulate, packed)
    if kernel is None or type(threads) is not int or not 1 <= threads <= max_threads:
        return None
    return (<CompiledWay> kernel).plain(a, b, out, threads, of_c, accumulate, packed)


cdef object on_device(a, b, out, name, dict params):
    """The product of device arrays, by a plan made at an earlier call; None if there is none."""
    current = scope_get()
    if current is not None:
        if current.traces:
            return None
        if name is None:
            params = {**current.params, **params}
    name = requested(name, current)
    if type(name) is not str:
        return None
    return device_plans[type(a)](a, b, out, name, params)
