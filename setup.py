"""The compiled extensions: flags, OpenMP, and one build of each kernel per instruction set.

One source cannot make two extensions, so each kernel is copied into a folder per instruction set (v2/, v3/, v4/ on x86,
neon/ on AArch64, plain/ elsewhere; ignored by git) and built there. Which copy runs is decided at import, by the CPU
that runs it: nothing here looks at the CPU that builds.

cpu-packed's kernels are C++20 without Python: plain shared libraries. Each is compiled with other instructions, so no
function may be shared with another library: exceptions, type information and the C++ library stay out.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

RUNGS, PACKED, ROOFLINE = "gemmlab/_cpu/rungs", "gemmlab/_cpu/packed", "gemmlab/roofline"
WORKLOADS, TRANSFERS = "gemmlab/workloads", "gemmlab/_gpu/transfers"
GLUE = "gemmlab/_cpu/packed_backend"
KERNELS = {
    RUNGS: ["naive.pyx", "ikj.pyx", "blocked.pyx", "blocked_local.pyx"],
    ROOFLINE: ["_fma.pyx", "_stream.pyx"],
    WORKLOADS: ["_gpp.pyx", "_postings.pyx"],
    PACKED: ["kernels.cpp"],
}
PLAIN = ["gemmlab/_cpu/_features", "gemmlab/_cpu/_driver", "gemmlab/_auto/_choice", "gemmlab/_front", f"{GLUE}/_packed",
         f"{ROOFLINE}/_cache", f"{TRANSFERS}/_copies"]
INCLUDE = ["gemmlab/_cpu", RUNGS, PACKED, GLUE, ROOFLINE, f"{WORKLOADS}/loops", f"{WORKLOADS}/kernels",
           TRANSFERS, numpy.get_include()]
C_HEADERS = [path.as_posix() for folder in ("gemmlab/_cpu", ROOFLINE, WORKLOADS, TRANSFERS)
             for path in Path(folder).rglob("*.h")]
CXX_HEADERS = [*C_HEADERS, *(path.as_posix() for path in Path("gemmlab/_cpu").rglob("*.hpp"))]

GNU_STYLE = os.name != "nt"
MACHINE = platform.machine().lower()
X86, AARCH64 = MACHINE in ("x86_64", "amd64"), MACHINE in ("aarch64", "arm64")
V4 = ["-march=x86-64-v4", "-mprefer-vector-width=512"]
ISA_FLAGS = {"v2": ["-march=x86-64-v2"], "v3": ["-march=x86-64-v3"], "v4": V4}
EXTRA_FLAGS = {  # what only some CPUs of x86-64-v4 have, for cpu-packed
    "dot": [*V4, "-mavx512bf16", "-mavx512vnni"],
    "amx": [*V4, "-mamx-tile", "-mamx-bf16", "-mamx-int8"],
}
if not (X86 and GNU_STYLE):
    ISA_FLAGS, EXTRA_FLAGS = {"neon" if AARCH64 and GNU_STYLE else "plain": []}, {}

# A rung's loops stay as they are written: GCC's unroll-and-jam would turn one rung into another. And every
# multiply-add is fused: for some processors GCC leaves chains of them unfused, and a tile of one row had other bits.
# On AArch64, instructions ordered before registers are assigned make a register tile spill.
GNU_FLAGS = ["-O3", "-ffp-contract=fast", "--param=avoid-fma-max-bits=0", "-fno-loop-unroll-and-jam",
             "-fno-schedule-insns"]
RUNG_FLAGS = ["-fno-tree-loop-distribute-patterns"]  # no `rep stos` to clear a buffer of eight vectors: it takes longer
# Their inner loops have one vector in each pass, and as many instructions for addresses and the loop's end.
UNROLLED, UNROLLED_FLAGS = (".ikj", ".blocked"), ["-funroll-loops"]
# Both cases of a choice are computed, so that a loop of choices runs in vectors; without OpenMP too.
WORKLOAD_FLAGS = ["-fno-trapping-math", "-fopenmp-simd"]
CXX_FLAGS = ["-std=c++20", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fvisibility=hidden", "-g0",
             "-Wno-uninitialized"]  # GCC 12 warns of its own intrinsics
OPENMP_CHOICES = [(["-fopenmp"], ["-fopenmp"]), (["-Xpreprocessor", "-fopenmp"], ["-lomp"]), (["/openmp:llvm"], [])]
OPENMP_PROBE = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n"
CXX_PROBE = """
template <class T> concept Wide = requires { requires sizeof(T) > 1; };
typedef int Four __attribute__((vector_size(16)));
template <Wide T> int last(T x, T y) { return __builtin_shufflevector(x, y, 0, 1, 2, 4)[3]; }
int main() { return last(Four{}, Four{}); }
"""
EMPTY = "int main(void) { return 0; }\n"


def extensions() -> list[Extension]:
    """All extensions, the kernels once for each instruction set."""
    sources = [(name, f"{name}.pyx", []) for name in PLAIN]
    for folder, kernels in KERNELS.items():
        for isa, flags in (ISA_FLAGS | (EXTRA_FLAGS if folder == PACKED else {})).items():
            sources += [(f"{folder}/{isa}/{Path(kernel).stem}", copied(folder, isa, kernel), flags)
                        for kernel in kernels]
    return [extension(*source) for source in sources]


def extension(name: str, source: str, flags: list[str]) -> Extension:
    """One of them; C++ if it is cpu-packed's."""
    cxx = name.startswith((PACKED, GLUE))
    return Extension(name.replace("/", "."), [source], include_dirs=INCLUDE, depends=CXX_HEADERS if cxx else C_HEADERS,
                     extra_compile_args=flags, language="c++" if cxx else None,
                     optional=name.endswith(("_fma", "_stream", "dot/kernels", "amx/kernels")),  # for some compilers
                     define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")])


def copied(folder: str, isa: str, kernel: str) -> str:
    """Copy a kernel into its instruction set's folder, leaving an unchanged copy alone (no rebuild)."""
    source, copy = Path(folder, kernel), Path(folder, isa, kernel)
    copy.parent.mkdir(exist_ok=True)
    if not copy.exists() or copy.read_bytes() != source.read_bytes():
        shutil.copyfile(source, copy)
    return copy.as_posix()


class BuildExt(build_ext):
    """Adds the compiler's own flags, and OpenMP where a probe compiles and runs."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extensions(self) -> None:
        compile_flags, link_flags = self.openmp_flags()
        rung_flags: list[str] = []
        unrolled_flags: list[str] = []
        workload_flags: list[str] = []
        if self.compiler.compiler_type == "unix":
            compile_flags = compile_flags + self.accepted(GNU_FLAGS)
            rung_flags, unrolled_flags = self.accepted(RUNG_FLAGS), self.accepted(UNROLLED_FLAGS)
            workload_flags = self.accepted(WORKLOAD_FLAGS)
        if not self.probe(CXX_PROBE, CXX_FLAGS, [], ".cpp"):
            raise CompileError("gemmlab needs a C++20 compiler, GCC 12 or Clang (on Debian or Ubuntu: apt install g++)")
        for one in self.extensions:
            of_folder = rung_flags if one.name.startswith("gemmlab._cpu.rungs") else []
            if one.name.endswith(UNROLLED):
                of_folder = of_folder + unrolled_flags
            if one.name.startswith("gemmlab.workloads"):
                of_folder = workload_flags
            own = CXX_FLAGS if one.language == "c++" else of_folder
            one.extra_compile_args = compile_flags + own + one.extra_compile_args
            one.extra_link_args = link_flags
            one.language = "c"  # links without the C++ library
        super().build_extensions()

    def openmp_flags(self) -> tuple[list[str], list[str]]:
        for compile_flags, link_flags in OPENMP_CHOICES:
            if os.environ.get("GEMMLAB_NO_OPENMP") != "1" and self.probe(OPENMP_PROBE, compile_flags, link_flags):
                return compile_flags, link_flags
        warnings.warn("no OpenMP: gemmlab will run on one thread (gemmlab info says so too)", stacklevel=2)
        return [], []

    def accepted(self, flags: list[str]) -> list[str]:
        """Those of `flags` that this compiler knows."""
        return [flag for flag in flags if self.probe(EMPTY, ["-Werror", flag], [])]

    def probe(self, program: str, compile_flags: list[str], link_flags: list[str], suffix: str = ".c") -> bool:
        """Whether `program` compiles, links and runs."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, f"probe{suffix}")
            source.write_text(program)
            try:
                objects = self.compiler.compile([str(source)], output_dir=folder,
                                                extra_postargs=compile_flags)
                self.compiler.link_executable(objects, str(Path(folder, "probe")), extra_postargs=link_flags)
                return subprocess.run([str(Path(folder, "probe"))], check=False).returncode == 0
            except Exception:  # every compiler class raises its own errors
                return False


setup(
    ext_modules=cythonize(extensions(), nthreads=0, quiet="--quiet" in sys.argv,
                          compiler_directives={"language_level": 3}),
    cmdclass={"build_ext": BuildExt},
)
