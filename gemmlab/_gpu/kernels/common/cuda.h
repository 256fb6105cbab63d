// OpenCL C's keywords and functions in CUDA, so that NVRTC compiles the rungs' sources unchanged.

#define __kernel extern "C" __global__
#define __global
#define __local __shared__
#define LOCAL_POINTER
#define LOCAL_ARRAY(type, name, count) extern __shared__ type name[] // the launch says how many
#define LOCAL_ADDRESS(pointer) ((uint)__cvta_generic_to_shared(pointer))
#define MARKED(instruction) instruction // NVRTC compiles for sm_90a
#define INLINED __forceinline__
#define GROUP __launch_bounds__(GROUP_X * GROUP_Y)
#define CLK_LOCAL_MEM_FENCE
#define barrier(fence) __syncthreads()
#define long long long  // 64 bits, as in OpenCL C, on Windows too
#define INFINITY __int_as_float(0x7f800000)
#define __constant __constant__

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong; // as `long`

__device__ inline uint as_uint(float x) { return __float_as_uint(x); }
__device__ inline float as_float(uint x) { return __uint_as_float(x); }
__device__ inline ulong as_ulong(double x) { return __double_as_longlong(x); }
__device__ inline double as_double(ulong x) { return __longlong_as_double(x); }
__device__ inline int clz(uint x) { return __clz(x); }
__device__ inline int clz(ulong x) { return __clzll(x); }

__device__ inline size_t of(const uint3 v, int dimension)
{
    return dimension == 0 ? v.x : dimension == 1 ? v.y : v.z;
}

__device__ inline size_t get_local_id(int dimension) { return of(threadIdx, dimension); }
__device__ inline size_t get_group_id(int dimension) { return of(blockIdx, dimension); }
__device__ inline size_t get_local_size(int dimension) { return of(blockDim, dimension); }
__device__ inline size_t get_num_groups(int dimension) { return of(gridDim, dimension); }

__device__ inline size_t get_global_id(int dimension)
{
    return get_group_id(dimension) * get_local_size(dimension) + get_local_id(dimension);
}

__device__ inline size_t get_global_size(int dimension)
{
    return get_num_groups(dimension) * get_local_size(dimension);
}

// float16 is only stored: these convert it.
struct half {
    unsigned short bits;
};

__device__ inline float vload_half(size_t offset, const half *from)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(from[offset].bits));
    return x;
}

__device__ inline void vstore_half(float x, size_t offset, half *to)
{
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to[offset].bits) : "f"(x));
}

__device__ inline float4 vloada_half4(size_t offset, const half *from)
{
    const uint2 pairs = ((const uint2 *)from)[offset];
    const half *some = (const half *)&pairs;
    return make_float4(vload_half(0, some), vload_half(1, some), vload_half(2, some), vload_half(3, some));
}

__device__ inline float2 vloada_half2(size_t offset, const half *from)
{
    const unsigned int pair = ((const unsigned int *)from)[offset];
    const half *some = (const half *)&pair;
    return make_float2(vload_half(0, some), vload_half(1, some));
}

__device__ inline void vstorea_half4(const float4 x, size_t offset, half *to)
{
    uint2 pairs;
    half *some = (half *)&pairs;
    vstore_half(x.x, 0, some);
    vstore_half(x.y, 1, some);
    vstore_half(x.z, 2, some);
    vstore_half(x.w, 3, some);
    ((uint2 *)to)[offset] = pairs;
}

__device__ inline void vstorea_half2(const float2 x, size_t offset, half *to)
{
    unsigned int pair;
    half *some = (half *)&pair;
    vstore_half(x.x, 0, some);
    vstore_half(x.y, 1, some);
    ((unsigned int *)to)[offset] = pair;
}

// OpenCL C has arithmetic on vectors.
__device__ inline float4 operator+(const float4 a, const float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

__device__ inline float4 operator*(const float4 a, const float b)
{
    return make_float4(a.x * b, a.y * b, a.z * b, a.w * b);
}
