// Which tiles of which row a thread works on, the taps of its channel, and a tile of inputs with its halo.
#pragma once
#include "causal_conv1d/arguments.h"
#include "common/numeric.cuh"

namespace mamba {

struct ThreadTiles {
  int64_t batch, channel;
  int64_t tile, end, step;  // tile, tile + step, ... before end
};

__device__ __forceinline__ ThreadTiles tiles_of_thread(const CausalConv1dParams& p, const ConvSpread& spread) {
  const int64_t row_tiles = (p.length + kItems - 1) / kItems;
  ThreadTiles mine;
  int64_t segment;
  if (spread.channels_fast) {
    const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, rest = index / p.dim;
    mine.channel = index % p.dim;
    segment = rest % spread.segments;
    mine.batch = rest / spread.segments;
    mine.tile = segment * spread.tiles;
    mine.step = 1;
  } else {
    const int64_t index = blockIdx.x, row = index / spread.segments;
    segment = index % spread.segments;
    mine.batch = row / p.dim;
    mine.channel = row % p.dim;
    mine.tile = segment * spread.tiles + threadIdx.x;
    mine.step = blockDim.x;
  }
  const int64_t segment_end = (segment + 1) * spread.tiles;
  mine.end = segment_end < row_tiles ? segment_end : row_tiles;
  if (mine.batch >= p.batch) mine.end = mine.tile;  // the last block's surplus threads
  return mine;
}

// Taps of one channel, aligned to the newest input: tap[kMaxWidth - 1] meets x[t]. Narrow filters leave the first
// unused.
struct Taps {
  float tap[kMaxWidth], bias;
  int unused;

  // The sum over the taps for the input window that ends at x[kHalo].
  __device__ __forceinline__ float operator()(const float* x) const {
    float sum = bias;
    DEV_UNROLL
    for (int k = 0; k < kMaxWidth; k++)
      if (k >= unused) sum += tap[k] * x[k];  // not `0 * x`, which is NaN where x is infinite
    return sum;
  }
};

__device__ __forceinline__ Taps taps_of(const MambaView& weight, const MambaView& bias, int32_t dtype, int64_t width,
                                        int64_t channel) {
  Taps taps;
  taps.unused = kMaxWidth - static_cast<int>(width);
  DEV_UNROLL
  for (int k = 0; k < kMaxWidth; k++)
    taps.tap[k] = k < taps.unused
                      ? 0.f
                      : load_any(weight.data, dtype, channel * weight.stride[0] + (k - taps.unused) * weight.stride[1]);
  taps.bias = bias.data == nullptr ? 0.f : load_any(bias.data, dtype, channel * bias.stride[0]);
  return taps;
}

// x[kHalo + i] = input `first + i`, and the kHalo inputs before it; 0 outside the row.
template <class T>
__device__ __forceinline__ void load_window(const Row<const T>& row, int64_t first, int valid,
                                            float (&x)[kHalo + kItems]) {
  float tile[kItems];
  load_items(row, first, valid, tile);
  DEV_UNROLL
  for (int i = 0; i < kHalo; i++)
    x[i] = first > 0 && valid > 0 ? to_float(row.data[(first - kHalo + i) * row.step]) : 0.f;
  DEV_UNROLL
  for (int i = 0; i < kItems; i++) x[kHalo + i] = tile[i];
}

}  // namespace mamba
