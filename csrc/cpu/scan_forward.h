// Selective scan, forward. A tile's kLanes channels advance together, one step after the other; kGroup states at a time
// stay in registers while a chunk's steps pass.
#pragma once
#include "scan_layout.h"

namespace mamba {
namespace MAMBA_ISA {

constexpr int kForwardSteps = 64;

// One vector more than a tile needs: arrays of exactly 4 KiB would all fall on the same cache sets.
struct ForwardScratch {
  Vec dt[kForwardSteps + 1], dtu[kForwardSteps + 1], y[kForwardSteps + 1], z[kForwardSteps + 1];
  Vec A[kMaxState], h[kMaxState], B[kMaxState], C[kMaxState];  // A in units of log 2; B, C where they are constant
};

struct ForwardCall {
  const SelectiveScanParams* params;
  ScanLayout layout;
  const float* packed;
  ForwardScratch* scratch;  // one per worker
  bool streams;
};

// States n .. n + count - 1 through `steps` steps; y gains their part of the output.
template <int count, bool variable_B, bool variable_C>
MAMBA_INLINE void advance(ForwardScratch& w, int64_t n, int64_t state, int from, int steps, const float* packed) {
  Vec h[count];
  MAMBA_UNROLL
  for (int g = 0; g < count; ++g) h[g] = w.h[n + g];
  for (int i = from; i < from + steps; ++i) {
    const float* b = packed + static_cast<int64_t>(i) * 2 * state + n;
    const Vec dt = w.dt[i], dtu = w.dtu[i];
    Vec y = w.y[i];
    MAMBA_UNROLL
    for (int g = 0; g < count; ++g) {
      const Vec decay = exp2(dt * w.A[n + g]);
      const Vec B = variable_B ? splat(b[g]) : w.B[n + g];
      const Vec C = variable_C ? splat(b[state + g]) : w.C[n + g];
      h[g] = decay * h[g] + dtu * B;
      y = h[g] * C + y;
    }
    w.y[i] = y;
  }
  MAMBA_UNROLL
  for (int g = 0; g < count; ++g) w.h[n + g] = h[g];
}

template <bool variable_B, bool variable_C>
MAMBA_INLINE void advance_all(ForwardScratch& w, int64_t state, int from, int steps, const float* packed) {
  int64_t n = 0;
  for (; n + kGroup <= state; n += kGroup) advance<kGroup, variable_B, variable_C>(w, n, state, from, steps, packed);
  for (; n < state; ++n) advance<1, variable_B, variable_C>(w, n, state, from, steps, packed);
}

// dt, dt * u and D * u of the steps that have just been loaded (delta in w.dt, u in w.dtu).
MAMBA_INLINE void prepare_steps(ForwardScratch& w, int steps, bool softplussed, Vec bias, bool has_D, Vec D) {
  for (int i = 0; i < steps; ++i) {
    const Vec u = w.dtu[i];
    const Vec dt = w.dt[i] + bias;
    w.dt[i] = softplussed ? softplus(dt) : dt;
    w.dtu[i] = w.dt[i] * u;
    w.y[i] = has_D ? D * u : Vec{};
  }
}

template <bool variable_B, bool variable_C>
MAMBA_NOINLINE void scan_forward_tile(const ForwardCall& call, const ScanTile& tile, ForwardScratch& w) {
  const SelectiveScanParams& p = *call.params;
  const ScanLayout& s = call.layout;
  const Plane u = plane_of(p.u, tile.batch, p.dtype), delta = plane_of(p.delta, tile.batch, p.dtype);
  const Plane z = plane_of(p.z, tile.batch, p.dtype);
  Plane out = plane_of(p.out, tile.batch, p.dtype);
  out.streams = call.streams;
  load_per_state(w.A, p.A, s, tile);
  for (int64_t n = 0; n < s.state; ++n) w.A[n] *= kLog2E;
  load_states(w.h, p.initial_state, s, tile);
  if (!variable_B) load_per_state(w.B, p.B, s, tile);
  if (!variable_C) load_per_state(w.C, p.C, s, tile);
  const Vec bias = load_per_row(p.delta_bias, tile), D = load_per_row(p.D, tile);
  const bool has_D = p.D.data != nullptr, has_z = p.z.data != nullptr;

  for (int64_t first = 0; first < s.length; first += kForwardSteps) {
    const int steps = static_cast<int>(smaller(kForwardSteps, s.length - first));
    load_tile(w.dtu, u, tile.row, first, tile.rows, steps);
    load_tile(w.dt, delta, tile.row, first, tile.rows, steps);
    prepare_steps(w, steps, p.delta_softplus != 0, bias, has_D, D);
    const int64_t next = first + kForwardSteps;
    const int ahead = static_cast<int>(smaller(kForwardSteps, s.length - next));
    if (ahead > 0) {
      prefetch_tile(u, tile.row, next, tile.rows, ahead);
      prefetch_tile(delta, tile.row, next, tile.rows, ahead);
    }
    if (has_z) prefetch_tile(z, tile.row, first, tile.rows, steps);
    const float* packed = packed_at(call.packed, s, tile, first);
    if (p.checkpoints == nullptr) {
      advance_all<variable_B, variable_C>(w, s.state, 0, steps, packed);
    } else {
      for (int from = 0; from < steps; from += kChunk) {
        const int64_t index = (first + from) / kChunk;
        if (index % s.per_checkpoint == 0)
          save_checkpoint(checkpoint_at(p.checkpoints, s, tile, index), w.h, s.state, tile.rows);
        const int chunk = static_cast<int>(smaller(kChunk, steps - from));
        advance_all<variable_B, variable_C>(w, s.state, from, chunk, packed);
      }
    }
    if (has_z) {
      load_tile(w.z, z, tile.row, first, tile.rows, steps);
      for (int i = 0; i < steps; ++i) w.y[i] *= w.z[i] * sigmoid(w.z[i]);
    }
    store_tile(w.y, out, tile.row, first, tile.rows, steps);
  }
  if (p.last_state.data == nullptr) return;
  float* last = static_cast<float*>(p.last_state.data) + tile.batch * p.last_state.stride[0];
  for (int64_t n = 0; n < s.state; ++n)
    for (int r = 0; r < tile.rows; ++r)
      last[(tile.row + r) * p.last_state.stride[1] + n * p.last_state.stride[2]] = w.h[n][r];
}

static void scan_forward_task(void* context, int64_t index, int32_t worker) {
  const ForwardCall& call = *static_cast<const ForwardCall*>(context);
  const ScanTile tile = scan_tile(call.layout, index);
  ForwardScratch& w = call.scratch[worker];
  if (call.params->variable_B)
    call.params->variable_C ? scan_forward_tile<true, true>(call, tile, w)
                            : scan_forward_tile<true, false>(call, tile, w);
  else
    call.params->variable_C ? scan_forward_tile<false, true>(call, tile, w)
                            : scan_forward_tile<false, false>(call, tile, w);
  if (call.streams) finish_streams();
}

static MambaStatus selective_scan_fwd(const SelectiveScanParams& p, int32_t threads) {
  const ScanLayout s = scan_layout(p);
  const int64_t tiles = s.batch * s.groups * s.group_tiles;
  const int64_t work = tiles * s.length * kLanes * s.state;
  const int32_t useful = static_cast<int32_t>(smaller(tiles, useful_threads(threads, work, 1 << 19)));
  const int64_t packed_bytes = divided_up(packed_size(p) * 4, 64) * 64;
  char* memory = static_cast<char*>(allocate(packed_bytes + useful * static_cast<int64_t>(sizeof(ForwardScratch))));
  if (memory == nullptr) return MAMBA_OUT_OF_MEMORY;
  float* packed = reinterpret_cast<float*>(memory);
  pack(p, s, packed, threads);
  ForwardCall call{&p, s, packed, reinterpret_cast<ForwardScratch*>(memory + packed_bytes),
                   may_stream(p.out, p.dtype, s.batch * s.dim * s.length)};
  run_tasks(tiles, useful, scan_forward_task, &call);
  release(memory);
  return MAMBA_OK;
}

}  // namespace MAMBA_ISA
}  // namespace mamba
