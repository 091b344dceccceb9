// Selective scan, backward. With g_t the gradient of h_t and q_t = a_t g_t what it sends to h_{t-1}:
//   g_t = C_t dy_t + q_{t+1}, so q_t = a_t q_{t+1} + a_t C_t dy_t
// is again a chain of affine maps, now from the end of the row to its start. Each chunk first recomputes its states
// from the checkpoint before it, then runs both scans at once, with one barrier a state.
#pragma once
#include "common/warp.cuh"
#include "selective_scan/arguments.h"
#include "selective_scan/forward.cuh"
#include "selective_scan/projection.cuh"

namespace mamba {

// A warp holds 32 * kItems consecutive steps, kItems a lane, and adds those before `valid` to out. The transpose
// through shared memory makes the atomics of a warp fall on neighbouring addresses.
__device__ __forceinline__ void warp_add_to(float* out, int64_t valid, float* transpose, const float (&x)[kItems],
                                            int lane) {
  DEV_UNROLL
  for (int i = 0; i < kItems; i++) transpose[lane * kTransposeRow + i] = x[i];
  __syncwarp();
  DEV_UNROLL
  for (int k = 0; k < kItems; k++) {
    const int at = k * kWarp + lane;
    if (at < valid) atomicAdd(out + at, transpose[at / kItems * kTransposeRow + at % kItems]);
  }
  __syncwarp();
}

__device__ __forceinline__ void block_add_to(float* shared_sum, float value, int lane) {
  value = warp_sum(value);
  if (lane == 0) atomicAdd(shared_sum, value);
}

__device__ __forceinline__ float sum_items(const float (&x)[kItems]) {
  float sum = 0.f;
  DEV_UNROLL
  for (int i = 0; i < kItems; i++) sum += x[i];
  return sum;
}

template <class T>
__device__ __forceinline__ void scan_backward(const ScanBackward& arguments) {
  DEV_SHARED(Affine[2][kMaxWarps], forward_totals);
  DEV_SHARED(Affine[2][kMaxWarps], backward_totals);
  DEV_DYNAMIC_SHARED(float, shared);
  const SelectiveScanBackwardParams& g = arguments.call;
  const SelectiveScanParams& p = g.forward;
  const int thread = threadIdx.x, lane = thread % kWarp, warp = thread / kWarp, threads = blockDim.x;
  const int warps = threads / kWarp, state = static_cast<int>(p.state);
  const int64_t row = blockIdx.x, batch = row / p.dim, channel = row % p.dim;
  const int64_t group = channel / (p.dim / p.groups), chunks = arguments.chunks;
  const int64_t projection_row = (batch * p.groups + group) * p.state;  // of dB and dC
  const uint32_t vector = arguments.vector;
  const bool has_z = p.z.data != nullptr;

  float* carry = shared;  // [2][state]: q that enters the chunk from its right
  float* dA_sum = shared + 2 * state;
  float* dB_sum = shared + 3 * state;
  float* dC_sum = shared + 4 * state;
  float* transpose = shared + 5 * state + warp * kWarp * kTransposeRow;

  const Row<const T> u = row_of<const T>(p.u, batch, channel, vector & kVectorU);
  const Row<const T> delta = row_of<const T>(p.delta, batch, channel, vector & kVectorDelta);
  const Row<const T> z = row_of<const T>(p.z, batch, channel, vector & kVectorZ);
  const Row<const T> dout = row_of<const T>(g.dout, batch, channel, vector & kVectorDout);
  const Projection<T> B = projection_of<T>(p.B, p.variable_B, batch, channel, group, vector & kVectorB);
  const Projection<T> C = projection_of<T>(p.C, p.variable_C, batch, channel, group, vector & kVectorC);
  const float D = channel_value(p.D, channel), bias = channel_value(p.delta_bias, channel);

  for (int n = thread; n < state; n += threads) {
    carry[((chunks - 1) & 1) * state + n] = state_value(g.dlast_state, batch, channel, n);
    dA_sum[n] = dB_sum[n] = dC_sum[n] = 0.f;
  }
  float dD = 0.f, dbias = 0.f;
  unsigned step = 0;
  DEV_NO_UNROLL
  for (int64_t chunk = chunks - 1; chunk >= 0; chunk--) {
    const int64_t first = (chunk * threads + thread) * kItems;
    const int64_t warp_first = (chunk * threads + warp * kWarp) * kItems;
    const int valid = valid_items(p.length, first), parity = static_cast<int>(chunk & 1);
    float ut[kItems], dt[kItems], dy[kItems], y[kItems], du[kItems], ddt[kItems];
    load_items(u, first, valid, ut);
    load_items(delta, first, valid, dt);
    load_items(dout, first, valid, dy);
    if (has_z) {
      float zt[kItems];
      load_items(z, first, valid, zt);
      DEV_UNROLL
      for (int i = 0; i < kItems; i++) dy[i] *= silu(zt[i]);
    }
    DEV_UNROLL
    for (int i = 0; i < kItems; i++) {
      const float biased = dt[i] + bias;
      dt[i] = i < valid ? (p.delta_softplus ? softplus(biased) : biased) : 0.f;
      y[i] = D * ut[i];
      du[i] = D * dy[i];
      dD += dy[i] * ut[i];
      ddt[i] = 0.f;
    }
    DEV_NO_UNROLL
    for (int n = 0; n < state; n++, step++) {
      const float A = state_value(p.A, channel, n, 0), A_log2e = A * kLog2e;
      float a[kItems], b[kItems], c[kItems], decayed[kItems];
      B.load(n, first, valid, b);
      C.load(n, first, valid, c);
      Affine ahead = {1.f, 0.f}, back = {1.f, 0.f};
      DEV_UNROLL
      for (int i = 0; i < kItems; i++) {
        a[i] = dev::exp2(dt[i] * A_log2e);
        ahead = {ahead.a * a[i], ahead.b * a[i] + dt[i] * ut[i] * b[i]};
      }
      DEV_UNROLL
      for (int i = kItems - 1; i >= 0; i--) back.b = a[i] * (c[i] * dy[i] + back.b);
      back.a = ahead.a;
      ahead = warp_scan_up(ahead, lane);
      back = warp_scan_down(back, lane);
      if (lane == kWarp - 1) forward_totals[step & 1][warp] = ahead;
      if (lane == 0) backward_totals[step & 1][warp] = back;
      const Affine before = from_lane_below(ahead, lane), after = from_lane_above(back, lane);
      __syncthreads();
      float h = chunk > 0 ? p.checkpoints[(row * (chunks - 1) + chunk - 1) * state + n]
                          : state_value(p.initial_state, batch, channel, n);
      for (int w = 0; w < warp; w++) h = forward_totals[step & 1][w](h);
      h = before(h);
      float q = carry[parity * state + n];
      for (int w = warps - 1; w > warp; w--) q = backward_totals[step & 1][w](q);
      q = after(q);

      float dB[kItems], dC[kItems], dA = 0.f;
      DEV_UNROLL
      for (int i = 0; i < kItems; i++) {
        decayed[i] = a[i] * h;
        h = decayed[i] + dt[i] * ut[i] * b[i];
        y[i] += c[i] * h;
        dC[i] = dy[i] * h;
      }
      DEV_UNROLL
      for (int i = kItems - 1; i >= 0; i--) {
        const float dh = c[i] * dy[i] + q, dh_dt = dh * dt[i];
        q = a[i] * dh;
        dB[i] = dh_dt * ut[i];
        du[i] += dh_dt * b[i];
        dA += dh_dt * decayed[i];
        ddt[i] += dh * (A * decayed[i] + ut[i] * b[i]);
      }
      if (thread == 0) {
        carry[(parity ^ 1) * state + n] = q;
        if (chunk == 0 && g.dinitial_state != nullptr) g.dinitial_state[row * state + n] = q;
      }
      block_add_to(dA_sum + n, dA, lane);
      if (p.variable_B)
        warp_add_to(g.dB + (projection_row + n) * p.length + warp_first, p.length - warp_first, transpose, dB, lane);
      else
        block_add_to(dB_sum + n, sum_items(dB), lane);
      if (p.variable_C)
        warp_add_to(g.dC + (projection_row + n) * p.length + warp_first, p.length - warp_first, transpose, dC, lane);
      else
        block_add_to(dC_sum + n, sum_items(dC), lane);
    }
    // delta, z and dout are read again rather than held in registers through the loop over the states.
    if (p.delta_softplus) {
      float raw[kItems];
      load_items(delta, first, valid, raw);
      DEV_UNROLL
      for (int i = 0; i < kItems; i++) ddt[i] *= softplus_derivative(raw[i] + bias);
    }
    DEV_UNROLL
    for (int i = 0; i < kItems; i++)
      if (i < valid) dbias += ddt[i];
    store_items(row_of<T>(g.du, batch, channel, vector & kVectorDu), first, valid, du);
    store_items(row_of<T>(g.ddelta, batch, channel, vector & kVectorDdelta), first, valid, ddt);
    if (has_z) {
      float zt[kItems], dzt[kItems];
      load_items(z, first, valid, zt);
      load_items(dout, first, valid, dzt);
      DEV_UNROLL
      for (int i = 0; i < kItems; i++) dzt[i] *= y[i] * silu_derivative(zt[i]);
      store_items(row_of<T>(g.dz, batch, channel, vector & kVectorDz), first, valid, dzt);
    }
  }
  __syncthreads();
  for (int n = thread; n < state; n += threads) {
    atomicAdd(g.dA + channel * state + n, dA_sum[n]);
    if (!p.variable_B) atomicAdd(g.dB + channel * state + n, dB_sum[n]);
    if (!p.variable_C) atomicAdd(g.dC + channel * state + n, dC_sum[n]);
  }
  dD = warp_sum(dD);
  dbias = warp_sum(dbias);
  if (lane == 0) {
    if (g.dD != nullptr) atomicAdd(g.dD + channel, dD);
    if (g.ddelta_bias != nullptr) atomicAdd(g.ddelta_bias + channel, dbias);
  }
}

}  // namespace mamba
