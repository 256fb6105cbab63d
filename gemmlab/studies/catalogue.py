"""The studies, as data.

Sizes and figures are the sources' own; the figures come from ``gemmlab/data/papers.json``. Quick runs are for CPU
devices and for a first look.
"""

from __future__ import annotations

import difflib
from functools import partial

from gemmlab._errors import suggestion
from gemmlab._gpu import RUNG_NAMES, VENDORS
from gemmlab._name import BackendName
from gemmlab._registry import BUILT_IN
from gemmlab.analysis.findings import Band, near, papers
from gemmlab.analysis.groups import is_baseline
from gemmlab.measure.records import Record
from gemmlab.studies import cache_model, cold_start, gpp, memory_modes, pair_counts, postings
from gemmlab.studies.judges import EACH, MORE, At, Faster, best_at, builds_within, cpu_ladder, passes
from gemmlab.studies.rungs import emulation, steps
from gemmlab.studies.scale import co_execution
from gemmlab.studies.study import COUNTED, KERNELS, ON_CPU, Entry, Study, X, label_of, rung_of

_PAPERS = papers()
_R_CPU, _R_GPU = _PAPERS["R.cpu"], _PAPERS["R.gpu"]
_X_GROUPS, _X_TIMES = _PAPERS["X.table1_work_group_size"], _PAPERS["X.table2_time"]
_P_TIMES = _PAPERS["P.times_s"]

# gpu-ladder and cpu-ladder

_UP = _R_GPU["speedup_over"]
_PROFILED = {name: _R_GPU["vtune"][name]["gpu_time_s"] for name in ("local4", "vendor")}


def _rung_or_vendor(record: Record) -> str:
    name = rung_of(record)
    return "vendor" if name in VENDORS.values() else name


GPU_LADDER = Study(
    "gpu-ladder", "R", "What does each rung of the GPU ladder gain, and how far ahead is the vendor's library?",
    f"{KERNELS} The source, too, leaves the first transfer out.",
    entries=(*(Entry(f"RT-{name}") for name in RUNG_NAMES), Entry("RT-vendor")),
    sizes=(256, 512, 1024, 1536, 2048, 2496, 3072, 4032), quick_sizes=(128, 256, 512),
    series=_rung_or_vendor, over_series="private", by_kernel=True, cap_s=5.0, ceilings_s=10.0,
    theirs={
        "naive": {None: _UP["private_over_naive"]}, "private": {None: 1.0},
        "local": {None: 1 / _UP["local_over_private"]}, "local4": {None: 1 / _UP["local4_over_private"]},
    },
    judges=(
        Faster(At("private"), At("naive"), _UP["private_over_naive"]),
        Faster(At("local"), At("private"), _UP["local_over_private"]),
        Faster(At("local4"), At("private"), _UP["local4_over_private"]),
        Faster(At("vendor"), At("local4"), _PROFILED["local4"] / _PROFILED["vendor"]),
        partial(passes, "vendor", "local4", _R_GPU["vendor_passes_local4_at_n"]),
    ),
)  # fmt: skip

CPU_LADDER = Study(
    "cpu-ladder", "R", "What does each rung of the CPU ladder gain, and how near the peak is MKL?", ON_CPU,
    entries=(*(Entry(name) for name in BUILT_IN if name.startswith("cpu-") and not is_baseline(name)),
             Entry("cpu-blas"), Entry("cpu-mkl")),
    sizes=(256, 512, 1008, 2016, 3024, 4032), quick_sizes=(64, 256, 512),
    over_series="ikj", cap_s=10.0, ceilings_s=10.0,
    theirs={BackendName.of(rung).rung: {_R_CPU["n_vtune"]: time} for rung, time in _R_CPU["elapsed_s"].items()},
    theirs_in_seconds=True,
    judges=(cpu_ladder,),
)  # fmt: skip

# cpu-vs-gpu

_CPU = ("cpu-mkl", "cpu-blas", "cpu-numpy")
_TIMES_AS_LONG: dict[X, float] = {int(n): ratio for n, ratio in _R_GPU["gpu_vendor_time_over_cpu_vendor_time"].items()}
_PEAKS = (
    f"The peaks of the source's machine are {_R_CPU['peak_gflop_per_s']} GFLOP/s on its CPU and "
    f"{_R_GPU['peak_gflop_per_s']} on its GPU."
)

CPU_VS_GPU = Study(
    "cpu-vs-gpu", "R", "Does the vendor's library pay more on the CPU or on the GPU, and from which size on?", COUNTED,
    entries=(Entry(_CPU[0], fallbacks=_CPU[1:], reference=True), Entry("RT-vendor")),
    sizes=(1008, 2016, 4032, 8064, 16128), quick_sizes=(256, 512, 1008),
    series=lambda record: "CPU" if record["backend"] in _CPU else rung_of(record), over_series="CPU",
    theirs={"CPU": dict.fromkeys(_TIMES_AS_LONG, 1.0), "onemkl": _TIMES_AS_LONG},
    transfers="with", together=True, cap_s=10.0,
    judges=tuple(Faster(At("CPU", n), At(EACH, n), ratio, MORE, _PEAKS) for n, ratio in _TIMES_AS_LONG.items()),
)  # fmt: skip

# work-group-size and platforms


def _work_items(record: Record) -> X:
    params = record["params"]
    across, down = params.get("tile_x", params.get("group_x")), params.get("tile_y", params.get("group_y"))
    return None if across is None else across * down


_HEIGHTS = (2, 4, 6, 8, 3, 5, 7)  # of groups 32 wide: 64 to 256 work-items
_TABLE_1 = {items: time * 1e-3 for items, time in zip(_X_GROUPS["work_items"], _X_GROUPS["time"], strict=True)}
_BEST = min(_TABLE_1, key=lambda items: _TABLE_1[items])

WORK_GROUP_SIZE = Study(
    "work-group-size", "X", "How many work-items should a work-group have?", KERNELS, by_kernel=True,
    entries=(Entry("RT-private", tuple({"group_x": 32, "group_y": y} for y in _HEIGHTS), quick_count=4),
             Entry("RT-local", tuple({"tile_x": 32, "tile_y": y} for y in _HEIGHTS), quick_count=4)),
    sizes=(_X_GROUPS["n"],), quick_sizes=(_X_GROUPS["n"],),
    x=_work_items, x_name="work-items", over_x=64, theirs={"X, its kernel": _TABLE_1}, theirs_in_seconds=True,
    judges=(partial(best_at, _BEST), Faster(At(EACH, _BEST), At(EACH, 64), _TABLE_1[64] / _TABLE_1[_BEST])),
)  # fmt: skip

_PLATFORMS = {
    "cpu-naive": "serial", "cpu-ikj": "OpenMP", "opencl-local": "OpenCL", "cuda-local": "CUDA", "sycl-local": "SYCL",
}  # fmt: skip
_COLUMNS = {
    "serial": "serial", "OpenMP": "openmp", "OpenCL": "opencl_nvidia", "CUDA": "cuda", "OpenCL AMD": "opencl_amd",
}  # fmt: skip
_TABLE_2 = {name: dict(zip(_X_TIMES["n"], _X_TIMES[column], strict=True)) for name, column in _COLUMNS.items()}
_LAST = max(_X_TIMES["n"])


def _times_as_fast(fast: str, slow: str) -> float:
    return float(_TABLE_2[slow][_LAST] / _TABLE_2[fast][_LAST])


PLATFORMS = Study(
    "platforms", "X", "Serial, OpenMP, OpenCL or CUDA: who is fastest, and by how much?", COUNTED,
    entries=(Entry("cpu-naive"), Entry("cpu-ikj"), Entry("RT-local")),
    sizes=tuple(_X_TIMES["n"]), quick_sizes=(100, 200, 400),
    series=lambda record: _PLATFORMS[record["backend"]], over_series="serial",
    theirs=_TABLE_2, theirs_in_seconds=True, transfers="with", together=True, cap_s=10.0,
    judges=(
        *(Faster(At(fast), At(slow), _times_as_fast(fast, slow), MORE)
          for fast, slow in (("OpenMP", "serial"), ("OpenCL", "serial"), ("CUDA", "serial"), ("OpenCL", "OpenMP"))),
        Faster(At("OpenCL"), At("CUDA"), _times_as_fast("OpenCL", "CUDA"),
               because="The source credits its offline binaries; here both build the same text before the timing."),
    ),
)  # fmt: skip

# tile-size and input-registers

_O = _PAPERS["O.figures"]
_BEST_TILE, _SLOW_TILE = ("x".join(map(str, _O["tile_size"][key])) for key in ("best", "slower_than_serial_cpu_at"))
_TILES = ((1, 1), (2, 2), (4, 4), (8, 8), (16, 16), (4, 8), (8, 4), (8, 16), (16, 8), (32, 32))


def _tile(record: Record) -> X:
    params = record["params"]
    return f"{params['tile_y']}x{params['tile_x']}" if "tile_y" in params else None


def _values(record: Record) -> X:
    params = record["params"]
    if "length" not in params:
        return None
    return f"{params['tile_y'] * params['length']}+{params['tile_x'] * params['length']}"


TILE_SIZE = Study(
    "tile-size", "O", "How large a tile of C should a work-item compute in registers?", KERNELS, by_kernel=True,
    entries=(Entry("cpu-naive", reference=True),
             Entry("RT-register", tuple({"tile_y": y, "tile_x": x} for y, x in _TILES), quick_count=7)),
    sizes=(_O["n"],), quick_sizes=(_O["n"],),
    series=lambda record: "serial" if record["backend"] == "cpu-naive" else rung_of(record), over_series="serial",
    x=_tile, x_name="tile of C",
    judges=(
        partial(best_at, _BEST_TILE),
        Faster(At("serial", None), At("register", _SLOW_TILE), "faster than so large a tile", MORE,
               "The tile spills, but the device has far more units than the source's CPU had cores."),
    ),
)  # fmt: skip

INPUT_REGISTERS = Study(
    "input-registers", "O", "Does a 2 x 2 tile gain where more of A and B is loaded at once?", KERNELS, by_kernel=True,
    entries=(Entry("RT-register", tuple({"tile_y": 2, "tile_x": 2, "length": steps}
                                        for steps in (1, 2, 16, 32, 64, 4, 8)), quick_count=5),),
    sizes=(_O["n"],), quick_sizes=(_O["n"],),
    x=_values, x_name="values of A + B", over_x="2+2",
    judges=(
        Faster(At("register", "4+4"), At("register", "2+2"), "a clear gain", MORE),
        Faster(At("register", "64+64"), At("register", "4+4"), "small gains", (1.0, 1.5)),
        Faster(At("register", "2+2"), At("register", "128+128"), "about 4 times", near(4.0)),
    ),
)  # fmt: skip

# cold-start and memory-modes

COLD_START = Study(
    "cold-start", "P, X", "How long does a first call take, and what does a compiled kernel on disk save?",
    f"{COUNTED} Every sample is a call in a new process.",
    entries=(Entry("RT-local"), Entry("RT-register")), sizes=(256,), quick_sizes=(256,),
    x=label_of, x_name="kernel", over_x="source",
    theirs={"P, whole run": {"source": _P_TIMES["pure_gpu_jit"], "disk": _P_TIMES["pure_gpu_ahead_of_time"]}},
    measure=cold_start.measure, blocks=cold_start.breakdown,
    judges=(Faster(At(EACH, "disk"), At(EACH, "source"), "P: 2 times, of a whole run compiled ahead of time", MORE),
            partial(builds_within, 0.05)),
)  # fmt: skip


def _counted(record: Record) -> str:
    return "with transfers" if record["transfers_counted"] else "without"


def _with_transfers(fast: str, slow: str, theirs: str, runtime: str) -> Faster:
    return Faster(At("with transfers", fast), At("with transfers", slow), theirs, MORE, runtimes=(runtime,))


_USM = f"P: {_P_TIMES['first_gpu'] / _P_TIMES['explicit_device_and_usm']:.2g} times, with USM instead of buffers"

MEMORY_MODES = Study(
    "memory-modes", "P, G", "Copies, pinned, mapped, shared or managed memory: what does each way cost?",
    "Both: with transfers, from operands that the host has just written to a result that it reads; without, the "
    "product alone.",
    entries=(Entry("RT-local"),), sizes=(512, 1024, 2048), quick_sizes=(256,),
    x=label_of, x_name="memory", over_x="copies", series=_counted,
    measure=memory_modes.measure,
    judges=(
        _with_transfers("svm", "copies", _USM, "opencl"),
        _with_transfers("usm-shared", "copies", _USM, "sycl"),
        _with_transfers("copies", "managed", "G: managed memory is slower for its coarse kernel", "cuda"),
    ),
)  # fmt: skip

# gpp

_HOISTED = sum(_P_TIMES["loop_order_and_hoisting"]) / 2


def _here(fast: str, slow: str, theirs: float | str, band: Band = MORE) -> Faster:
    return Faster(At("here", fast), At("here", slow), theirs, band)


GPP = Study(
    "gpp", "P", "The contest's steps from loops to a product: what does each gain?",
    "A whole call. A device has the arrays already, but in the steps with a memory mode and in the first calls. "
    "N is the number of columns; 512 bands, N / 20 rows.",
    entries=(Entry("cpu-packed"), Entry("RT-naive")), sizes=(2048, 8192), quick_sizes=(512,),
    x=label_of, x_name="step", series=lambda record: "here", over_x="ngpw", transfers="both", cap_s=gpp.CAP_S,
    theirs={"P": {
        "ngpw": _P_TIMES["start"], "hoisted": _HOISTED, "factored": _P_TIMES["factored_cpu_only"],
        "device-loops": _P_TIMES["first_gpu"], "split": _P_TIMES["factored_cpu_gpu"],
        "first call, source": _P_TIMES["pure_gpu_jit"], "first call, disk": _P_TIMES["pure_gpu_ahead_of_time"],
    }},
    theirs_in_seconds=True, measure=gpp.measure, blocks=gpp.blocks,
    judges=(
        _here("hoisted", "ngpw", _P_TIMES["start"] / _HOISTED),
        _here("hoisted-planes", "hoisted", "no gain by planes", (0.0, 1.15)),
        _here("device-loops", "hoisted", _HOISTED / _P_TIMES["first_gpu"]),
        _here("factored", "hoisted", _HOISTED / _P_TIMES["factored_cpu_only"]),
        _here("split", "device-fused", "the submitted version"),
        _here("first call, disk", "first call, source", "2 times, compiled ahead of time"),
    ),
)  # fmt: skip

# postings and pair-counts

_G = {key: {name: time * 1e-3 for name, time in times.items()} for key, times in _PAPERS["G.intersection"].items()
      if key in ("serial", "coarse_before_search", "coarse", "fine")}  # fmt: skip


def _lists(record: Record) -> str:
    return str(record["params"]["lists"])


POSTINGS = Study(
    "postings", "G", "Which method intersects posting lists fastest, and what does a device gain?",
    "All queries of a collection, on one thread but where threads are named. N is the mean length of the lists, those "
    "of small and trigrams excepted; use: the long lists are asked for most.",
    entries=(Entry("cpu-packed"), Entry("RT-naive")), sizes=(postings.MEAN,), quick_sizes=(200,),
    x=label_of, x_name="method", series=_lists, over_x="numpy", cap_s=postings.CAP_S,
    theirs={"G": {
        "svs": _G["serial"]["svs"], "adp": _G["serial"]["adp"], "bucket": _G["serial"]["hash512"],
        "chunks": _G["coarse_before_search"]["svs"], "chunks-exact": _G["coarse"]["svs"], "fine": _G["fine"]["svs"],
    }},
    theirs_in_seconds=True, measure=postings.measure, blocks=postings.blocks,
    judges=(
        Faster(At("equal", "adp"), At("equal", "svs"), _G["serial"]["svs"] / _G["serial"]["adp"], MORE,
               "The source's svs scans the longer list; this one gallops, in vectors."),
        Faster(At("equal", "svs"), At("equal", "bucket"), _G["serial"]["hash512"] / _G["serial"]["svs"], MORE),
        Faster(At("equal", "chunks-exact"), At("equal", "chunks"),
               _G["coarse_before_search"]["svs"] / _G["coarse"]["svs"], MORE),
        Faster(At("small", "chunks-exact"), At("small", "fine"), _G["fine"]["svs"] / _G["coarse"]["svs"], MORE),
        Faster(At("equal", "chunks-exact"), At("equal", "svs"), _G["serial"]["svs"] / _G["coarse"]["svs"], MORE,
               "The source's GPU is compared with a scan of one element at a time on its CPU."),
    ),
)  # fmt: skip

PAIR_COUNTS = Study(
    "pair-counts", "", "From which density of the lists on are bits faster than a sparse product?",
    "The whole product, on one thread, the lists given as sorted numbers. N is the number of lists.",
    entries=(Entry("cpu-packed"),), sizes=(pair_counts.BAR_LISTS,), quick_sizes=(200,),
    x=label_of, x_name="density", series=lambda record: str(record["params"]["way"]), over_series="sparse",
    cap_s=pair_counts.CAP_S, measure=pair_counts.measure, blocks=pair_counts.blocks, judges=(),
)  # fmt: skip

# cache-model

CACHE_MODEL = Study(
    "cache-model", "", "Do the CPU rungs move the bytes that their models say?",
    f"Nothing. Bytes of float64 products by the models, and by {cache_model.DEVICE}.",
    entries=tuple(Entry(name) for name in cache_model.RUNGS),
    sizes=(400, 500, 512, 600), quick_sizes=(400,),
    measure=cache_model.measure, blocks=cache_model.blocks, judges=(),
)  # fmt: skip

# emulation

EMULATION = Study(
    "emulation", "", "How large are the errors of emulated products beside plain ones, and what do they cost?",
    f"The whole product. C is {emulation.EDGE} x {emulation.EDGE}; k varies.",
    entries=(Entry(emulation.PLAIN), Entry("cpu-numpy", reference=True), Entry(emulation.EMULATED)),
    sizes=(256, 1024, 4096, 16384), quick_sizes=(256,), x=lambda record: int(record["problem"]["k"]), x_name="k",
    series=emulation.title, over_series=f"float32 {emulation.PLAIN}", sizes_apart=False,
    measure=emulation.measure, blocks=emulation.blocks, judges=(),
)  # fmt: skip

# co-execution

CO_EXECUTION = Study(
    "co-execution", "", "What do a device and the CPU gain together on one product, and is it as predicted?",
    f"{COUNTED} The prediction is made from slices, before the first whole product.",
    entries=(Entry(co_execution.HOST, reference=True), Entry("RT-local")),
    sizes=(1024, 2048, 4096, 8192, 16384), quick_sizes=(256, 512),
    series=lambda record: str(label_of(record)), over_series=co_execution.BEST, transfers="with",
    cap_s=co_execution.CAP_S, measure=co_execution.measure, derived=co_execution.derived,
    judges=(co_execution.as_predicted,),
)  # fmt: skip

# tuned-steps

TUNED_STEPS = Study(
    "tuned-steps", "", "What does the rung tuned lose without each of its ideas?",
    f"{KERNELS} N is that of a square product, and the other has a C of N / {steps.DEEPER} rows and columns.",
    entries=(Entry("RT-tuned"),), sizes=(4096,), quick_sizes=(512,),
    x=label_of, x_name="without", series=steps.shape_of, over_x=steps.NOTHING, sizes_apart=False,
    by_kernel=True, cap_s=steps.CAP_S, measure=steps.measure, judges=(),
)  # fmt: skip

# tensor-steps

TENSOR_STEPS = Study(
    "tensor-steps", "", "What do the rungs of matrix units lose without each of their ideas?",
    f"{KERNELS} float16. N is that of a square product, and the other has a C of N / {steps.DEEPER} rows and columns.",
    entries=(Entry("RT-tensor"), Entry("RT-tensor-async")), sizes=(4096,), quick_sizes=(512,), dtype="float16",
    x=label_of, x_name="without", series=steps.rung_and_shape_of, over_x=steps.NOTHING, sizes_apart=False,
    by_kernel=True, cap_s=steps.CAP_S, measure=steps.measure, judges=(),
)  # fmt: skip

STUDIES = {
    study.name: study
    for study in (CPU_LADDER, GPU_LADDER, CPU_VS_GPU, WORK_GROUP_SIZE, PLATFORMS, TILE_SIZE, INPUT_REGISTERS,
                  COLD_START, MEMORY_MODES, GPP, POSTINGS, PAIR_COUNTS, CACHE_MODEL, EMULATION,
                  CO_EXECUTION, TUNED_STEPS, TENSOR_STEPS)
}  # fmt: skip


def named(name: str) -> Study:
    """The study of a name; ValueError with similar names for any other."""
    if name in STUDIES:
        return STUDIES[name]
    near = difflib.get_close_matches(name, STUDIES)
    raise ValueError(f"no study is named {name!r}: {suggestion(near, STUDIES)}")


def listing() -> list[dict[str, str]]:
    """Name, source and question of every study."""
    return [{"name": study.name, "source": study.source, "question": study.question} for study in STUDIES.values()]
