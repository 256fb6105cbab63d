"""Believable records of a machine that does not exist, for whatever reads records.

Every builder takes overrides by keyword, so that a test states the one thing it is about. The numbers of
`machine` are of a two-core x86-64: 280 GFLOP/s in float32, 40 GB/s from memory, and a ladder of backends that
behave as the ladder should.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Record = dict[str, Any]

DEVICE = "Imaginary 2-Core at 3 GHz"
ITEM_BYTES = {"float32": 4, "float64": 8}
SIZES = (64, 128, 256, 512, 1024, 2048)

# name -> (GFLOP/s in float32 at a large size, size at which half of that is reached, flop per byte or None)
LADDER: dict[str, tuple[float, float, float | None]] = {
    "cpu-naive": (1.1, 8, None),
    "cpu-ikj": (9.2, 30, 0.16),
    "cpu-blocked": (46, 60, 12),
    "cpu-blocked-local": (61, 60, 14),
    "cpu-packed": (236, 90, 90),
    "cpu-numpy": (205, 140, None),
    "cpu-blas": (198, 140, None),
    "cpu-mkl": (231, 110, None),
}

GPU = "Imaginary GPU"
# name -> (GFLOP/s in float32 at a large size, size at which half of that is reached)
GPU_LADDER: dict[str, tuple[float, float]] = {
    "opencl-naive": (300, 100),
    "opencl-private": (700, 120),
    "opencl-local": (2100, 200),
    "opencl-local4": (4800, 300),
    "opencl-register": (6100, 500),
    "opencl-register-global": (900, 400),
    "opencl-clblast": (9000, 700),
}


def environment(**overrides: Any) -> Record:
    """The environment block, with every key of docs/records.md."""
    return {
        "gemmlab": "0.1.0",
        "python": "3.11.7",
        "numpy": "2.4.6",
        "scipy": "1.17.1",
        "os": "Linux 6.1.0",
        "cpu": DEVICE,
        "processor": "AuthenticAMD-25-33",
        "numpy_library": "openblas 0.3",
        "isa": "v4",
        "isa_available": ["v2", "v3", "v4"],
        "cpus_machine": 2,
        "cpus_usable": 2,
        "cache_bytes": {"L1": 48 * 1024, "L2": 1024 * 1024, "L3": 32 * 1024 * 1024},
        "mhz": 2995.2,
        "governor": None,
        "huge_pages": "madvise",
        "virtual_machine": True,
        "numa_nodes": 1,
        "load_1min": 0.12,
        "compiler": "gcc 12.2.0",
        "openmp": "libgomp",
        "thread_pools": [
            {
                "user_api": "blas",
                "internal_api": "openblas",
                "num_threads": 2,
                "version": "0.3.31",
                "threading_layer": "pthreads",
                "architecture": "SkylakeX",
                "filepath": "libopenblas.so",
            },
            {"user_api": "openmp", "internal_api": "openmp", "num_threads": 2, "version": None},
        ],
    } | overrides


def times(median_s: float | None, spread: float = 0.03) -> Record:
    """The statistics of a measurement whose p20 and p80 lie `spread` of the median apart."""
    if median_s is None:
        return dict.fromkeys(
            ("samples", "calls_per_sample", "median_s", "p20_s", "p80_s", "min_s", "noise_percent", "noisy")
        )
    return {
        "samples": 15,
        "calls_per_sample": 1,
        "median_s": median_s,
        "p20_s": median_s * (1 - 0.4 * spread),
        "p80_s": median_s * (1 + 0.6 * spread),
        "min_s": median_s * (1 - 0.5 * spread),
        "noise_percent": 100 * spread,
        "noisy": spread > 0.1,
    }


def header(kind: str, threads: int) -> Record:
    """The keys that every record has, but for the statistics."""
    return {
        "schema_version": 1,
        "kind": kind,
        "run_id": "made-up",
        "time_utc": "2025-01-01T12:00:00Z",
        "device": DEVICE,
        "threads": threads,
        "environment": environment(),
    }


def gemm(
    backend: str,
    size: int | tuple[int, int, int] = 2048,
    gflop_per_s: float | None = 100.0,
    *,
    dtype: str = "float32",
    suite: str = "squares",
    label: str | None = None,
    spread: float = 0.03,
    intensity: float | None = None,
    threads: int = 2,
    **overrides: Any,
) -> Record:
    """A product; `size` is N or (m, n, k), `intensity` the flop per L3 and DRAM byte that its model says."""
    m, n, k = (size, size, size) if isinstance(size, int) else size
    gflop = 2 * m * n * k / 1e9
    modelled = gflop * 1e9 / intensity if intensity else None
    record = header("gemm", threads) | times(gflop / gflop_per_s if gflop_per_s else None, spread)
    record |= {
        "status": "ok",
        "reason": None,
        "backend": backend,
        "params": {},
        "problem": {
            "suite": suite,
            "label": label or f"{m}x{n}x{k}",
            "m": m,
            "n": n,
            "k": k,
            "dtype": dtype,
            "layout": "CCC",
            "batch": 1,
        },
        "transfers_counted": None,
        "copies": 0,
        "kernel_s": None,
        "packing_percent": None,
        "kernel_p20_s": None,
        "kernel_p80_s": None,
        "build_s": None,
        "start_s": None,
        "gflop": gflop,
        "gflop_per_s": gflop_per_s,
        "error_over_bound": 0.02,
        "bytes_compulsory": (m * k + k * n + m * n) * ITEM_BYTES[dtype],
        "bytes_model_local": None,
        "bytes_model_l1": None,
        "bytes_model_l2": None,
        "bytes_model_l3": modelled,
        "bytes_model_dram": modelled,
        "wait_policy": "passive",
        "thread_scope": "OpenMP region",
    }
    return record | overrides


def not_run(backend: str, status: str, reason: str, size: int = 2048, **overrides: Any) -> Record:
    """A record of a product that has no time: skipped, wrong or failed."""
    return gemm(backend, size, None, **({"status": status, "reason": reason, "error_over_bound": None} | overrides))


def ceiling(kind: str, threads: int = 2, **keys: Any) -> Record:
    """A ceiling; `keys` are those that the kind has, the others are null."""
    return (
        header("ceiling", threads)
        | times(0.01)
        | {
            "ceiling": kind,
            "isa": "v4",
            "dtype": "float32",
            "gflop_per_s": None,
            "operation": None,
            "level": None,
            "memory": None,
            "working_set_bytes": None,
            "gb_per_s": None,
        }
        | keys
    )


def ceilings(dtype: str = "float32", threads: int = 2, peak: float = 280.0, dram: float = 40.0) -> list[Record]:
    """The roofs of one number type on one number of threads, the bandwidth sweep included."""
    scale = (0.5 if dtype == "float64" else 1.0) * threads / 2
    share = {"plain": 0.12, "v2": 0.25, "v3": 0.52, "v4": 1.0}
    levels = {"L1": (24 << 10, 620.0), "L2": (512 << 10, 310.0), "L3": (8 << 20, 120.0), "DRAM": (256 << 20, dram)}
    made = [
        ceiling("fma", threads, isa=isa, dtype=dtype, gflop_per_s=peak * scale * part) for isa, part in share.items()
    ]
    for level, (working_set, rate) in levels.items():
        made.append(
            ceiling(
                "bandwidth",
                threads,
                dtype=dtype,
                level=level,
                operation="load",
                working_set_bytes=working_set,
                gb_per_s=rate * (1 if level == "DRAM" else threads / 2),
            )
        )
    for step in range(12, 29):
        working_set = 1 << step
        fits = next((rate for size, rate in levels.values() if working_set <= 2 * size), dram)
        for operation, part in (("load", 1.0), ("copy", 0.8), ("triad", 0.85)):
            made.append(
                ceiling(
                    "sweep",
                    threads,
                    dtype=dtype,
                    operation=operation,
                    working_set_bytes=working_set,
                    gb_per_s=fits * part,
                )
            )
    return made


def ladder(
    sizes: Sequence[int] = SIZES,
    dtype: str = "float32",
    threads: int = 2,
    without: Sequence[str] = (),
) -> list[Record]:
    """Every backend of LADDER over square sizes; the naive one on one thread, and skipped over 512."""
    made = []
    for name, (rate, half, intensity) in LADDER.items():
        if name in without:
            continue
        own_threads = 1 if name == "cpu-naive" else threads
        for size in sizes:
            speed = rate * (0.5 if dtype == "float64" else 1) / (1 + half / size)
            if name == "cpu-naive" and size > 512:
                made.append(not_run(name, "skipped", "over the time cap of 1 s", size, dtype=dtype, threads=1))
            else:
                made.append(gemm(name, size, speed, dtype=dtype, threads=own_threads, intensity=intensity))
    return made


LAYERS = {
    "conv1 3x3": (64, 3136, 576),
    "conv2 1x1": (256, 3136, 64),
    "attention": (512, 512, 64),
    "dense": (128, 1000, 2048),
}


def layers(dtype: str = "float32") -> list[Record]:
    """The suite "layers": a few shapes of neural networks."""
    return [
        gemm(name, shape, rate * 0.8, dtype=dtype, suite="layers", label=label, intensity=intensity)
        for label, shape in LAYERS.items()
        for name, (rate, _, intensity) in LADDER.items()
        if name not in ("cpu-naive", "cpu-blas")
    ]


def gpu_product(backend: str, size: int, gflop_per_s: float, transfers: bool = False, **overrides: Any) -> Record:
    """A product on the GPU; its kernels take all of the time, or with transfers what moving at 20 GB/s leaves."""
    record = gemm(backend, size, gflop_per_s, intensity=None, **overrides)
    kernel_s = record["gflop"] / gflop_per_s
    if transfers:
        record |= times(kernel_s + record["bytes_compulsory"] / 20e9)
        record["gflop_per_s"] = record["gflop"] / record["median_s"]
    return record | {
        "device": GPU, "threads": None, "transfers_counted": transfers, "kernel_s": kernel_s, "thread_scope": None
    }  # fmt: skip


def gpu_ceilings(peak: float = 15000.0, local: float = 6000.0, dram: float = 700.0) -> list[Record]:
    """The roofs of the GPU: its own levels, and transfers, which a CPU has not."""
    made = [
        ceiling("fma", isa="opencl", dtype=dtype, gflop_per_s=peak * part)
        for dtype, part in (("float32", 1.0), ("float64", 0.5))
    ]
    for level, rate in (("DRAM", dram), ("L1", local / 2), ("local", local)):
        made.append(ceiling("bandwidth", isa="opencl", level=level, operation="load", gb_per_s=rate))
    for operation in ("to device", "from device"):
        for memory, rate in (("pageable", 9.0), ("pinned", 22.0)):
            keys = {"isa": "opencl", "dtype": None, "operation": operation, "memory": memory}
            made.append(ceiling("transfer", gb_per_s=rate, **keys))
    return [record | {"device": GPU, "threads": None} for record in made]


def gpu(sizes: Sequence[int] = SIZES) -> list[Record]:
    """The ladder on the GPU over square sizes, each rung without transfers and with them; ceilings of its own."""
    made = []
    for name, (rate, half) in GPU_LADDER.items():
        for size in sizes:
            speed = rate / (1 + half / size)
            made += [gpu_product(name, size, speed), gpu_product(name, size, speed, transfers=True)]
    return made + gpu_ceilings()


def machine() -> list[Record]:
    """A whole run: ceilings, the ladder in two number types, layers, and a backend that is not installed."""
    made: list[Record] = []
    for dtype in ("float32", "float64"):
        made += ceilings(dtype, threads=1) + ceilings(dtype) + ladder(dtype=dtype)
    made += layers()
    made.append(not_run("cpu-blis", "skipped", "BLIS is not installed: pip install blis"))
    return made
