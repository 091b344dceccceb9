// The only header through which kernels reach CUDA. nvcc gets CUDA itself; any other compiler gets the emulation of
// tests/kernels, which runs the same kernels on a CPU. Shared memory and kernels are therefore declared by macros:
//
//   DEV_SHARED(float2[2][4], totals);       static shared memory
//   DEV_DYNAMIC_SHARED(float, scratch);     the launch's dynamic shared memory
//   DEV_KERNEL(name, Arguments, threads, blocks, body)   `extern "C" __global__ void name(const Arguments)` that calls
//                                           body; at most `threads` a block, registers for `blocks` of them on an SM
#pragma once

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

#define DEV_DYNAMIC_SHARED(T, name)                                    \
  extern __shared__ __align__(16) unsigned char dev_dynamic_shared_[]; \
  T* name = reinterpret_cast<T*>(dev_dynamic_shared_)
#define DEV_SHARED(T, name) __shared__ typename dev::Same<T>::type name
#define DEV_KERNEL(name, Arguments, threads, blocks, ...)                                         \
  extern "C" __global__ void __launch_bounds__(threads, blocks) name(const Arguments arguments) { \
    __VA_ARGS__(arguments);                                                                       \
  }
#define DEV_UNROLL _Pragma("unroll")
#define DEV_NO_UNROLL _Pragma("unroll 1")

namespace dev {

template <class T>
struct Same {
  using type = T;
};

// The approximations are spelled out here instead of by -use_fast_math, so that each is a decision a reader sees and
// subnormal numbers elsewhere keep their value.
__device__ __forceinline__ float exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float exp(float x) { return dev::exp2(x * 1.4426950408889634f); }
__device__ __forceinline__ float divide(float a, float b) { return __fdividef(a, b); }

// One 16-byte access each. Spelled in PTX, since the compiler splits what it may: it merges these with the element-wise
// accesses of the other branch. load16 is for memory that nobody writes during the launch.
template <class T>
__device__ __forceinline__ T load16(const void* from) {
  static_assert(sizeof(T) == 16, "a vector access moves 16 bytes");
  uint32_t words[4];
  asm("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"
      : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
      : "l"(__cvta_generic_to_global(from)));
  T value;
  memcpy(&value, words, sizeof value);
  return value;
}
template <class T>
__device__ __forceinline__ void store16(void* to, const T& value) {
  static_assert(sizeof(T) == 16, "a vector access moves 16 bytes");
  uint32_t words[4];
  memcpy(words, &value, sizeof value);
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(words[0]),
               "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

}  // namespace dev
#else
#include "emulation.h"
#endif
