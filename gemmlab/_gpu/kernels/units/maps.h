// Maps: how matrices lie in memory, and how large the boxes are that are copied of them by one instruction. The host has a map
// from NVIDIA's driver; the address is set on the device, since OpenCL tells it to kernels alone (maps.cl).
//
// NVIDIA's OpenCL compiler compiles for sm_90, not for sm_90a, and refuses instructions of that chip alone. There, MARKED leaves
// one as a comment of the PTX, and the host takes the mark away (ptx.py) before it gives the PTX back to the driver.

#ifndef MARKED
#define MARKED(instruction) "// sm_90a: " instruction
#endif

#define WORDS_OF_MAP 16 // of 64 bits

// Before the first box is copied by it.
void use_map(const __global ulong *map)
{
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"((ulong)map) : "memory");
}

void set_address(__global long *map, const __global uchar *matrices)
{
    asm volatile(MARKED("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;")
                 :: "l"((ulong)map), "l"((ulong)matrices) : "memory");
}

void publish_maps() { asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory"); }
