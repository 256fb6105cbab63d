#!/usr/bin/env bash
# Everything that needs a real GPU, in one run from a checkout: build, verify, measure; records and figures to --out.
#
#     bench/gpu.sh --out DIR [--wheels DIR] [--steps "setup check study"]
#
# For a machine without a package index, --wheels names a folder with wheels (pyopencl and what it needs) and Debian
# packages (libclblast1, ocl-icd-libopencl1) to install first. Steps can be taken in several runs.
set -uo pipefail
cd "$(dirname "$0")/.."
out= wheels= steps="setup check study"
while [ $# -gt 0 ]; do
    case $1 in
        --out) out=$2 ;;
        --wheels) wheels=$2 ;;
        --steps) steps=$2 ;;
        *) echo "gpu.sh: no option $1; see its head" >&2; exit 2 ;;
    esac
    shift 2
done
[ -n "$out" ] || { echo "gpu.sh: give --out DIR" >&2; exit 2; }
mkdir -p "$out"
export PYTHONPATH=$PWD PYTHONDONTWRITEBYTECODE=1
failures=0
took() { local start=$SECONDS; echo "+ $*"; "$@" || { failures=$((failures + 1)); echo "FAILED: $*"; }; echo "  $((SECONDS - start)) s"; }

for step in $steps; do
    case $step in
        setup)
            if [ -n "$wheels" ]; then
                python3 -m pip install -q --no-index --no-deps --no-compile "$wheels"/*.whl
                for package in "$wheels"/*.deb; do dpkg -x "$package" /; done
                ldconfig
            fi
            python3 setup.py -q build_ext --inplace --parallel 8 > "$out/build.log" 2>&1 || tail -20 "$out/build.log"
            took python3 -m gemmlab backends
            python3 -m gemmlab info > "$out/info.txt"
            ;;
        check)
            took python3 -m pytest -q -p no:cacheprovider tests/test_gpu_*.py
            for name in $(python3 -c "
import gemmlab
print(*(n for n, i in gemmlab.backends().items() if i.available and n.split('-')[0] in ('opencl', 'cuda', 'sycl')))"); do
                took python3 -m gemmlab verify "$name" 2> /dev/null
            done > "$out/verify.txt"
            grep -E "seed|FAILED|failed" "$out/verify.txt"
            ;;
        study)
            for name in gpu-ladder work-group-size platforms tile-size input-registers cold-start memory-modes cpu-vs-gpu; do
                took python3 -m gemmlab study "$name" --out "$out/$name"
            done
            took python3 -m gemmlab roofline --backends opencl-register,cuda-register --out "$out/roofline"
            ;;
    esac
done
exit $((failures > 0))
