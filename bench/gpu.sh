#!/usr/bin/env bash
# Everything that needs a real GPU, from a checkout: build, verify, measure; records and figures go to --out.
#
#     bench/gpu.sh --out DIR [--wheels DIR] STEP ...
#
# Steps, in as many runs as one likes: setup, tests, verify, roofline, report (of the GPU and its host), streaming,
# products (the rung tuned beside the vendors' libraries), drawn (tuned at 60 drawn shapes), thin (a matrix by a few
# vectors), units (matrix units, each dtype beside cuBLAS), float64, counters (of the rung tuned, by Nsight Compute),
# small, clblast (tuned by its own tuner), search, and the studies by name. For a machine without a package index,
# --wheels names a folder with wheels (pyopencl and what it needs) and Debian packages (libclblast1, clblast-utils,
# ocl-icd-libopencl1) that setup installs first; a built.tgz in it, of compiled modules (find gemmlab -name '*.so' |
# tar -czf built.tgz -T -), saves the build. Only the GPU's own OpenCL platform is asked.
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
    if [ -n "$wheels" ] && [ -e "$wheels/built.tgz" ]; then
        tar -xzf "$wheels/built.tgz"
    else
        python3 setup.py -q build_ext --inplace --parallel 8 > "$out/build.log" 2>&1 || tail -20 "$out/build.log"
    fi
    python3 -m gemmlab info > "$out/info.txt"
    python3 -m gemmlab backends
}

verify() {
    local name wrong=0 audits=()
    for name in "$@"; do
        timeout 200 python3 -m gemmlab verify "$name" > "$out/verify-$name.txt" 2> /dev/null \
            || echo "status $?" >> "$out/verify-$name.txt" &
        audits+=($!)
    done
    wait "${audits[@]}"
    for name in "$@"; do
        grep -m1 "^$name:" "$out/verify-$name.txt" || { wrong=1; echo "$name: no audit within 200 s"; }
        ! grep -H "^status" "$out/verify-$name.txt" || wrong=1
    done
    return $wrong
}

on_device() { python3 bench/devices/on_device.py "$@"; }

products() {
    on_device cuda-cublas opencl-tuned cuda-tuned opencl-clblast opencl-register
    on_device cuda-cublas opencl-tuned cuda-tuned --cases odd
    on_device cuda-cublas opencl-tuned cuda-tuned --cases 4096 --layouts NN NT TN TT padded
}

drawn() { on_device cuda-cublas opencl-tuned cuda-tuned --cases drawn:39:60 --rounds 5; }

thin() {  # a matrix of 1 GiB by few vectors, in both orders
    on_device cuda-cublas opencl-tuned cuda-tuned --cases {1,4,8,16}x16384x16384 16384x{1,4,8,16}x16384 \
        --layouts NN TN NT --rounds 5
}

units() {
    local asynchronous=(cuda-tensor-async opencl-tensor-async)
    local rungs=(cuda-tensor opencl-tensor "${asynchronous[@]}" "${asynchronous[@]/%/[boxes=0]}") dtype
    for dtype in float16 bfloat16 "int8 into int32"; do
        on_device cuda-cublas "${rungs[@]}" --cases 4096 8192 --dtype "$dtype" --layouts NN NT --rounds 5
    done
    on_device cuda-cublas cuda-tensor opencl-tensor --cases 4096 8192 --dtype float64 --rounds 5
    on_device "cuda-cublas[precision=tf32]" {cuda,opencl}-tensor"[precision=tf32]" \
        {cuda,opencl}-tensor-async"[precision=tf32]" --cases 4096 8192 --layouts NN NT --rounds 5
    on_device cuda-cublas "${rungs[@]}" --cases drawn:41:12 --dtype float16 --rounds 5
}

float64() {
    on_device cuda-cublas opencl-tuned cuda-tuned "opencl-tuned[quads=0]" "opencl-tuned[serpentine=0]" \
        "opencl-tuned[quads=0,serpentine=0]" --cases 2048 4096 8192 --dtype float64
}

counters() {  # of the first products, by Nsight Compute; small ones, which check the configurations, may come before
    local dtype names
    for dtype in float32 float64; do
        names=("cuda-tuned[quads=0,serpentine=0]" "cuda-tuned[quads=1,serpentine=0]")
        timeout 90 ncu --set full --page raw --clock-control none --kernel-name gemm --launch-count 6 \
            python3 bench/devices/on_device.py "${names[@]}" --cases 4096 --dtype $dtype --rounds 1 \
            > "$out/counters-$dtype.txt" || return
        grep -E "gpu__time_duration.sum|pipe_fp64_cycles_active|data_bank_conflicts|mem_shared.sum |registers_per_thread |\
warps_active.avg.pct|issue_stalled.*per_issue_active" "$out/counters-$dtype.txt"
    done
}

clblast() {  # its tuner writes a file for each of its searches; one that takes longer is left out
    (cd "$out" && timeout 200 clblast_tuner_xgemm -precision 32 -m 2048 -n 2048 -k 2048 > clblast.txt)
    local found=("$out"/clblast_xgemm_*_32.json)
    [ -e "${found[0]}" ] || { echo "the tuner of CLBlast has finished no search"; return 1; }
    on_device cuda-cublas opencl-clblast opencl-tuned --clblast-tuned "${found[@]}"
}

one_search() {  # BACKEND DTYPE SIZES MINUTES
    python3 -m gemmlab tune "$1" --dtype "$2" --sizes "$3" --minutes "$4" --log "$out/$1-$2.jsonl"
}

search() {
    local skinny=16384x128x2048,128x16384x2048,65536x64x1024,64x65536x1024
    one_search opencl-tuned float32 256,1024,4096,$skinny 3
    one_search cuda-tuned float32 256,1024,4096,$skinny 3
    one_search opencl-tuned float64 256,1024,4096 1
    one_search cuda-tuned float64 256,1024,4096 1
    cp "$(python3 -c 'import gemmlab; print(gemmlab.config.cache_dir)')/profile.json" "$out/"
}

rungs=(naive private local local4 register register-global tuned)
for name in "${steps[@]}"; do
    case $name in
        setup) step setup ;;
        tests) step timeout 240 python3 -m pytest -q -p no:cacheprovider -m "" tests/_gpu ;;
        verify) step verify "${rungs[@]/#/opencl-}" "${rungs[@]/#/cuda-}" opencl-clblast cuda-cublas \
            {opencl,cuda}-{tensor,tensor-async,emulated} ;;
        products | drawn | thin | units | float64 | counters | clblast | search) step $name ;;
        small) step timeout 200 python3 bench/devices/small_products.py opencl-tuned cuda-tuned cuda-cublas ;;
        streaming) step timeout 200 python3 bench/scale/streaming.py cuda-cublas opencl-register --in-one-piece --cases \
            4096 8192 16384 32768@third 65536x65536x1024@third ;;
        roofline) step python3 -m gemmlab roofline --backends opencl-register,cuda-register --out "$out/roofline" ;;
        report) step python3 -m gemmlab report --out "$out/report" --backends \
            cuda-local,cuda-register,cuda-cublas,opencl-local,opencl-register,opencl-clblast,cpu-packed,cpu-numpy ;;
        *) step timeout 300 python3 -m gemmlab study "$name" --out "$out/$name" ;;
    esac
done
exit $((failures > 0))
