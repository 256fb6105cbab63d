// OpenCL C's words in CUDA's, so that NVRTC compiles the rungs' own text. Nothing of a rung stands here.

#define __kernel extern "C" __global__
#define __global
#define __local __shared__
#define GROUP __launch_bounds__(GROUP_X * GROUP_Y)
#define CLK_LOCAL_MEM_FENCE
#define barrier(fence) __syncthreads()
#define long long long

__device__ inline unsigned int of(const uint3 v, int dimension)
{
    return dimension == 0 ? v.x : dimension == 1 ? v.y : v.z;
}

__device__ inline unsigned int get_local_id(int dimension) { return of(threadIdx, dimension); }
__device__ inline unsigned int get_group_id(int dimension) { return of(blockIdx, dimension); }

__device__ inline unsigned int get_local_size(int dimension)
{
    return dimension == 0 ? blockDim.x : dimension == 1 ? blockDim.y : blockDim.z;
}

__device__ inline unsigned int get_num_groups(int dimension)
{
    return dimension == 0 ? gridDim.x : dimension == 1 ? gridDim.y : gridDim.z;
}

__device__ inline unsigned int get_global_id(int dimension)
{
    return get_group_id(dimension) * get_local_size(dimension) + get_local_id(dimension);
}

__device__ inline unsigned int get_global_size(int dimension)
{
    return get_num_groups(dimension) * get_local_size(dimension);
}
