// Causal depthwise convolution, forward.
#pragma once
#include "causal_conv1d/tiles.cuh"

namespace mamba {

template <class T>
__device__ __forceinline__ void conv_forward(const ConvForward& arguments) {
  const CausalConv1dParams& p = arguments.call;
  const ThreadTiles mine = tiles_of_thread(p, arguments.spread);
  if (mine.tile >= mine.end) return;
  const Taps taps = taps_of(p.weight, p.bias, p.weight_dtype, p.width, mine.channel);
  const Row<const T> x = row_of<const T>(p.x, mine.batch, mine.channel, arguments.vector & kVectorX);
  const Row<T> out = row_of<T>(p.out, mine.batch, mine.channel, arguments.vector & kVectorConvOut);
  DEV_NO_UNROLL
  for (int64_t tile = mine.tile; tile < mine.end; tile += mine.step) {
    const int64_t first = tile * kItems;
    const int valid = valid_items(p.length, first);
    float window[kHalo + kItems], y[kItems];
    load_window(x, first, valid, window);
    DEV_UNROLL
    for (int i = 0; i < kItems; i++) {
      y[i] = taps(window + i);
      if (p.silu) y[i] = silu(y[i]);
    }
    store_items(out, first, valid, y);
  }
}

}  // namespace mamba
