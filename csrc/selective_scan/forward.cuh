// Selective scan, forward. The recurrence h -> exp(dt A) h + dt u B is a chain of affine maps, and composing them is
// associative: each thread composes its kItems steps, a warp scans the compositions, the block chains its warps through
// shared memory and its chunks through `carry`.
#pragma once
#include "common/warp.cuh"
#include "selective_scan/arguments.h"
#include "selective_scan/projection.cuh"

namespace mamba {

constexpr float kLog2e = 1.4426950408889634f;

template <class T>
__device__ __forceinline__ void scan_forward(const ScanForward& arguments) {
  DEV_SHARED(Affine[2][kMaxWarps], totals);  // of each warp, double-buffered by step: one barrier a step
  DEV_DYNAMIC_SHARED(float, carry);          // [2][state], double-buffered by chunk
  const SelectiveScanParams& p = arguments.call;
  const int thread = threadIdx.x, lane = thread % kWarp, warp = thread / kWarp, threads = blockDim.x;
  const int64_t row = blockIdx.x, batch = row / p.dim, channel = row % p.dim;
  const int64_t group = channel / (p.dim / p.groups), chunks = arguments.chunks;
  const int state = static_cast<int>(p.state);
  const uint32_t vector = arguments.vector;

  const Row<const T> u = row_of<const T>(p.u, batch, channel, vector & kVectorU);
  const Row<const T> delta = row_of<const T>(p.delta, batch, channel, vector & kVectorDelta);
  const Row<T> out = row_of<T>(p.out, batch, channel, vector & kVectorOut);
  const Projection<T> B = projection_of<T>(p.B, p.variable_B, batch, channel, group, vector & kVectorB);
  const Projection<T> C = projection_of<T>(p.C, p.variable_C, batch, channel, group, vector & kVectorC);
  const float D = channel_value(p.D, channel), bias = channel_value(p.delta_bias, channel);

  for (int n = thread; n < state; n += threads) carry[n] = state_value(p.initial_state, batch, channel, n);
  unsigned step = 0;
  DEV_NO_UNROLL
  for (int64_t chunk = 0; chunk < chunks; chunk++) {
    const int64_t first = (chunk * threads + thread) * kItems;
    const int valid = valid_items(p.length, first), parity = static_cast<int>(chunk & 1);
    float ut[kItems], dt[kItems], y[kItems];
    load_items(u, first, valid, ut);
    load_items(delta, first, valid, dt);
    DEV_UNROLL
    for (int i = 0; i < kItems; i++) {
      const float biased = dt[i] + bias;
      // A step of 0 past the end leaves the state as it is.
      dt[i] = i < valid ? (p.delta_softplus ? softplus(biased) : biased) : 0.f;
      y[i] = D * ut[i];
      ut[i] *= dt[i];
    }
    DEV_NO_UNROLL
    for (int n = 0; n < state; n++, step++) {
      const float A = state_value(p.A, channel, n, 0) * kLog2e;
      float a[kItems], b[kItems], c[kItems];
      B.load(n, first, valid, b);
      C.load(n, first, valid, c);
      Affine own = {1.f, 0.f};
      DEV_UNROLL
      for (int i = 0; i < kItems; i++) {
        a[i] = dev::exp2(dt[i] * A);
        b[i] *= ut[i];
        own = {own.a * a[i], own.b * a[i] + b[i]};
      }
      own = warp_scan_up(own, lane);
      if (lane == kWarp - 1) totals[step & 1][warp] = own;
      const Affine before = from_lane_below(own, lane);
      __syncthreads();
      float h = carry[parity * state + n];
      for (int w = 0; w < warp; w++) h = totals[step & 1][w](h);
      h = before(h);
      DEV_UNROLL
      for (int i = 0; i < kItems; i++) {
        h = a[i] * h + b[i];
        y[i] += c[i] * h;
      }
      if (thread == threads - 1) {
        carry[(parity ^ 1) * state + n] = h;
        if (chunk + 1 < chunks) {
          if (p.checkpoints != nullptr) p.checkpoints[(row * (chunks - 1) + chunk) * state + n] = h;
        } else if (p.last_state.data != nullptr) {
          const MambaView& last = p.last_state;
          static_cast<float*>(last.data)[batch * last.stride[0] + channel * last.stride[1] + n * last.stride[2]] = h;
        }
      }
    }
    if (p.z.data != nullptr) {
      float z[kItems];
      load_items(row_of<const T>(p.z, batch, channel, vector & kVectorZ), first, valid, z);
      DEV_UNROLL
      for (int i = 0; i < kItems; i++) y[i] *= silu(z[i]);
    }
    store_items(out, first, valid, y);
  }
}

}  // namespace mamba
