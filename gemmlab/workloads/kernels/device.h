// What the kernels of this folder need besides OpenCL C, on every runtime.

#ifdef __CUDACC__
#define FUNCTION __device__ __forceinline__
#else
#define FUNCTION static inline
#endif

// Before a pointer to local memory: CUDA's compiler finds out by itself.
#ifndef LOCAL_POINTER
#define LOCAL_POINTER __local
#endif
#define LOCAL LOCAL_POINTER

// The size of the work-groups is known at compile time, which lets the compiler optimise for it.
#ifndef GROUP
#define GROUP __attribute__((reqd_work_group_size(GROUP_X, GROUP_Y, 1)))
#endif

#define ITEMS (GROUP_X * GROUP_Y)
#define ITEM ((int)(get_local_id(1) * GROUP_X + get_local_id(0)))
