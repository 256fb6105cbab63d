"""matmul, use, trace, threads and parameters: in one thread, in many threads, and after a fork."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers import output_of, run_python
from sweeps import but_clblast

import gemmlab
from gemmlab import UnknownBackend, UnsupportedProblem, _api, _front
from gemmlab._cpu import machine
from gemmlab._cpu.baselines import limited
from gemmlab._cpu.rungs import ladder

RUNGS = [rung.name for rung in ladder.RUNGS]
THREADED = RUNGS[1:]
BLOCKED = RUNGS[2:]
AVAILABLE = [name for name, row in gemmlab.backends().items() if row.available]
ONES = np.ones((4, 4))
RNG = np.random.default_rng(20)


def ran(a=ONES, b=ONES, **options):
    """What one product really ran as."""
    with gemmlab.trace() as calls:
        gemmlab.matmul(a, b, **options)
    return calls[0]


def whole_numbers(*shape):
    return RNG.integers(-8, 9, shape).astype(np.float64)


# The call


def test_the_operands_are_positional_only_as_in_numpy():
    kinds = [parameter.kind for parameter in inspect.signature(gemmlab.matmul).parameters.values()]
    assert kinds[:2] == [inspect.Parameter.POSITIONAL_ONLY] * 2
    with pytest.raises(TypeError):
        gemmlab.matmul(a=ONES, b=ONES)


def test_the_third_operand_is_out():
    out = np.empty((4, 4))
    assert gemmlab.matmul(ONES, ONES, out, backend="cpu-ikj") is out
    assert (out == 4).all()


@pytest.fixture
def compiled_way_only():
    """Fails for every product that does not take the compiled way."""

    def refuse(*arguments):
        raise AssertionError("did not take the compiled way")

    _front.set_general(refuse)
    yield
    _front.set_general(_api.general_matmul)


@pytest.mark.parametrize("name", [
    "auto", *(name for name in ["cpu", *AVAILABLE] if name.startswith("cpu") and name != "cpu-emulated")])  # fmt: skip
def test_a_plain_product_takes_the_compiled_way_from_the_second_call_on(name, request):
    gemmlab.matmul(ONES, ONES, backend=name)
    request.getfixturevalue("compiled_way_only")
    out = np.empty((4, 4))
    assert gemmlab.matmul(ONES, ONES, out=out, backend=name) is out
    assert (gemmlab.matmul(ONES, ONES, backend=name) == 4).all()
    with gemmlab.use(name):
        assert (gemmlab.matmul(ONES, ONES) == 4).all()


@pytest.mark.parametrize("name", ["auto", "cpu-packed", "cpu-ikj", "cpu-naive"])
def test_a_number_of_threads_leaves_a_product_plain(name, request):
    gemmlab.matmul(ONES, ONES, backend=name)
    request.getfixturevalue("compiled_way_only")
    out = np.empty((4, 4))
    for threads in (1, 2, 3):
        assert gemmlab.matmul(ONES, ONES, out=out, backend=name, threads=threads) is out
        assert (out == 4).all()
        with gemmlab.use(name, threads=threads):
            assert (gemmlab.matmul(ONES, ONES) == 4).all()


@pytest.mark.parametrize("threads", [0, -1, True, 2.0, "2", 1025, 2**80])
def test_a_wrong_number_of_threads_is_an_error_on_both_paths(threads):
    for options in ({}, {"casting": "no"}):
        with pytest.raises(ValueError, match="threads must be an integer from 1 to 1024"):
            gemmlab.matmul(ONES, ONES, threads=threads, **options)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", but_clblast(AVAILABLE))
def test_both_paths_give_the_same_bits(name, dtype):
    for m, n, k in ((1, 1, 1), (3, 5, 7), (67, 129, 70), (301, 257, 200)):
        a, b = RNG.random((m, k), dtype=dtype), RNG.random((k, n), dtype=dtype)
        gemmlab.matmul(a, b, backend=name)
        compiled = gemmlab.matmul(a, b, backend=name)
        general = gemmlab.matmul(a, b, backend=name, casting="no")
        assert compiled.tobytes() == general.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", THREADED)
def test_threads_and_schedule_change_no_bit(name, dtype):
    a, b = RNG.random((131, 300), dtype=dtype), RNG.random((300, 97), dtype=dtype)
    one = gemmlab.matmul(a, b, backend=name, threads=1)
    for threads in (2, 3, 8):
        for schedule in gemmlab.get_backend(name).params["schedule"].choices:
            many = gemmlab.matmul(a, b, backend=name, threads=threads, schedule=schedule)
            assert many.tobytes() == one.tobytes(), (threads, schedule)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", RUNGS)
def test_where_the_operands_lie_changes_no_bit(name, dtype):
    a, b = RNG.random((20, 70), dtype=dtype), RNG.random((70, 300), dtype=dtype)
    here = gemmlab.matmul(a, b, backend=name)
    room = np.empty(b.size + 20, dtype)
    for offset in range(17):
        elsewhere = room[offset : offset + b.size].reshape(b.shape)
        elsewhere[...] = b
        assert gemmlab.matmul(a, elsewhere, backend=name).tobytes() == here.tobytes(), offset


@pytest.fixture(scope="module")
def rows_far_apart(tmp_path_factory):
    """Two rows whose distance 32 bits cannot count, in a file that is nearly all hole."""
    apart = 2**31 + 16
    try:
        numbers = np.memmap(tmp_path_factory.mktemp("sparse") / "numbers", np.float32, "w+", shape=(apart + 4,))
    except (OSError, OverflowError, ValueError) as error:
        pytest.skip(f"no sparse file of 8 GB here: {error}")
    rows = np.lib.stride_tricks.as_strided(np.asarray(numbers), (2, 4), (4 * apart, 4))
    rows[...] = [[1, 2, 3, 4], [5, 6, 7, 8]]
    return rows


@pytest.mark.parametrize("place", ["a", "b", "out"])
@pytest.mark.parametrize("name", but_clblast(AVAILABLE))
def test_a_leading_dimension_over_32_bits_is_right_or_refused(name, place, rows_far_apart):
    far, near = rows_far_apart, np.array(rows_far_apart)
    square, nothing = np.float32([[2, 1], [1, 2]]), np.full((2, 4), np.nan, np.float32)
    a, b, out = {
        "a": (far, near.T.copy(), nothing[:, :2]),
        "b": (square, far, nothing),
        "out": (square, near, far),
    }[place]
    right = np.array(a) @ np.array(b)
    try:
        gemmlab.matmul(a, b, out=out, backend=name)
        assert np.array_equal(out, right)
    except UnsupportedProblem:
        pass
    finally:
        far[...] = near


# use


def test_use_sets_what_a_call_leaves_open():
    with gemmlab.use("cpu-blocked", threads=3, bs_c=32):
        call = ran()
    assert (call.backend, call.threads, call.params["bs_c"]) == ("cpu-blocked", 3, 32)
    assert ran().backend == "cpu-packed"


def test_a_call_beats_use():
    with gemmlab.use("cpu-blocked", threads=3, bs_c=32):
        call = ran(threads=2, bs_c=16)
    assert (call.threads, call.params["bs_c"]) == (2, 16)


def test_parameters_of_use_belong_to_its_backend():
    with gemmlab.use("cpu-blocked", bs_c=32):
        assert "bs_c" not in ran(backend="cpu-ikj").params


def test_an_inner_use_keeps_what_it_does_not_set():
    with gemmlab.use("cpu-blocked", threads=3, bs_c=32):
        with gemmlab.use(threads=2, bs_k=16):
            call = ran()
            assert (call.backend, call.threads) == ("cpu-blocked", 2)
            assert (call.params["bs_c"], call.params["bs_k"]) == (32, 16)
        call = ran()
        assert (call.threads, call.params["bs_c"]) == (3, 32)


def test_an_inner_backend_does_not_inherit_parameters():
    with gemmlab.use("cpu-blocked", threads=3, bs_c=32), gemmlab.use("cpu-ikj"):
        call = ran()
    assert (call.backend, call.threads, list(call.params)) == ("cpu-ikj", 3, ["schedule"])


def test_use_ends_with_an_exception_too():
    with pytest.raises(KeyError), gemmlab.use("cpu-ikj"):
        raise KeyError
    assert ran().backend == "cpu-packed"


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        (["cpu-bloked"], {}, UnknownBackend),
        ([""], {}, UnknownBackend),
        (["cpu-blocked"], {"bs_q": 3}, TypeError),
        (["cpu-blocked"], {"bs_c": 0}, ValueError),
        (["cpu-blocked"], {"threads": 0}, ValueError),
        ([], {"bs_c": 3}, TypeError),
    ],
)
def test_what_is_wrong_fails_at_the_with(arguments, options, error):
    entered = []
    with pytest.raises(error), gemmlab.use(*arguments, **options):
        entered.append(True)
    assert not entered


NO_EFFECT = r"use\('cpu-ikj', threads=2\) has no effect: write `with`, or set gemmlab.config.backend"


def test_a_use_that_is_never_entered_warns_once_where_it_was_written():
    with pytest.warns(RuntimeWarning, match=NO_EFFECT) as warned:
        gemmlab.use("cpu-ikj", threads=2)
    assert [(one.filename, one.lineno) for one in warned] == [(__file__, inspect.currentframe().f_lineno - 1)]
    assert ran().backend == "cpu-packed"


@pytest.mark.parametrize("entered", [
    "with gemmlab.use('cpu-ikj'): pass",
    "@gemmlab.use('cpu-ikj')\ndef f(): pass",
    "with contextlib.ExitStack() as stack: stack.enter_context(gemmlab.use('cpu-ikj'))",
])  # fmt: skip
def test_a_use_that_is_entered_or_decorates_does_not_warn(entered):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(entered, {"gemmlab": gemmlab, "contextlib": contextlib})
        gc.collect()


def test_a_use_that_failed_does_not_warn_as_well():
    output_of(
        """
import gemmlab
for name in ("cpu-bloked", 3):
    try:
        with gemmlab.use(name): pass
    except (gemmlab.UnknownBackend, TypeError): pass
""",
        PYTHONWARNINGS="error",
    )
    assert run_python("-W", "error", "-c", "import gemmlab\ngemmlab.use('cpu-ikj')").stderr.count("has no effect") == 1


def test_use_at_the_end_of_a_program_warns():
    done = run_python("-c", "import gemmlab\nkept = gemmlab.use('cpu-ikj')")
    assert (done.returncode, "<string>:2: RuntimeWarning: use('cpu-ikj') has no effect" in done.stderr) == (0, True)


def test_use_as_a_decorator_holds_for_each_call():
    @gemmlab.use("cpu-blocked", bs_c=32)
    def product(side, *, more=0):
        "Its text."
        if side > 1:
            return product(side - 1, more=more + 1)
        return ran(), more

    for _ in range(2):
        call, more = product(3)
        assert (call.backend, call.params["bs_c"], more) == ("cpu-blocked", 32, 2)
        assert ran().backend == "cpu-packed"
    assert (product.__name__, product.__doc__) == ("product", "Its text.")


def test_use_decorates_functions_that_several_threads_call():
    both_inside = threading.Barrier(2)

    @gemmlab.use("cpu-blocked")
    def product():
        both_inside.wait()
        return ran().backend

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(product) for _ in range(2)]
        assert [future.result() for future in futures] == ["cpu-blocked"] * 2


def test_use_decorates_a_coroutine_and_a_generator():
    @gemmlab.use("cpu-blocked")
    async def awaited():
        await asyncio.sleep(0)
        return ran().backend

    @gemmlab.use("cpu-blocked")
    def generated():
        yield 1
        yield 2

    async def beside():
        return ran().backend

    async def all_of_them():
        return await asyncio.gather(awaited(), beside(), awaited())

    assert asyncio.run(all_of_them()) == ["cpu-blocked", "cpu-packed", "cpu-blocked"]
    assert list(generated()) == [1, 2]


def test_a_decorator_with_a_wrong_name_fails_at_the_call():
    @gemmlab.use("cpu-bloked")
    def product():
        raise AssertionError("ran")

    with pytest.raises(UnknownBackend):
        product()


def test_a_use_may_be_entered_again_but_not_within_itself():
    twice = gemmlab.use("cpu-ikj")
    for _ in range(2):
        with twice:
            assert ran().backend == "cpu-ikj"
        assert ran().backend == "cpu-packed"
    with twice, pytest.raises(RuntimeError, match=r"entered already.*call gemmlab\.use again"), twice:
        pass
    assert ran().backend == "cpu-packed"


def test_threads_do_not_see_each_others_use():
    both_inside = threading.Barrier(2)

    def within(name):
        with gemmlab.use(name):
            both_inside.wait()
            return ran().backend

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(within, ["cpu-ikj", "cpu-blocked"])) == ["cpu-ikj", "cpu-blocked"]


def test_a_running_thread_does_not_see_a_new_use():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(ran).result()
        with gemmlab.use("cpu-ikj"):
            assert pool.submit(ran).result().backend == "cpu-packed"


def test_asyncio_tasks_do_not_see_each_others_use():
    async def within(name):
        with gemmlab.use(name):
            await asyncio.sleep(0)
            return ran().backend

    async def both():
        return await asyncio.gather(within("cpu-ikj"), within("cpu-blocked"))

    assert asyncio.run(both()) == ["cpu-ikj", "cpu-blocked"]


# trace


def test_a_trace_tells_what_ran():
    call = ran(backend="cpu", threads=2)
    assert (call.backend, call.threads, call.copies, call.kernel_s) == ("cpu-packed", 2, 0, None)
    assert call.device == machine.cpu_name()
    assert call.seconds > 0


@pytest.mark.parametrize("name", BLOCKED)
def test_a_trace_has_parameters_with_defaults_filled_in(name):
    params, known = ran(backend=name, bs_c=48, bs_k=None).params, gemmlab.get_backend(name).params
    assert list(params) == list(known)
    assert (params["bs_c"], params["schedule"]) == (48, known["schedule"].default)
    assert all(isinstance(params[size], int) and params[size] >= 1 for size in ("bs_r", "bs_c", "bs_k"))


def test_the_naive_rung_is_one_thread_whatever_is_asked():
    assert ran(backend="cpu-naive", threads=4).threads == 1


def overlapping():
    both = np.ones((5, 4))
    return {"a": both[:4], "b": ONES, "out": both[1:]}


@pytest.mark.parametrize(
    ("given", "copies"),
    [
        ({}, 0),
        ({"a": np.ones((4, 8))[:, ::2]}, 1),
        ({"a": np.asfortranarray(ONES)}, 1),
        ({"a": np.asfortranarray(ONES), "b": np.asfortranarray(ONES)}, 2),
        ({"a": ONES.astype("float32")}, 1),
        ({"b": ONES.astype(">f8")}, 1),
        ({"out": np.empty((4, 4))}, 0),
        ({"out": np.empty((4, 4), order="F")}, 1),
        ({"out": np.empty((4, 4), "float32")}, 1),
        (overlapping(), 1),
    ],
)
def test_a_trace_counts_copies(given, copies):
    assert ran(**{"a": ONES, "b": ONES, **given}, backend="cpu-ikj").copies == copies


@pytest.mark.skipif("cpu-blas" not in AVAILABLE, reason="no SciPy")
def test_a_blas_copies_no_operand_in_columns():
    columns = np.asfortranarray(RNG.random((6, 6)))
    assert ran(columns, columns, backend="cpu-blas", out=np.empty((6, 6), order="F")).copies == 0


def test_traces_nest():
    with gemmlab.trace() as outer:
        gemmlab.matmul(ONES, ONES, backend="cpu-ikj")
        with gemmlab.trace() as inner:
            gemmlab.matmul(ONES, ONES, backend="cpu-naive")
        gemmlab.matmul(ONES, ONES, backend="cpu-blocked")
    assert [call.backend for call in outer] == ["cpu-ikj", "cpu-naive", "cpu-blocked"]
    assert [call.backend for call in inner] == ["cpu-naive"]


def test_a_trace_ends_with_its_block():
    with gemmlab.trace() as calls:
        pass
    gemmlab.matmul(ONES, ONES)
    assert calls == []


def test_what_did_not_run_is_in_no_trace():
    with gemmlab.trace() as calls, pytest.raises(ValueError, match="mismatch"):
        gemmlab.matmul(ONES, np.ones((3, 4)))
    assert calls == []


# Parameters


@pytest.mark.parametrize(
    ("name", "own"),
    [("cpu-naive", "none"), ("cpu-ikj", "schedule"), ("cpu-blocked", "bs_r, bs_c, bs_k, schedule")],
)
def test_an_unknown_parameter_error_lists_the_backends_parameters(name, own):
    with pytest.raises(TypeError, match=f"{name} has no parameter 'bs_q'; its parameters: {own}$"):
        gemmlab.matmul(ONES, ONES, backend=name, bs_q=3)


@pytest.mark.parametrize("value", [0, -1, 1.5, "16", True, 2**40])
def test_a_block_size_is_a_positive_integer(value):
    with pytest.raises(ValueError, match="bs_c must be a positive integer"):
        gemmlab.matmul(ONES, ONES, backend="cpu-blocked", bs_c=value)


@pytest.mark.parametrize("value", ["fast", 1, ["static"]])
def test_a_schedule_is_one_of_three(value):
    with pytest.raises(ValueError, match="static, dynamic, guided"):
        gemmlab.matmul(ONES, ONES, backend="cpu-ikj", schedule=value)


def test_numpys_integers_are_integers():
    call = ran(backend="cpu-blocked", bs_c=np.int64(16), threads=np.int32(2))
    assert (call.params["bs_c"], call.threads) == (16, 2)


@pytest.mark.parametrize("value", [1, 3, 7, 1000, 2**31])
@pytest.mark.parametrize("size", ["bs_r", "bs_c", "bs_k"])
@pytest.mark.parametrize("name", BLOCKED)
def test_any_block_size_gives_the_product(name, size, value):
    a, b = whole_numbers(37, 41), whole_numbers(41, 147)
    for first in range(5):  # also where b does not start with a cache line
        part = b[:, first:]
        assert np.array_equal(gemmlab.matmul(a, part, backend=name, **{size: value}), a @ part)


# Threads

WRONG_THREADS = [0, -1, True, 1.5, "2", 5000]


@pytest.mark.parametrize("threads", WRONG_THREADS)
@pytest.mark.parametrize("name", ["auto", "cpu-naive", "cpu-blocked"])
def test_threads_of_a_call_are_a_count(name, threads):
    with pytest.raises(ValueError, match="threads must be an integer from 1 to 1024"):
        gemmlab.matmul(ONES, ONES, backend=name, threads=threads)


@pytest.mark.parametrize("threads", WRONG_THREADS)
def test_threads_of_config_are_a_count(threads):
    with pytest.raises(ValueError, match="threads must be an integer from 1 to 1024"):
        gemmlab.config.threads = threads
    assert gemmlab.config.threads is None


@pytest.mark.parametrize("text", ["0", "two", "1.5", "5000"])
def test_threads_of_the_environment_are_a_count(text):
    done = run_python("-c", "import gemmlab", GEMMLAB_THREADS=text)
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1].endswith(f"GEMMLAB_THREADS must be an integer from 1 to 1024, not '{text}'")


@pytest.fixture
def config_threads(monkeypatch):
    return lambda threads: monkeypatch.setattr(gemmlab.config, "threads", threads)


@pytest.mark.parametrize("name", ["cpu-blocked", "cpu-numpy"])
def test_a_call_beats_use_beats_config_in_threads(name, config_threads):
    a = RNG.random((200, 200))
    config_threads(4)
    assert ran(a, a, backend=name).threads == 4
    with gemmlab.use(threads=3):
        assert ran(a, a, backend=name).threads == 3
        assert ran(a, a, backend=name, threads=2).threads == 2


def test_threads_come_from_the_environment():
    output_of(
        """
import gemmlab, numpy as np
a = np.ones((200, 200))
with gemmlab.trace() as calls:
    gemmlab.matmul(a, a, backend="cpu-blocked")
assert gemmlab.config.threads == calls[0].threads == 3
""",
        GEMMLAB_THREADS="3",
    )


def test_a_small_product_runs_on_one_thread_by_default(config_threads):
    assert ran(backend="cpu-blocked").threads == 1
    config_threads(4)
    assert ran(backend="cpu-blocked").threads == 1
    assert ran(backend="cpu-blocked", threads=2).threads == 2


def test_without_a_count_a_large_product_takes_the_cpus_it_may():
    a = RNG.random((300, 300))
    assert ran(a, a, backend="cpu-blocked").threads <= machine.usable_cpus()
    code = "import gemmlab, numpy as np; a = np.ones((300, 300))\nwith gemmlab.trace() as calls:\n"
    code += "    gemmlab.matmul(a, a, backend='cpu-blocked')\nprint(calls[0].threads)"
    assert output_of(code, OMP_NUM_THREADS="1") == "1\n"


# Many callers


@pytest.mark.parametrize("name", but_clblast(AVAILABLE))
def test_many_threads_may_call_at_once(name):
    def right(seed):
        rng = np.random.default_rng(seed)
        a, b = rng.integers(-8, 9, (2, 120, 120)).astype(np.float64)
        c = gemmlab.matmul(a, b, backend=name, threads=(None, 1, 2, 3)[seed % 4])
        return np.array_equal(c, a.astype(int) @ b.astype(int))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(right, range(48)))


class Library:
    """A library's thread pool, as threadpoolctl shows one."""

    filepath, internal_api, num_threads = "libmadeup.so", "openblas", 8

    def set_num_threads(self, threads):
        self.num_threads = threads


def test_calls_that_overlap_leave_a_librarys_threads_as_they_were():
    library = Library()
    first, second = limited((library,), 1), limited((library,), 3)
    first.__enter__()
    assert library.num_threads == 1
    second.__enter__()
    assert library.num_threads == 3
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert library.num_threads == 8


class LibraryOfThreads(Library):
    """A library, as MKL, that has a count for each thread."""

    internal_api = "mkl"

    def __init__(self):
        self.here = threading.local()

    @property
    def num_threads(self):
        return getattr(self.here, "count", 8)

    def set_num_threads(self, threads):
        self.here.count = threads


def test_calls_that_overlap_leave_a_librarys_threads_as_they_were_in_each_thread():
    library = LibraryOfThreads()
    both_inside, first_is_out = threading.Barrier(2), threading.Event()

    def call(threads, may_end):
        with limited((library,), threads):
            both_inside.wait()
            assert library.num_threads == threads
            may_end()
        first_is_out.set()
        return library.num_threads

    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(call, 1, lambda: None), pool.submit(call, 3, first_is_out.wait)]
        assert [made.result(timeout=60) for made in calls] == [8, 8]


def test_a_count_for_a_library_ends_with_an_exception_too():
    library = Library()
    with pytest.raises(KeyError), limited((library,), 2):
        raise KeyError
    assert library.num_threads == 8


@pytest.mark.parametrize("options", [{}, {"casting": "no"}], ids=["compiled way", "general path"])
def test_other_threads_run_during_a_product(options):
    a = RNG.random((500, 500))
    gemmlab.matmul(a, a, backend="cpu-naive")
    out = np.full((500, 500), np.nan)
    seen_half_done, finished = threading.Event(), threading.Event()

    def watch():
        while not finished.is_set():
            if not np.isnan(out[0, 0]) and np.isnan(out[-1, -1]):
                seen_half_done.set()
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    gemmlab.matmul(a, a, out=out, backend="cpu-naive", **options)
    finished.set()
    watcher.join()
    assert seen_half_done.is_set()


# After a fork

FORK = """
import os, signal, warnings
import numpy as np
import gemmlab

a = np.random.default_rng(0).integers(-8, 9, (200, 200)).astype(float)
right = a @ a

def multiply(**options):
    assert np.array_equal(gemmlab.matmul(a, a, **options), right)

multiply(backend="cpu-blocked", threads=2)
child = os.fork()
if child:
    _, status = os.waitpid(child, 0)
    raise SystemExit(os.waitstatus_to_exitcode(status))
status = 1
signal.alarm(10)  # a child that waits for threads that are not there is ended
try:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
{products}
        with gemmlab.trace() as calls:
            multiply(backend="cpu-blocked", threads=2)
    assert calls[0].threads == 1
    assert [warning.category for warning in seen] == [RuntimeWarning], seen
    assert "fork" in str(seen[0].message)
    status = 0
finally:
    os._exit(status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize(
    "products",
    [
        ["multiply(backend='cpu-blocked')"] * 2,
        ["multiply(backend='cpu-blocked', threads=2)"] * 2,
        ["multiply(backend='cpu-ikj')", "gemmlab.config.threads = 2", "multiply(backend='cpu-ikj')"],
        ["multiply(backend='cpu-ikj')", "gemmlab.config.backend = 'cpu-ikj'", "multiply()"],
    ],
    ids=["plain", "threads", "config.threads", "config.backend"],
)
def test_a_forked_child_multiplies_on_one_thread_and_warns_once(products):
    output_of(FORK.format(products="\n".join(" " * 8 + line for line in products)))


@pytest.mark.parametrize("shapes", [((50,), (50, 40)), ((40, 50), (50,)), ((50,), (50,)), ((40, 50), (50, 40))])
def test_explain_does_not_say_what_was_not_measured(shapes, monkeypatch):
    a, b = (np.ones(shape) for shape in shapes)
    monkeypatch.setattr(gemmlab._registry._auto, "row_of", lambda problem: None)
    rows = {name: why for name, _, why in gemmlab.explain(a, b).rows}
    assert "faster here" not in rows["cpu-numpy"].replace("was not measured to be faster here", "")
