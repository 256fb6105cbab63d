"""The compiled extensions: flags, OpenMP, and one build of each kernel per instruction set.

The kernels are built once for each instruction set, into a folder of its name (v2/, v3/, v4/ on x86, neon/ on AArch64,
plain/ elsewhere; ignored by git). Which build runs is decided at import, by the CPU that runs it: nothing here looks at
the CPU that builds. What calls them is compiled once.

Kernels in C and C++ are plain shared libraries without Python. Each is compiled with other instructions, so no function
may be shared with another library: exceptions, type information and the C++ library stay out.
"""

import compileall
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import warnings
from copy import copy
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import Cython
import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError
from setuptools.modified import newer_group

RUNGS, PACKED, ROOFLINE = "gemmlab/_cpu/rungs", "gemmlab/_cpu/packed", "gemmlab/roofline"
WORKLOADS, TRANSFERS = "gemmlab/workloads", "gemmlab/_gpu/transfers"
EMULATED = "gemmlab/_cpu/emulated"
GLUE, THREADS = "gemmlab/_cpu/packed_backend", "gemmlab/_cpu/threads"
# For each instruction set; the one that takes longest is the first.
LIBRARIES = [f"{PACKED}/kernels.cpp", f"{WORKLOADS}/loops/postings.c", f"{WORKLOADS}/loops/gpp.c",
             f"{RUNGS}/tiles/rungs.cpp", f"{EMULATED}/numbers.c", f"{EMULATED}/parts.c",
             f"{ROOFLINE}/loops/fma.c", f"{ROOFLINE}/loops/stream.c"]
NARROW = f"{ROOFLINE}/loops/narrow.c"  # for the extras alone
ONCE = [f"{GLUE}/_packed", "gemmlab/_cpu/_driver", "gemmlab/_front", "gemmlab/_cpu/_features", "gemmlab/_auto/_choice",
        f"{THREADS}/_threads", f"{WORKLOADS}/_postings", f"{WORKLOADS}/_gpp", f"{ROOFLINE}/_cache", f"{ROOFLINE}/_fma",
        f"{ROOFLINE}/_stream", f"{TRANSFERS}/_copies"]
SAMPLER = "gemmlab/disassembly/sampler.c"  # a library that is compiled once
INCLUDE = ["gemmlab/_cpu", THREADS, RUNGS, PACKED, GLUE, ROOFLINE, f"{ROOFLINE}/loops", f"{WORKLOADS}/loops",
           f"{WORKLOADS}/kernels", TRANSFERS, numpy.get_include()]
C_HEADERS = [path.as_posix() for folder in ("gemmlab/_cpu", ROOFLINE, WORKLOADS, TRANSFERS)
             for path in Path(folder).rglob("*.h")]
CXX_HEADERS = [*C_HEADERS, *(path.as_posix() for path in Path("gemmlab/_cpu").rglob("*.hpp"))]

FLAGS = SimpleNamespace(**runpy.run_path("gemmlab/_cpu/flags.py"))  # without an import of gemmlab
GNU_STYLE, ISA_FLAGS = FLAGS.GNU_STYLE, FLAGS.ISA_FLAGS
EXTRA_FLAGS = {  # what only some CPUs of x86-64-v4 have, for cpu-packed and its peak
    "dot": [*FLAGS.V4, "-mavx512bf16", "-mavx512vnni"],
    "amx": [*FLAGS.V4, "-mamx-tile", "-mamx-bf16", "-mamx-int8", "-D__AMX_TILE__"],  # Clang 14 has another name for it
} if "v4" in ISA_FLAGS else {}
LINE_FLAGS = [*FLAGS.LINE_FLAGS, f"-ffile-prefix-map={os.getcwd()}=."]
# Both cases of a choice are computed, so that a loop of choices runs in vectors; without OpenMP too.
WORKLOAD_FLAGS = ["-fno-trapping-math", "-fopenmp-simd"]
# They call the loops of libraries, and have none that takes time.
CALLERS, CALLER_FLAGS = ("._postings", "._gpp", "._fma", "._stream", "._features"), ["-O1"]
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
    rungs = sorted(path.with_suffix("").as_posix() for path in Path(RUNGS).glob("*.pyx"))
    once, of_rungs = (cythonize([extension(name, f"{name}.pyx", []) for name in names], nthreads=0,
                                emit_linenums=names is rungs, quiet="--quiet" in sys.argv,
                                compiler_directives={"language_level": 3})
                      for names in (ONCE, rungs))
    builds = {f"{PACKED}/kernels.cpp": EXTRA_FLAGS | ISA_FLAGS, NARROW: EXTRA_FLAGS}
    built = [extension(of_isa(source, isa), source, flags)
             for source in (*LIBRARIES, NARROW) for isa, flags in builds.get(source, ISA_FLAGS).items()]
    built.append(extension(SAMPLER.removesuffix(".c"), SAMPLER, []))
    return built + once + [extension(of_isa(rung.sources[0], isa), rung.sources[0], flags)
                           for rung in of_rungs for isa, flags in ISA_FLAGS.items()]


OPTIONAL = ("/fma", "/narrow", "/stream", "/sampler", "dot/kernels", "amx/kernels")  # some compilers cannot


def of_isa(source: str, isa: str) -> str:
    """The name of a kernel's build for an instruction set, in a folder that an editable installation fills."""
    path = Path(source)
    (path.parent / isa).mkdir(exist_ok=True)
    return (path.parent / isa / path.stem).as_posix()


def extension(name: str, source: str, flags: list[str]) -> Extension:
    """One of them; C++ if it is cpu-packed's."""
    cxx = name.startswith((PACKED, GLUE)) or source.endswith(".cpp")
    return Extension(name.replace("/", "."), [source], include_dirs=INCLUDE, depends=CXX_HEADERS if cxx else C_HEADERS,
                     extra_compile_args=flags, language="c++" if cxx else None,
                     optional=name.endswith(OPTIONAL),
                     define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")])


class BuildExt(build_ext):
    """Adds the compiler's own flags, and OpenMP where a probe compiles and runs."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self) -> None:
        super().run()
        if self.inplace:  # then pip does not, and where Python may not either, each process would compile them anew
            compileall.compile_dir("gemmlab", quiet=1)

    def build_extensions(self) -> None:
        openmp_compile, openmp_link = self.openmp_flags()
        compile_flags: list[str] = []
        rung_flags: list[str] = []
        unrolled_flags: list[str] = []
        workload_flags: list[str] = []
        caller_flags: list[str] = []
        line_flags: list[str] = []
        if self.compiler.compiler_type == "unix":
            line_flags = self.accepted(LINE_FLAGS)
            compile_flags = self.accepted(FLAGS.GNU_FLAGS)
            rung_flags, unrolled_flags = self.accepted(FLAGS.RUNG_FLAGS), self.accepted(FLAGS.UNROLLED_FLAGS)
            workload_flags, caller_flags = self.accepted(WORKLOAD_FLAGS), self.accepted(CALLER_FLAGS)
        if not self.probe(CXX_PROBE, FLAGS.CXX_FLAGS, [], ".cpp"):
            raise CompileError("gemmlab needs a C++20 compiler, GCC 12 or Clang (on Debian or Ubuntu: apt install g++)")
        for each in self.extensions:
            of_folder = rung_flags if each.name.startswith("gemmlab._cpu.rungs") else []
            if each.name.endswith(FLAGS.UNROLLED):
                of_folder = of_folder + unrolled_flags
            if each.name.startswith("gemmlab.workloads.loops"):
                of_folder = workload_flags
            if each.name.endswith(CALLERS):
                of_folder = caller_flags
            of_language = FLAGS.CXX_FLAGS if each.language == "c++" else of_folder
            of_language = of_language + line_flags * each.name.startswith("gemmlab._cpu.rungs")
            # In a library nothing is shared among threads, but for the rungs.
            threads = each.sources[0] not in (*LIBRARIES, NARROW, SAMPLER) or each.sources[0].startswith(RUNGS)
            each.extra_compile_args = openmp_compile * threads + compile_flags + of_language + each.extra_compile_args
            each.extra_link_args = openmp_link * threads
            each.language = "c"  # links without the C++ library
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        """Compile what has changed; for the rest, take what the last build with the same flags has left in `build/`.

        pip keeps nothing between an installation and an editable one. An extension has a folder for its objects, as one
        source makes some of them.
        """
        built = Path(self.get_ext_fullpath(ext.name))
        what = (ext.extra_compile_args, ext.extra_link_args, self.compiler.compiler_so, self.compiler.compiler_type,
                numpy.__version__, Cython.__version__)
        key = sha256(repr(what).encode()).hexdigest()[:12]
        kept = Path("build", "kept", key, self.get_ext_filename(ext.name))
        if newer_group([*ext.sources, *ext.depends], str(kept)):
            alone = copy(self)
            alone.build_temp, alone.force = f"{self.build_temp}/{ext.name}", True
            super(BuildExt, alone).build_extension(ext)
            if not built.exists():  # optional, and not for this compiler
                return
            kept.parent.mkdir(parents=True, exist_ok=True)
            partial = kept.with_suffix(".partial")  # a build that is ended in between leaves no half library
            shutil.copyfile(built, partial)
            os.replace(partial, kept)
        else:
            built.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(kept, built)

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
        """Whether `program` compiles, links and, in a build for this machine, runs."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, f"probe{suffix}")
            source.write_text(program)
            try:
                objects = self.compiler.compile([str(source)], output_dir=folder,
                                                extra_postargs=compile_flags)
                self.compiler.link_executable(objects, str(Path(folder, "probe")), extra_postargs=link_flags)
                return bool(FLAGS.TARGET) or subprocess.run([str(Path(folder, "probe"))], check=False).returncode == 0
            except Exception:  # every compiler class raises its own errors
                return False


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildExt})
