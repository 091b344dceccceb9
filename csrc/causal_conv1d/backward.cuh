// Causal depthwise convolution, backward. With e_t the gradient before the activation:
//   dx_t = sum_k tap[k] e[t + kHalo - k],  dtap[k] = sum_t e_t x[t - kHalo + k],  dbias = sum_t e_t
#pragma once
#include "causal_conv1d/tiles.cuh"
#include "common/warp.cuh"

namespace mamba {

template <class T>
__device__ __forceinline__ void conv_backward(const ConvBackward& arguments) {
  const CausalConv1dBackwardParams& g = arguments.call;
  const CausalConv1dParams& p = g.forward;
  const bool channels_fast = arguments.spread.channels_fast != 0;
  const ThreadTiles mine = tiles_of_thread(p, arguments.spread);
  if (channels_fast && mine.tile >= mine.end) return;  // else the whole warp meets in the sums below
  const Taps taps = taps_of(p.weight, p.bias, p.weight_dtype, p.width, mine.channel);
  const Row<const T> x = row_of<const T>(p.x, mine.batch, mine.channel, arguments.vector & kVectorX);
  const Row<const T> dout = row_of<const T>(g.dout, mine.batch, mine.channel, arguments.vector & kVectorConvDout);
  const Row<T> dx = row_of<T>(g.dx, mine.batch, mine.channel, arguments.vector & kVectorDx);
  float dtap[kMaxWidth] = {0.f, 0.f, 0.f, 0.f}, dbias = 0.f;
  DEV_NO_UNROLL
  for (int64_t tile = mine.tile; tile < mine.end; tile += mine.step) {
    const int64_t first = tile * kItems;
    const int valid = valid_items(p.length, first), valid_after = valid_items(p.length, first + kItems);
    // The tile's inputs and gradients, with kHalo older inputs and kHalo newer steps on which the tile's inputs act.
    float window[kHalo + kItems + kHalo], e[kItems + kHalo], tile_x[kHalo + kItems], tile_e[kItems];
    load_window(x, first, valid, tile_x);
    load_items(dout, first, valid, tile_e);
    DEV_UNROLL
    for (int i = 0; i < kHalo + kItems; i++) window[i] = tile_x[i];
    DEV_UNROLL
    for (int i = 0; i < kItems; i++) e[i] = tile_e[i];
    DEV_UNROLL
    for (int i = 0; i < kHalo; i++) {
      const int64_t at = first + kItems + i;
      e[kItems + i] = i < valid_after ? to_float(dout.data[at * dout.step]) : 0.f;
      window[kHalo + kItems + i] = p.silu && i < valid_after ? to_float(x.data[at * x.step]) : 0.f;
    }
    if (p.silu) {
      DEV_UNROLL
      for (int i = 0; i < kItems + kHalo; i++) e[i] *= silu_derivative(taps(window + i));
    }
    float dx_tile[kItems];
    DEV_UNROLL
    for (int i = 0; i < kItems; i++) {
      dx_tile[i] = 0.f;
      DEV_UNROLL
      for (int k = 0; k < kMaxWidth; k++) {
        if (k >= taps.unused) dx_tile[i] += taps.tap[k] * e[i + kHalo - k];
        if (i < valid) dtap[k] += e[i] * window[i + k];
      }
      if (i < valid) dbias += e[i];
    }
    store_items(dx, first, valid, dx_tile);
  }
  const bool adds = channels_fast || threadIdx.x % kWarp == 0;  // along time a warp shares its channel
  if (!channels_fast) {
    DEV_UNROLL
    for (int k = 0; k < kMaxWidth; k++) dtap[k] = warp_sum(dtap[k]);
    dbias = warp_sum(dbias);
  }
  if (!adds) return;
  DEV_UNROLL
  for (int k = 0; k < kMaxWidth; k++)
    if (k >= taps.unused) atomicAdd(g.dweight + mine.channel * p.width + (k - taps.unused), dtap[k]);
  if (g.dbias != nullptr) atomicAdd(g.dbias + mine.channel, dbias);
}

}  // namespace mamba
