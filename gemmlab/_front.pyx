# cython: language_level=3, freethreading_compatible=True
"""The compiled way of plain products: `matmul` itself.

Two arrays of one dtype in row-major order need no `Problem`: they are recognised here and handed to the
kernel. Everything else, every error included, goes to the general way in `_api`.
"""

cimport numpy as cnp

from gemmlab._cpu._driver cimport CompiledWay

import numpy

from gemmlab._config import config, scope

cnp.import_array()

cdef object numpy_matmul = numpy.matmul
cdef object scope_get = scope.get
cdef object general = None
cdef str default_backend = "auto"
cdef dict ready = {}


def install(way):
    """Take the general way over from `_api`."""
    global general
    general = way


def make_ready(str name, kernel):
    """From now on plain products of this backend go to `kernel`; None: to NumPy's matmul."""
    ready[name] = kernel


def settings_changed():
    """Follow `gemmlab.config`: a backend that was ready may now be blocked."""
    global default_backend
    default_backend = config.backend
    ready.clear()


def matmul(a, b, /, out=None, *, backend=None, dtype=None, casting="same_kind", axes=None, threads=None, **params):
    """Matrix product of two arrays, with the semantics of `numpy.matmul` and a backend of your choice.

    Parameters
    ----------
    a, b : array_like
        Matrices of shape (m, k) and (k, n), stacks of them that broadcast, or vectors. Scalars not allowed.
    out : ndarray, optional
        Where the result goes; its shape must be the result's.
    backend : str, optional
        A name from `gemmlab.backends()`, or a family such as "cpu". It never falls back to another.
        Default: `gemmlab.use`, else `gemmlab.config.backend`, else "auto".
    dtype, casting, axes
        As for `numpy.matmul`.
    threads : int, optional
        Threads of this product. Default: as many as the process may use, one for small products.
    **params
        Parameters of the backend, see `gemmlab.backends()[name].params`.

    Returns
    -------
    ndarray or scalar
        `out` if given; a NumPy scalar for two vectors.

    Raises
    ------
    ValueError
        Shapes that do not agree, or a parameter outside its rule.
    UnknownBackend, BackendUnavailable, UnsupportedProblem
        The named backend does not exist, cannot run here, or does not do this dtype or kind of array.

    Examples
    --------
    >>> import numpy as np
    >>> import gemmlab
    >>> a = np.arange(6.0).reshape(2, 3)
    >>> gemmlab.matmul(a, a.T, backend="cpu-blocked")
    array([[ 5., 14.],
           [14., 50.]])
    """
    if (type(a) is cnp.ndarray and type(b) is cnp.ndarray and (out is None or type(out) is cnp.ndarray)
            and dtype is None and axes is None and threads is None and not params and casting == "same_kind"):
        result = plain(a, b, out, backend)
        if result is not None:
            return result
    return general(a, b, out, backend, dtype, casting, axes, threads, params)


cdef object plain(cnp.ndarray a, cnp.ndarray b, cnp.ndarray out, name):
    """The product if it is plain and its backend is ready; None otherwise."""
    current = scope_get()
    if current is not None:
        if current.traces or current.params or current.threads is not None:
            return None
        if name is None:
            name = current.backend
    if name is None:
        name = default_backend
    if type(name) is not str:
        return None
    kernel = ready.get(name, name)
    if kernel is name:
        return None
    if kernel is None:
        return numpy_matmul(a, b, out)
    return (<CompiledWay> kernel).plain(a, b, out)
