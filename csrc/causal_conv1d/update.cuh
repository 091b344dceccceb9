// Further steps of the convolution from a state that holds the newest inputs; a thread owns one (batch, channel) row.
#pragma once
#include "causal_conv1d/tiles.cuh"

namespace mamba {

template <class T>
__device__ __forceinline__ void conv_update(const ConvUpdate& arguments) {
  const CausalConv1dUpdateParams& p = arguments.call;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t batch = index / p.dim, channel = index % p.dim;
  if (batch >= p.batch) return;
  const Taps taps = taps_of(p.weight, p.bias, p.weight_dtype, p.width, channel);
  const Row<const T> x = row_of<const T>(p.x, batch, channel, 0);
  const Row<T> state = row_of<T>(p.conv_state, batch, channel, 0);
  const Row<T> out = row_of<T>(p.out, batch, channel, 0);

  float window[kMaxWidth];
  DEV_UNROLL
  for (int k = 0; k < kHalo; k++) {
    const int64_t at = p.state_length - kHalo + k;
    window[k + 1] = k >= taps.unused ? to_float(state.data[at * state.step]) : 0.f;
  }
  DEV_NO_UNROLL
  for (int64_t t = 0; t < p.length; t++) {
    DEV_UNROLL
    for (int k = 0; k < kHalo; k++) window[k] = window[k + 1];
    window[kHalo] = to_float(x.data[t * x.step]);
    const float y = taps(window);
    from_float(out.data[t * out.step], p.silu ? silu(y) : y);
  }
  // In place and upwards: each step reads beyond what has been written.
  DEV_NO_UNROLL
  for (int64_t i = 0; i < p.state_length; i++) {
    const int64_t from = i + p.length;
    state.data[i * state.step] =
        from < p.state_length ? state.data[from * state.step] : x.data[(from - p.state_length) * x.step];
  }
}

}  // namespace mamba
