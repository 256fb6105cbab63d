#!/usr/bin/env bash
# Everything that needs a real GPU, from a checkout: build, verify, measure; records and figures go to --out.
#
#     bench/gpu.sh --out DIR [--wheels DIR] STEP ...
#
# Steps: setup, tests, verify, roofline, report (of the GPU and its host), streaming, and the studies by name; in as many runs as
# one likes. For a machine without a package index, --wheels names a folder with wheels (pyopencl and what it needs) and
# Debian packages (libclblast1, ocl-icd-libopencl1) that setup installs first. Only the GPU's own OpenCL platform is
# asked.
set -uo pipefail
cd "$(dirname "$0")/.."
out= wheels= steps=()
while [ $# -gt 0 ]; do
    case $1 in
        --out) out=$2; shift ;;
        --wheels) wheels=$2; shift ;;
        -*) echo "gpu.sh: no option $1; see its head" >&2; exit 2 ;;
        *) steps+=("$1") ;;
    esac
    shift
done
[ -n "$out" ] || { echo "gpu.sh: give --out DIR" >&2; exit 2; }
mkdir -p "$out/drivers"
echo libnvidia-opencl.so.1 > "$out/drivers/nvidia.icd"
export OCL_ICD_VENDORS=$out/drivers PYTHONPATH=$PWD
exec > >(tee -a "$out/log.txt") 2>&1
failures=0

step() {
    local start=$SECONDS
    "$@" || { failures=$((failures + 1)); echo "FAILED: $*"; }
    echo "== $* ($((SECONDS - start)) s)"
}

setup() {
    if [ -n "$wheels" ]; then
        python3 -m pip install -q --no-index --no-deps "$wheels"/*.whl
        for package in "$wheels"/*.deb; do dpkg -x "$package" /; done
        ldconfig
    fi
    python3 setup.py -q build_ext --inplace --parallel 8 > "$out/build.log" 2>&1 || tail -20 "$out/build.log"
    python3 -m gemmlab info > "$out/info.txt"
    python3 -m gemmlab backends
}

verify() {
    local name wrong=0 audits=()
    for name in "$@"; do
        timeout 90 python3 -m gemmlab verify "$name" > "$out/verify-$name.txt" 2> /dev/null \
            || echo "status $?" >> "$out/verify-$name.txt" &
        audits+=($!)
    done
    wait "${audits[@]}"
    for name in "$@"; do
        grep -m1 "^$name:" "$out/verify-$name.txt" || { wrong=1; echo "$name: no audit within 90 s"; }
        ! grep -H "^status" "$out/verify-$name.txt" || wrong=1
    done
    return $wrong
}

rungs=(naive private local local4 register register-global)
for name in "${steps[@]}"; do
    case $name in
        setup) step setup ;;
        tests) step timeout 240 python3 -m pytest -q -p no:cacheprovider -m "" tests/_gpu ;;
        verify) step verify "${rungs[@]/#/opencl-}" "${rungs[@]/#/cuda-}" opencl-clblast cuda-cublas ;;
        streaming) step timeout 200 python3 bench/scale/streaming.py cuda-cublas opencl-register --in-one-piece --cases \
            4096 8192 16384 32768@third 65536x65536x1024@third ;;
        roofline) step python3 -m gemmlab roofline --backends opencl-register,cuda-register --out "$out/roofline" ;;
        report) step python3 -m gemmlab report --out "$out/report" --backends \
            cuda-local,cuda-register,cuda-cublas,opencl-local,opencl-register,opencl-clblast,cpu-packed,cpu-numpy ;;
        *) step timeout 300 python3 -m gemmlab study "$name" --out "$out/$name" ;;
    esac
done
exit $((failures > 0))
