// Sums and scans over the 32 lanes of a warp. All lanes must take part.
#pragma once
#include "common/device.h"

namespace mamba {

constexpr unsigned kAllLanes = 0xffffffffu;

__device__ __forceinline__ float warp_sum(float value) {
  DEV_UNROLL
  for (int offset = 16; offset; offset >>= 1) value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
}

// The affine map h -> a h + b.
struct Affine {
  float a, b;
  __device__ __forceinline__ float operator()(float h) const { return a * h + b; }
};

// Inclusive scan of the composed maps towards higher lanes: lane 31 ends with all of them.
__device__ __forceinline__ Affine warp_scan_up(Affine f, int lane) {
  DEV_UNROLL
  for (int offset = 1; offset < 32; offset *= 2) {
    const float a = __shfl_up_sync(kAllLanes, f.a, offset);
    const float b = __shfl_up_sync(kAllLanes, f.b, offset);
    if (lane >= offset) f = {f.a * a, f.a * b + f.b};
  }
  return f;
}

// The same towards lower lanes: lane 0 ends with all of them.
__device__ __forceinline__ Affine warp_scan_down(Affine f, int lane) {
  DEV_UNROLL
  for (int offset = 1; offset < 32; offset *= 2) {
    const float a = __shfl_down_sync(kAllLanes, f.a, offset);
    const float b = __shfl_down_sync(kAllLanes, f.b, offset);
    if (lane + offset < 32) f = {f.a * a, f.a * b + f.b};
  }
  return f;
}

// The map of all lanes before this one: the inclusive scan, moved by a lane.
__device__ __forceinline__ Affine from_lane_below(Affine f, int lane) {
  const float a = __shfl_up_sync(kAllLanes, f.a, 1), b = __shfl_up_sync(kAllLanes, f.b, 1);
  return lane == 0 ? Affine{1.f, 0.f} : Affine{a, b};
}
__device__ __forceinline__ Affine from_lane_above(Affine f, int lane) {
  const float a = __shfl_down_sync(kAllLanes, f.a, 1), b = __shfl_down_sync(kAllLanes, f.b, 1);
  return lane == 31 ? Affine{1.f, 0.f} : Affine{a, b};
}

}  // namespace mamba
