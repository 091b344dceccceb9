// Causal depthwise convolution over tiles: one lane per channel, so that the taps of a step are the vectors before it.
#pragma once
#include "tiles.h"
#include "variant.h"

namespace mamba {
namespace MAMBA_ISA {

constexpr int kConvSteps = 64;
constexpr int kMaxWidth = 4;

struct ConvCall {
  const CausalConv1dParams* forward;
  const CausalConv1dBackwardParams* backward;
  const CausalConv1dUpdateParams* update;
  int64_t tiles;  // of a batch entry
  float* sums;    // backward: [batch][dim][width + 1], the terms of dweight and dbias
  bool streams;
};

struct ConvTile {
  int64_t batch, row;
  int rows;
  Vec weight[kMaxWidth], bias;
};

// Works for all three parameter structs, which name these members alike.
template <typename Params>
static ConvTile conv_tile(const Params& p, int64_t tiles, int64_t index) {
  ConvTile tile{index / tiles, index % tiles * kLanes, 0, {}, Vec{}};
  const int64_t left = p.dim - tile.row;
  tile.rows = static_cast<int>(left < kLanes ? left : kLanes);
  const Plane weight{static_cast<char*>(p.weight.data), p.weight.stride[0], p.weight.stride[1], p.weight_dtype, false};
  load_tile(tile.weight, weight, tile.row, 0, tile.rows, static_cast<int>(p.width));
  if (p.bias.data != nullptr) {
    const Plane bias{static_cast<char*>(p.bias.data), p.bias.stride[0], 0, p.weight_dtype, false};
    load_tile(&tile.bias, bias, tile.row, 0, tile.rows, 1);
  }
  return tile;
}

// x[-(width - 1)] .. x[steps - 1] -> y[0] .. y[steps - 1], before the activation.
template <int width>
MAMBA_INLINE void convolve(const ConvTile& tile, const Vec* x, Vec* y, int steps) {
  for (int i = 0; i < steps; ++i) {
    Vec sum = tile.bias;
    MAMBA_UNROLL
    for (int k = 0; k < width; ++k) sum = tile.weight[k] * x[i - (width - 1) + k] + sum;
    y[i] = sum;
  }
}

MAMBA_INLINE void convolve_any(const ConvTile& tile, int64_t width, const Vec* x, Vec* y, int steps, bool silu) {
  if (width == 2) convolve<2>(tile, x, y, steps);
  if (width == 3) convolve<3>(tile, x, y, steps);
  if (width == 4) convolve<4>(tile, x, y, steps);
  for (int i = 0; silu && i < steps; ++i) y[i] *= sigmoid(y[i]);
}

// --- forward --------------------------------------------------------------------------------------------------------

static void conv_forward_task(void* context, int64_t index, int32_t) {
  const ConvCall& call = *static_cast<const ConvCall*>(context);
  const CausalConv1dParams& p = *call.forward;
  const ConvTile tile = conv_tile(p, call.tiles, index);
  const Plane x = plane_of(p.x, tile.batch, p.dtype);
  Plane out = plane_of(p.out, tile.batch, p.dtype);
  out.streams = call.streams;
  Vec inputs[kMaxWidth - 1 + kConvSteps] = {}, outputs[kConvSteps];
  Vec* now = inputs + kMaxWidth - 1;
  for (int64_t first = 0; first < p.length; first += kConvSteps) {
    const int steps = static_cast<int>(p.length - first < kConvSteps ? p.length - first : kConvSteps);
    load_tile(now, x, tile.row, first, tile.rows, steps);
    const int64_t next = first + kConvSteps, left = p.length - next;
    if (left > 0) prefetch_tile(x, tile.row, next, tile.rows, static_cast<int>(left < kConvSteps ? left : kConvSteps));
    convolve_any(tile, p.width, now, outputs, steps, p.silu != 0);
    store_tile(outputs, out, tile.row, first, tile.rows, steps);
    for (int k = 0; k < kMaxWidth - 1; ++k) inputs[k] = inputs[kConvSteps + k];
  }
  if (call.streams) finish_streams();
}

MAMBA_INLINE int32_t conv_threads(int32_t threads, int64_t items) { return useful_threads(threads, items, 1 << 16); }

static MambaStatus causal_conv1d_fwd(const CausalConv1dParams& p, int32_t threads) {
  const int64_t items = p.batch * p.dim * p.length, tiles = (p.dim + kLanes - 1) / kLanes;
  ConvCall call{&p, nullptr, nullptr, tiles, nullptr, may_stream(p.out, p.dtype, items)};
  run_tasks(p.batch * tiles, conv_threads(threads, items), conv_forward_task, &call);
  return MAMBA_OK;
}

// --- backward -------------------------------------------------------------------------------------------------------

// g[i] = dL/d(sum of step i). dx of a step gathers from the steps after it, so g[steps] .. g[steps + width - 2] must
// hold those of the tile that follows.
template <int width>
MAMBA_INLINE void convolve_back(const ConvTile& tile, const Vec* x, const Vec* g, Vec* dx, int steps, Vec* dweight,
                                Vec& dbias) {
  for (int i = 0; i < steps; ++i) {
    Vec sum{};
    MAMBA_UNROLL
    for (int k = 0; k < width; ++k) {
      sum = tile.weight[k] * g[i + width - 1 - k] + sum;
      dweight[k] += g[i] * x[i - (width - 1) + k];
    }
    dbias += g[i];
    dx[i] = sum;
  }
}

// x of the tile at `first`, with the kMaxWidth - 1 steps before it, zeros before the start.
MAMBA_INLINE void load_with_history(Vec* inputs, const Plane& x, const ConvTile& tile, int64_t first, int steps) {
  const int64_t from = first < kMaxWidth - 1 ? 0 : first - (kMaxWidth - 1);
  const int before = static_cast<int>(first - from);
  for (int k = 0; k < kMaxWidth - 1 - before; ++k) inputs[k] = Vec{};
  if (before > 0) load_tile(inputs + kMaxWidth - 1 - before, x, tile.row, from, tile.rows, before);
  load_tile(inputs + kMaxWidth - 1, x, tile.row, first, tile.rows, steps);
}

static void conv_backward_task(void* context, int64_t index, int32_t) {
  const ConvCall& call = *static_cast<const ConvCall*>(context);
  const CausalConv1dBackwardParams& b = *call.backward;
  const CausalConv1dParams& p = b.forward;
  const ConvTile tile = conv_tile(p, call.tiles, index);
  const Plane x = plane_of(p.x, tile.batch, p.dtype), dout = plane_of(b.dout, tile.batch, p.dtype);
  Plane dx = plane_of(b.dx, tile.batch, p.dtype);
  dx.streams = call.streams;
  Vec inputs[kMaxWidth - 1 + kConvSteps], sums[kConvSteps], g[kConvSteps + kMaxWidth - 1], result[kConvSteps];
  Vec after[kMaxWidth - 1] = {}, dweight[kMaxWidth] = {}, dbias{};
  const Vec* now = inputs + kMaxWidth - 1;
  for (int64_t first = (p.length - 1) / kConvSteps * kConvSteps; first >= 0; first -= kConvSteps) {
    const int steps = static_cast<int>(p.length - first < kConvSteps ? p.length - first : kConvSteps);
    load_with_history(inputs, x, tile, first, steps);
    load_tile(g, dout, tile.row, first, tile.rows, steps);
    if (first > 0) {
      prefetch_tile(x, tile.row, first - kConvSteps, tile.rows, kConvSteps);
      prefetch_tile(dout, tile.row, first - kConvSteps, tile.rows, kConvSteps);
    }
    if (p.silu) {
      convolve_any(tile, p.width, now, sums, steps, false);
      for (int i = 0; i < steps; ++i) {
        const Vec gate = sigmoid(sums[i]);
        g[i] *= gate * (1.0f + sums[i] * (1.0f - gate));
      }
    }
    for (int k = 0; k < kMaxWidth - 1; ++k) g[steps + k] = after[k];
    if (p.width == 2) convolve_back<2>(tile, now, g, result, steps, dweight, dbias);
    if (p.width == 3) convolve_back<3>(tile, now, g, result, steps, dweight, dbias);
    if (p.width == 4) convolve_back<4>(tile, now, g, result, steps, dweight, dbias);
    for (int k = 0; k < kMaxWidth - 1; ++k) after[k] = g[k];
    store_tile(result, dx, tile.row, first, tile.rows, steps);
  }
  for (int r = 0; r < tile.rows; ++r) {
    float* to = call.sums + (tile.batch * p.dim + tile.row + r) * (p.width + 1);
    for (int64_t k = 0; k < p.width; ++k) to[k] = dweight[k][r];
    to[p.width] = dbias[r];
  }
  if (call.streams) finish_streams();
}

static void add_conv_sums(const CausalConv1dBackwardParams& b, const float* sums) {
  const int64_t width = b.forward.width, dim = b.forward.dim;
  for (int64_t row = 0; row < dim; ++row) {
    for (int64_t k = 0; k <= width; ++k) {
      float sum = 0;
      for (int64_t i = 0; i < b.forward.batch; ++i) sum += sums[(i * dim + row) * (width + 1) + k];
      if (k < width)
        b.dweight[row * width + k] = sum;
      else if (b.dbias != nullptr)
        b.dbias[row] = sum;
    }
  }
}

static MambaStatus causal_conv1d_bwd(const CausalConv1dBackwardParams& b, int32_t threads) {
  const CausalConv1dParams& p = b.forward;
  const int64_t items = p.batch * p.dim * p.length, tiles = (p.dim + kLanes - 1) / kLanes;
  float* sums = static_cast<float*>(allocate(p.batch * p.dim * (p.width + 1) * 4));
  if (sums == nullptr) return MAMBA_OUT_OF_MEMORY;
  ConvCall call{nullptr, &b, nullptr, tiles, sums, may_stream(b.dx, p.dtype, items)};
  run_tasks(p.batch * tiles, conv_threads(threads, items), conv_backward_task, &call);
  add_conv_sums(b, sums);
  release(sums);
  return MAMBA_OK;
}

// --- update ---------------------------------------------------------------------------------------------------------

// Shifts the tile's rows of conv_state left by `length` and appends the new inputs, bit for bit.
template <typename Raw>
static void shift_state(const CausalConv1dUpdateParams& p, const ConvTile& tile) {
  const Raw* x = static_cast<const Raw*>(p.x.data) + tile.batch * p.x.stride[0] + tile.row * p.x.stride[1];
  Raw* state = static_cast<Raw*>(p.conv_state.data) + tile.batch * p.conv_state.stride[0] +
               tile.row * p.conv_state.stride[1];
  const int64_t kept = p.state_length > p.length ? p.state_length - p.length : 0;
  const int64_t step = p.conv_state.stride[2];
  for (int r = 0; r < tile.rows; ++r, x += p.x.stride[1], state += p.conv_state.stride[1]) {
    for (int64_t i = 0; i < kept; ++i) state[i * step] = state[(i + p.length) * step];
    for (int64_t i = kept; i < p.state_length; ++i)
      state[i * step] = x[(i + p.length - p.state_length) * p.x.stride[2]];
  }
}

static void conv_update_task(void* context, int64_t index, int32_t) {
  const ConvCall& call = *static_cast<const ConvCall*>(context);
  const CausalConv1dUpdateParams& p = *call.update;
  const ConvTile tile = conv_tile(p, call.tiles, index);
  const Plane x = plane_of(p.x, tile.batch, p.dtype), out = plane_of(p.out, tile.batch, p.dtype);
  const Plane state = plane_of(p.conv_state, tile.batch, p.dtype);
  const int history = static_cast<int>(p.width - 1);
  Vec inputs[kMaxWidth - 1 + kConvSteps] = {}, outputs[kConvSteps];
  Vec* now = inputs + kMaxWidth - 1;
  load_tile(now - history, state, tile.row, p.state_length - history, tile.rows, history);
  p.dtype == MAMBA_FLOAT32 ? shift_state<uint32_t>(p, tile) : shift_state<uint16_t>(p, tile);
  for (int64_t first = 0; first < p.length; first += kConvSteps) {
    const int steps = static_cast<int>(p.length - first < kConvSteps ? p.length - first : kConvSteps);
    load_tile(now, x, tile.row, first, tile.rows, steps);
    convolve_any(tile, p.width, now, outputs, steps, p.silu != 0);
    store_tile(outputs, out, tile.row, first, tile.rows, steps);
    for (int k = 0; k < kMaxWidth - 1; ++k) inputs[k] = inputs[kConvSteps + k];
  }
}

static MambaStatus causal_conv1d_update(const CausalConv1dUpdateParams& p, int32_t threads) {
  const int64_t items = p.batch * p.dim * (p.length + p.state_length), tiles = (p.dim + kLanes - 1) / kLanes;
  ConvCall call{nullptr, nullptr, &p, tiles, nullptr, false};
  run_tasks(p.batch * tiles, conv_threads(threads, items), conv_update_task, &call);
  return MAMBA_OK;
}

}  // namespace MAMBA_ISA
}  // namespace mamba
