# mut.sh SED FILE
rm -rf /tmp/amxm/w; mkdir -p /tmp/amxm/w; cp -r /work/main/gemmlab/_cpu /tmp/amxm/w/_cpu; 
[ -n "$1" ] && sed -i "$1" /tmp/amxm/w/_cpu/packed/$2
cd /tmp/amxm/w
F="-O2 -std=c++20 -fno-exceptions -fno-rtti -w -fopenmp -ffp-contract=fast"
I="-I_cpu -I_cpu/threads -I_cpu/rungs -I_cpu/packed -I_cpu/packed_backend"
g++ $F $I -march=x86-64-v4 -mprefer-vector-width=512 -include /work/main/tests/support/tile_unit.h -c _cpu/packed/kernels.cpp -o k.o && g++ $F $I -c /work/main/tests/_cpu/kernels_test.cpp -o t.o && g++ k.o t.o -o t -fopenmp && ./t ${3:-7} 60 2>&1 | tail -2
