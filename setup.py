"""The compiled extensions: flags, OpenMP, and one build of each kernel per instruction set.

One .pyx cannot make two extensions, so each kernel is copied into a folder per instruction set (v2/, v3/, v4/,
or plain/ off x86; ignored by git) and built there. Which copy runs is decided at import, by the CPU that runs
it: nothing here looks at the CPU that builds.
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

KERNELS = {
    "gemmlab/_cpu": ["naive", "ikj", "blocked", "blocked_local", "packed"],
    "gemmlab/roofline": ["_fma", "_stream"],
}
EXTRAS = {  # what only some CPUs of x86-64-v4 have
    "gemmlab/_cpu/packed_dot": ["-mavx512bf16", "-mavx512vnni"],
    "gemmlab/_cpu/packed_amx": ["-mamx-tile", "-mamx-bf16", "-mamx-int8"],
}
PLAIN = ["gemmlab/_cpu/_features", "gemmlab/_cpu/_driver", "gemmlab/_cpu/_packed", "gemmlab/_front",
         "gemmlab/roofline/_cache"]
INCLUDE = ["gemmlab/_cpu", "gemmlab/roofline", numpy.get_include()]
HEADERS = [path.as_posix() for folder in KERNELS for path in Path(folder).rglob("*.h")]

GNU_STYLE = os.name != "nt"
X86 = platform.machine().lower() in ("x86_64", "amd64")
ISA_FLAGS = {
    "v2": ["-march=x86-64-v2"],
    "v3": ["-march=x86-64-v3"],
    "v4": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
}
if not (X86 and GNU_STYLE):
    ISA_FLAGS = {"plain": []}

# A rung's loops stay as they are written: GCC's unroll-and-jam would turn one rung into another. And every
# multiply-add is fused: for some processors GCC leaves chains of them unfused, and a tile of one row had other bits.
GNU_FLAGS = ["-O3", "-ffp-contract=fast", "--param=avoid-fma-max-bits=0", "-fno-loop-unroll-and-jam"]
OPENMP_CHOICES = [(["-fopenmp"], ["-fopenmp"]), (["-Xpreprocessor", "-fopenmp"], ["-lomp"]), (["/openmp:llvm"], [])]
OPENMP_PROBE = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n"


def extensions() -> list[Extension]:
    """All extensions, the kernels once for each instruction set."""
    names = [(name.replace("/", "."), f"{name}.pyx", []) for name in PLAIN]
    for folder, kernels in KERNELS.items():
        for isa, flags in ISA_FLAGS.items():
            names += [(f"{folder.replace('/', '.')}.{isa}.{kernel}", copied(folder, isa, kernel), flags)
                      for kernel in kernels]
    if "v4" in ISA_FLAGS:
        names += [(name.replace("/", "."), f"{name}.pyx", ISA_FLAGS["v4"] + flags) for name, flags in EXTRAS.items()]
    return [Extension(name, [source], include_dirs=INCLUDE, depends=HEADERS, extra_compile_args=flags,
                      optional=name.endswith(("_fma", "_stream", "_dot", "_amx")),  # not for every compiler
                      define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")])
            for name, source, flags in names]


def copied(folder: str, isa: str, kernel: str) -> str:
    """Copy a kernel into its instruction set's folder, leaving an unchanged copy alone (no rebuild)."""
    source, copy = Path(folder, f"{kernel}.pyx"), Path(folder, isa, f"{kernel}.pyx")
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
        if self.compiler.compiler_type == "unix":
            compile_flags = compile_flags + self.accepted(GNU_FLAGS)
        for extension in self.extensions:
            extension.extra_compile_args = compile_flags + extension.extra_compile_args
            extension.extra_link_args = link_flags
        super().build_extensions()

    def openmp_flags(self) -> tuple[list[str], list[str]]:
        for compile_flags, link_flags in OPENMP_CHOICES:
            if os.environ.get("GEMMLAB_NO_OPENMP") != "1" and self.probe(OPENMP_PROBE, compile_flags, link_flags):
                return compile_flags, link_flags
        warnings.warn("no OpenMP: gemmlab will run on one thread (gemmlab info says so too)", stacklevel=2)
        return [], []

    def accepted(self, flags: list[str]) -> list[str]:
        """Those of `flags` that this compiler knows."""
        return [flag for flag in flags if self.probe("int main(void) { return 0; }\n", ["-Werror", flag], [])]

    def probe(self, program: str, compile_flags: list[str], link_flags: list[str]) -> bool:
        """Whether `program` compiles, links and runs."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "probe.c")
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
