// Numeric types, activations, and the movement of a thread's consecutive time steps between memory and registers.
#pragma once
#include <cstdint>

#include "common/device.h"
#include "common/items.h"

namespace mamba {

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ void from_float(float& to, float x) { to = x; }
__device__ __forceinline__ void from_float(__half& to, float x) { to = __float2half_rn(x); }
__device__ __forceinline__ void from_float(__nv_bfloat16& to, float x) { to = __float2bfloat16_rn(x); }

// An element whose type is known at run time only: one branch, the same for all threads.
__device__ __forceinline__ float load_any(const void* data, int32_t dtype, int64_t index) {
  if (dtype == MAMBA_FLOAT32) return static_cast<const float*>(data)[index];
  if (dtype == MAMBA_FLOAT16) return to_float(static_cast<const __half*>(data)[index]);
  return to_float(static_cast<const __nv_bfloat16*>(data)[index]);
}

__device__ __forceinline__ float sigmoid(float x) { return dev::divide(1.f, 1.f + dev::exp(-x)); }
__device__ __forceinline__ float silu(float x) { return x * sigmoid(x); }
__device__ __forceinline__ float silu_derivative(float x) {
  const float s = sigmoid(x);
  return s * (1.f + x * (1.f - s));
}
// Linear above 20, where the difference is below float32's resolution.
__device__ __forceinline__ float softplus(float x) { return x <= 20.f ? log1pf(dev::exp(x)) : x; }
__device__ __forceinline__ float softplus_derivative(float x) { return x <= 20.f ? sigmoid(x) : 1.f; }

template <class T>
struct alignas(16) Pack {
  static constexpr int kWidth = 16 / sizeof(T);
  T item[kWidth];
};

// A run of time steps: `step` is the stride of time, `vector` says that the step is 1 and every kItems-th element lies
// on a 16-byte boundary.
template <class T>
struct Row {
  T* data;
  int64_t step;
  bool vector;
};

template <class T>
__device__ __forceinline__ Row<T> row_of(const MambaView& view, int64_t batch, int64_t channel, uint32_t vector) {
  return {static_cast<T*>(view.data) + batch * view.stride[0] + channel * view.stride[1], view.stride[2], vector != 0};
}

// x[i] = element at `first + i` where i < valid, else 0.
template <class T>
__device__ __forceinline__ void load_items(const Row<const T>& row, int64_t first, int valid, float (&x)[kItems]) {
  using P = Pack<T>;
  if (row.vector && valid >= kItems) {
    DEV_UNROLL
    for (int k = 0; k < kItems / P::kWidth; k++) {
      const P pack = dev::load16<P>(row.data + first + k * P::kWidth);
      DEV_UNROLL
      for (int i = 0; i < P::kWidth; i++) x[k * P::kWidth + i] = to_float(pack.item[i]);
    }
  } else {
    const T* from = row.data + first * row.step;
    DEV_UNROLL
    for (int i = 0; i < kItems; i++) x[i] = i < valid ? to_float(from[i * row.step]) : 0.f;
  }
}

template <class T>
__device__ __forceinline__ void store_items(const Row<T>& row, int64_t first, int valid, const float (&x)[kItems]) {
  using P = Pack<T>;
  if (row.vector && valid >= kItems) {
    DEV_UNROLL
    for (int k = 0; k < kItems / P::kWidth; k++) {
      P pack;
      DEV_UNROLL
      for (int i = 0; i < P::kWidth; i++) from_float(pack.item[i], x[k * P::kWidth + i]);
      dev::store16<P>(row.data + first + k * P::kWidth, pack);
    }
  } else {
    T* to = row.data + first * row.step;
    DEV_UNROLL
    for (int i = 0; i < kItems; i++)
      if (i < valid) from_float(to[i * row.step], x[i]);
  }
}

// How many of a thread's kItems steps lie before the end of the row.
__device__ __forceinline__ int valid_items(int64_t length, int64_t first) {
  const int64_t left = length - first;
  return left < kItems ? static_cast<int>(left < 0 ? 0 : left) : kItems;
}

}  // namespace mamba
