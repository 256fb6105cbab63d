// OpenCL C's keywords and functions in CUDA, so that NVRTC compiles the rungs' sources unchanged.

#define __kernel extern "C" __global__
#define __global
#define __local __shared__
#define LOCAL_POINTER
#define GROUP __launch_bounds__(GROUP_X * GROUP_Y)
#define CLK_LOCAL_MEM_FENCE
#define barrier(fence) __syncthreads()
#define long long long  // 64 bits, as in OpenCL C, on Windows too
#define INFINITY __int_as_float(0x7f800000)

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

// OpenCL C has arithmetic on vectors.
__device__ inline float4 operator+(const float4 a, const float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

__device__ inline float4 operator*(const float4 a, const float b)
{
    return make_float4(a.x * b, a.y * b, a.z * b, a.w * b);
}
