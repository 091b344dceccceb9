// B and C, which either vary along the sequence and are shared by a group of channels, or are constants of a channel.
#pragma once
#include "common/numeric.cuh"

namespace mamba {

template <class T>
struct Projection {
  const void* data;
  bool variable;
  int64_t start, state_step, time_step;  // of the channel's first element; elements of T, or of float where constant
  bool vector;

  // The values of state n at kItems steps from `first` on. Past the end a variable projection is 0.
  __device__ __forceinline__ void load(int64_t n, int64_t first, int valid, float (&x)[kItems]) const {
    const int64_t at = start + n * state_step;
    if (variable) {
      load_items(Row<const T>{static_cast<const T*>(data) + at, time_step, vector}, first, valid, x);
    } else {
      const float constant = static_cast<const float*>(data)[at];
      DEV_UNROLL
      for (int i = 0; i < kItems; i++) x[i] = constant;
    }
  }
};

template <class T>
__device__ __forceinline__ Projection<T> projection_of(const MambaView& view, bool variable, int64_t batch,
                                                       int64_t channel, int64_t group, uint32_t vector) {
  if (variable)
    return {view.data,      true,           batch * view.stride[0] + group * view.stride[1],
            view.stride[2], view.stride[3], vector != 0};
  return {view.data, false, channel * view.stride[0], view.stride[1], 0, false};
}

// Elements of small float32 arguments that may be absent.
__device__ __forceinline__ float channel_value(const MambaView& view, int64_t channel) {
  return view.data == nullptr ? 0.f : static_cast<const float*>(view.data)[channel * view.stride[0]];
}
__device__ __forceinline__ float state_value(const MambaView& view, int64_t batch, int64_t channel, int64_t n) {
  if (view.data == nullptr) return 0.f;
  return static_cast<const float*>(view.data)[batch * view.stride[0] + channel * view.stride[1] + n * view.stride[2]];
}

}  // namespace mamba
