"""The public functions around `matmul`, and `matmul` itself beyond the compiled way of `_front`.

    products.py          general_matmul: the way of every product that is not plain
    foreign.py           operands on a device, through DLPack, or that dispatch NumPy's functions themselves
    adding.py            products that are added up in one array
    packing.py           pack: a right operand that is packed once
    calls.py             run one problem on one backend, and report it to traces
    explaining.py        explain: which backend a product would go to, and why
    choosing.py          backends, get_backend, use, trace
    array.py             asarray: a class of arrays whose products come here, by NumPy's protocols
    numpy_products.py    NumPy's other products (dot, einsum, vecdot and so on) for plain arrays
    labels.py            the subscripts of einsum
    sum_of_products.py   a sum of products over axes with labels, as one batched matmul
    contraction_path.py  an einsum of three and more operands, one contraction after the other
    contraction.py       einsum, tensordot
    vector_functions.py  matvec, vecmat, vecdot

Importing this package connects the compiled way with the general one and with the settings.
"""

from gemmlab import _front
from gemmlab._api.array import asarray, unwrapped
from gemmlab._api.calls import Call
from gemmlab._api.choosing import backends, get_backend, requested_backend, trace, use
from gemmlab._api.contraction import einsum, einsum_product, tensordot
from gemmlab._api.foreign import array_owner, foreign_operand
from gemmlab._api.packing import pack
from gemmlab._api.products import general_matmul
from gemmlab._api.vector_functions import matvec, vecdot, vecmat
from gemmlab._config import config
from gemmlab._cpu.packed_backend._packed import PackedOperand
from gemmlab._cpu.threads import _threads
from gemmlab._cpu.threads.threadpool import follow_threadpoolctl
from gemmlab._front import matmul
from gemmlab._gpu.plans import table

__all__ = [
    "Call",
    "array_owner",
    "asarray",
    "backends",
    "einsum",
    "einsum_product",
    "foreign_operand",
    "general_matmul",
    "get_backend",
    "matmul",
    "matvec",
    "pack",
    "requested_backend",
    "tensordot",
    "trace",
    "unwrapped",
    "use",
    "vecdot",
    "vecmat",
]

follow_threadpoolctl()
_front.set_general(general_matmul)
_front.set_packed_class(PackedOperand)
config.listen(_front.settings_changed)
config.listen(table.forget_all)
config.listen(lambda: _threads.limit_threads(config.threads))
