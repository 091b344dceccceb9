// Selective scan, backward. From the last chunk to the first: the states of a chunk are computed again from its
// checkpoint, then a sweep back in time carries g = dL/dh. Sums over channels (dB, dC) go to a fixed number of partial
// sums that are added in a fixed order; sums over time (dA, dD, ...) stay in the lanes of the tile's channels.
#pragma once
#include "scan_layout.h"

namespace mamba {
namespace MAMBA_ISA {

struct BackwardScratch {
  // A chunk's decays and states, kGroup states at a time; the sweep leaves the terms of dB and dC in their places.
  Vec decay[kChunk][kGroup];
  Vec h[kChunk + 1][kGroup];
  // Per step; the odd size keeps the arrays off each other's cache sets.
  Vec u[kChunk + 1], dt[kChunk + 1], ddt[kChunk + 1], dtu[kChunk + 1], y[kChunk + 1], z[kChunk + 1];
  Vec dy[kChunk + 1], dz[kChunk + 1], sum_A[kChunk + 1], sum_B[kChunk + 1];
  // The states before each chunk since a checkpoint.
  Vec before[kMostChunks][kMaxState];
  // Per state. scaled_A is A in units of log 2; B, C, dB, dC serve where they are constant.
  Vec A[kMaxState], scaled_A[kMaxState], g[kMaxState], dA[kMaxState];
  Vec B[kMaxState], C[kMaxState], dB[kMaxState], dC[kMaxState];
};

struct BackwardCall {
  const SelectiveScanBackwardParams* params;
  ScanLayout layout;
  int64_t parts;  // of the tiles of a group; each part has its own sums over channels
  const float* packed;
  float* partial;  // [batch][group][part][chunk][B or C][state][kChunk]
  float* sums;     // [batch][dim][sums_per_row]
  int64_t sums_per_row;
  BackwardScratch* scratch;
  bool streams_du, streams_ddelta, streams_dz;
};

// --- one chunk -----------------------------------------------------------------------------------------------------

struct ChunkCall {
  int64_t n, state;
  int steps;
  const float* packed;
  const Vec* before;
  int rows;
};

// Only the states, from one chunk to the next.
template <int count, bool variable_B>
MAMBA_INLINE void skip_chunk(const BackwardScratch& w, const ChunkCall& c, Vec* after) {
  Vec h[count];
  MAMBA_UNROLL
  for (int g = 0; g < count; ++g) h[g] = c.before[c.n + g];
  for (int i = 0; i < c.steps; ++i) {
    const float* b = c.packed + static_cast<int64_t>(i) * 2 * c.state + c.n;
    const Vec dt = w.dt[i], dtu = w.dtu[i];
    MAMBA_UNROLL
    for (int g = 0; g < count; ++g) {
      const Vec B = variable_B ? splat(b[g]) : w.B[c.n + g];
      h[g] = exp2(dt * w.scaled_A[c.n + g]) * h[g] + dtu * B;
    }
  }
  MAMBA_UNROLL
  for (int g = 0; g < count; ++g) after[c.n + g] = h[g];
}

template <int count, bool variable_B, bool variable_C>
MAMBA_INLINE void recompute_states(BackwardScratch& w, const ChunkCall& c) {
  Vec h[count];
  MAMBA_UNROLL
  for (int g = 0; g < count; ++g) w.h[0][g] = h[g] = c.before[c.n + g];
  for (int i = 0; i < c.steps; ++i) {
    const float* b = c.packed + static_cast<int64_t>(i) * 2 * c.state + c.n;
    const Vec dt = w.dt[i], dtu = w.dtu[i];
    Vec y = w.y[i];
    MAMBA_UNROLL
    for (int g = 0; g < count; ++g) {
      const Vec decay = exp2(dt * w.scaled_A[c.n + g]);
      const Vec B = variable_B ? splat(b[g]) : w.B[c.n + g];
      const Vec C = variable_C ? splat(b[c.state + g]) : w.C[c.n + g];
      w.decay[i][g] = decay;
      h[g] = decay * h[g] + dtu * B;
      w.h[i + 1][g] = h[g];
      y = h[g] * C + y;
    }
    w.y[i] = y;
  }
}

template <int count, bool variable_B, bool variable_C>
MAMBA_INLINE void sweep_back(BackwardScratch& w, const ChunkCall& c) {
  Vec carried[count], dA[count], dB[count], dC[count];
  MAMBA_UNROLL
  for (int g = 0; g < count; ++g) {
    carried[g] = w.g[c.n + g];
    dA[g] = w.dA[c.n + g];
    dB[g] = variable_B ? Vec{} : w.dB[c.n + g];
    dC[g] = variable_C ? Vec{} : w.dC[c.n + g];
  }
  for (int i = c.steps - 1; i >= 0; --i) {
    const float* b = c.packed + static_cast<int64_t>(i) * 2 * c.state + c.n;
    const Vec dt = w.dt[i], dtu = w.dtu[i], dy = w.dy[i];
    Vec sum_A = w.sum_A[i], sum_B = w.sum_B[i];
    MAMBA_UNROLL
    for (int g = 0; g < count; ++g) {
      const Vec B = variable_B ? splat(b[g]) : w.B[c.n + g];
      const Vec C = variable_C ? splat(b[c.state + g]) : w.C[c.n + g];
      const Vec dh = C * dy + carried[g];
      const Vec decay = w.decay[i][g], h = w.h[i + 1][g];
      if (variable_B)
        w.decay[i][g] = dh * dtu;
      else
        dB[g] = dh * dtu + dB[g];
      if (variable_C)
        w.h[i + 1][g] = h * dy;
      else
        dC[g] = h * dy + dC[g];
      sum_B = dh * B + sum_B;
      carried[g] = dh * decay;
      const Vec through_decay = carried[g] * w.h[i][g];
      sum_A = through_decay * w.A[c.n + g] + sum_A;
      dA[g] = through_decay * dt + dA[g];
    }
    w.sum_A[i] = sum_A;
    w.sum_B[i] = sum_B;
  }
  MAMBA_UNROLL
  for (int g = 0; g < count; ++g) {
    w.g[c.n + g] = carried[g];
    w.dA[c.n + g] = dA[g];
    if (!variable_B) w.dB[c.n + g] = dB[g];
    if (!variable_C) w.dC[c.n + g] = dC[g];
  }
}

// Sums the lanes of terms[step][state] into to[state][step].
template <int count>
MAMBA_INLINE void sum_channels(Vec (*terms)[kGroup], int steps, int rows, bool accumulate, float* to) {
  if (rows < kLanes) {  // an infinite B or C makes NaN of the zeros in the lanes beyond the last channel
    IntVec mask{};
    for (int r = 0; r < rows; ++r) mask[r] = -1;
    for (int i = 0; i < steps; ++i)
      for (int g = 0; g < count; ++g) terms[i][g] = as_floats(bits(terms[i][g]) & mask);
  }
  for (int g = 0; g < count; ++g) {
    float* sums = to + g * kChunk;
    if (steps < kChunk) {
      for (int i = 0; i < steps; ++i) sums[i] = (accumulate ? sums[i] : 0.0f) + sum_lanes(terms[i][g]);
      continue;
    }
    for (int first = 0; first < kChunk; first += kLanes) {
      Vec square[kLanes];
      MAMBA_UNROLL
      for (int i = 0; i < kLanes; ++i) square[i] = terms[first + i][g];
      const Vec sum = sum_lanes_of_each(square);
      store(sums + first, accumulate ? load(sums + first) + sum : sum);
    }
  }
}

template <int count, bool variable_B, bool variable_C>
MAMBA_INLINE void scan_back(BackwardScratch& w, const ChunkCall& c, bool accumulate, float* partial) {
  recompute_states<count, variable_B, variable_C>(w, c);
  sweep_back<count, variable_B, variable_C>(w, c);
  float* dB = partial + c.n * kChunk;
  if (variable_B) sum_channels<count>(w.decay, c.steps, c.rows, accumulate, dB);
  if (variable_C) sum_channels<count>(w.h + 1, c.steps, c.rows, accumulate, dB + c.state * kChunk);
}

// --- one tile ------------------------------------------------------------------------------------------------------

struct TilePlanes {
  Plane u, delta, z, dout, du, ddelta, dz;
};

static TilePlanes tile_planes(const BackwardCall& call, const ScanTile& tile) {
  const SelectiveScanBackwardParams& p = *call.params;
  const int32_t dtype = p.forward.dtype;
  TilePlanes planes{plane_of(p.forward.u, tile.batch, dtype), plane_of(p.forward.delta, tile.batch, dtype),
                    plane_of(p.forward.z, tile.batch, dtype), plane_of(p.dout, tile.batch, dtype),
                    plane_of(p.du, tile.batch, dtype),        plane_of(p.ddelta, tile.batch, dtype),
                    plane_of(p.dz, tile.batch, dtype)};
  planes.du.streams = call.streams_du;
  planes.ddelta.streams = call.streams_ddelta;
  planes.dz.streams = call.streams_dz;
  return planes;
}

// Derivatives of the step's pointwise parts: ddt = d softplus, and through the gate y * silu(z).
MAMBA_INLINE void prepare_chunk(BackwardScratch& w, int steps, bool softplussed, bool has_z, Vec bias, bool has_D,
                                Vec D) {
  for (int i = 0; i < steps; ++i) {
    const Vec dt = w.dt[i] + bias;
    w.ddt[i] = softplussed ? sigmoid(dt) : splat(1.0f);
    w.dt[i] = softplussed ? softplus(dt) : dt;
    w.dtu[i] = w.dt[i] * w.u[i];
    w.y[i] = has_D ? D * w.u[i] : Vec{};
    w.sum_A[i] = w.sum_B[i] = Vec{};
    if (has_z) {
      const Vec z = w.z[i], gate = sigmoid(z), dout = w.dy[i];
      w.dy[i] = dout * (z * gate);
      w.dz[i] = dout * gate * (1.0f + z * (1.0f - gate));
    }
  }
}

MAMBA_INLINE void load_chunk(BackwardScratch& w, const TilePlanes& planes, const ScanTile& tile, int64_t first,
                             int steps) {
  load_tile(w.u, planes.u, tile.row, first, tile.rows, steps);
  load_tile(w.dt, planes.delta, tile.row, first, tile.rows, steps);
  load_tile(w.dy, planes.dout, tile.row, first, tile.rows, steps);
  if (planes.z.data != nullptr) load_tile(w.z, planes.z, tile.row, first, tile.rows, steps);
  if (first == 0) return;
  const int64_t before = first - kChunk;
  prefetch_tile(planes.u, tile.row, before, tile.rows, kChunk);
  prefetch_tile(planes.delta, tile.row, before, tile.rows, kChunk);
  prefetch_tile(planes.dout, tile.row, before, tile.rows, kChunk);
  if (planes.z.data != nullptr) prefetch_tile(planes.z, tile.row, before, tile.rows, kChunk);
}

MAMBA_INLINE void save_sums(const BackwardCall& call, const ScanTile& tile, const BackwardScratch& w, Vec dD,
                            Vec dbias) {
  const SelectiveScanBackwardParams& p = *call.params;
  const int64_t state = call.layout.state;
  for (int r = 0; r < tile.rows; ++r) {
    const int64_t row = tile.batch * call.layout.dim + tile.row + r;
    float* sums = call.sums + row * call.sums_per_row;
    *sums++ = dD[r];
    *sums++ = dbias[r];
    for (int64_t n = 0; n < state; ++n) *sums++ = w.dA[n][r];
    for (int64_t n = 0; n < state && !p.forward.variable_B; ++n) *sums++ = w.dB[n][r];
    for (int64_t n = 0; n < state && !p.forward.variable_C; ++n) *sums++ = w.dC[n][r];
    for (int64_t n = 0; n < state && p.dinitial_state != nullptr; ++n) p.dinitial_state[row * state + n] = w.g[n][r];
  }
}

// w.before of every chunk up to `last`, from the checkpoint before it.
template <bool variable_B>
MAMBA_INLINE void restore_states(const BackwardCall& call, const ScanTile& tile, const TilePlanes& planes,
                                 BackwardScratch& w, int64_t last, Vec bias) {
  const SelectiveScanParams& p = call.params->forward;
  const ScanLayout& s = call.layout;
  const int64_t start = last / s.per_checkpoint * s.per_checkpoint;
  load_checkpoint(w.before[0], checkpoint_at(p.checkpoints, s, tile, start), s.state, tile.rows);
  for (int64_t i = 0; start + i < last; ++i) {
    const int64_t first = (start + i) * kChunk;
    load_tile(w.u, planes.u, tile.row, first, tile.rows, kChunk);
    load_tile(w.dt, planes.delta, tile.row, first, tile.rows, kChunk);
    for (int k = 0; k < kChunk; ++k) {
      w.dt[k] = p.delta_softplus ? softplus(w.dt[k] + bias) : w.dt[k] + bias;
      w.dtu[k] = w.dt[k] * w.u[k];
    }
    ChunkCall c{0, s.state, kChunk, packed_at(call.packed, s, tile, first), w.before[i], tile.rows};
    for (; c.n + kGroup <= s.state; c.n += kGroup) skip_chunk<kGroup, variable_B>(w, c, w.before[i + 1]);
    for (; c.n < s.state; ++c.n) skip_chunk<1, variable_B>(w, c, w.before[i + 1]);
  }
}

template <bool variable_B, bool variable_C>
MAMBA_NOINLINE void scan_backward_tile(const BackwardCall& call, const ScanTile& tile, BackwardScratch& w,
                                       bool accumulate, float* partial) {
  const SelectiveScanParams& p = call.params->forward;
  const ScanLayout& s = call.layout;
  const TilePlanes planes = tile_planes(call, tile);
  load_per_state(w.A, p.A, s, tile);
  load_states(w.g, call.params->dlast_state, s, tile);
  if (!variable_B) load_per_state(w.B, p.B, s, tile);
  if (!variable_C) load_per_state(w.C, p.C, s, tile);
  for (int64_t n = 0; n < s.state; ++n) {
    w.scaled_A[n] = w.A[n] * kLog2E;
    w.dA[n] = w.dB[n] = w.dC[n] = Vec{};
  }
  const Vec bias = load_per_row(p.delta_bias, tile), D = load_per_row(p.D, tile);
  const bool has_D = p.D.data != nullptr, has_z = p.z.data != nullptr;
  Vec dD{}, dbias{};

  for (int64_t chunk = s.chunks - 1; chunk >= 0; --chunk) {
    const int64_t first = chunk * kChunk;
    const int steps = static_cast<int>(smaller(kChunk, s.length - first));
    if (chunk == s.chunks - 1 || (chunk + 1) % s.per_checkpoint == 0)
      restore_states<variable_B>(call, tile, planes, w, chunk, bias);
    load_chunk(w, planes, tile, first, steps);
    prepare_chunk(w, steps, p.delta_softplus != 0, has_z, bias, has_D, D);
    ChunkCall c{0, s.state, steps, packed_at(call.packed, s, tile, first),
                w.before[chunk % s.per_checkpoint], tile.rows};
    float* sums = partial + chunk * 2 * s.state * kChunk;
    for (; c.n + kGroup <= s.state; c.n += kGroup) scan_back<kGroup, variable_B, variable_C>(w, c, accumulate, sums);
    for (; c.n < s.state; ++c.n) scan_back<1, variable_B, variable_C>(w, c, accumulate, sums);
    for (int i = 0; i < steps; ++i) {
      if (has_z) w.dz[i] *= w.y[i];
      dD += w.dy[i] * w.u[i];
      const Vec ddelta = (w.sum_A[i] + w.u[i] * w.sum_B[i]) * w.ddt[i];
      dbias += ddelta;
      w.dtu[i] = w.dt[i] * w.sum_B[i] + (has_D ? D * w.dy[i] : Vec{});
      w.dt[i] = ddelta;
    }
    store_tile(w.dtu, planes.du, tile.row, first, tile.rows, steps);
    store_tile(w.dt, planes.ddelta, tile.row, first, tile.rows, steps);
    if (has_z) store_tile(w.dz, planes.dz, tile.row, first, tile.rows, steps);
  }
  save_sums(call, tile, w, dD, dbias);
}

// --- a call --------------------------------------------------------------------------------------------------------

// The part `index` = (batch, group, part): its tiles one after the other.
static void scan_backward_task(void* context, int64_t index, int32_t worker) {
  const BackwardCall& call = *static_cast<const BackwardCall*>(context);
  const ScanLayout& s = call.layout;
  const SelectiveScanParams& p = call.params->forward;
  BackwardScratch& w = call.scratch[worker];
  float* partial = call.partial + index * s.chunks * 2 * s.state * kChunk;
  const int64_t of_group = index / call.parts, part = index % call.parts;
  const int64_t begin = s.group_tiles * part / call.parts, end = s.group_tiles * (part + 1) / call.parts;
  for (int64_t i = begin; i < end; ++i) {
    const ScanTile tile = scan_tile(s, of_group * s.group_tiles + i);
    const bool accumulate = i > begin;
    if (p.variable_B)
      p.variable_C ? scan_backward_tile<true, true>(call, tile, w, accumulate, partial)
                   : scan_backward_tile<true, false>(call, tile, w, accumulate, partial);
    else
      p.variable_C ? scan_backward_tile<false, true>(call, tile, w, accumulate, partial)
                   : scan_backward_tile<false, false>(call, tile, w, accumulate, partial);
  }
  finish_streams();
}

// Adds the parts of one chunk of one group.
static void add_parts_task(void* context, int64_t index, int32_t) {
  const BackwardCall& call = *static_cast<const BackwardCall*>(context);
  const ScanLayout& s = call.layout;
  const int64_t of_group = index / s.chunks, chunk = index % s.chunks, first = chunk * kChunk;
  const int steps = static_cast<int>(smaller(kChunk, s.length - first));
  const int64_t part_size = s.chunks * 2 * s.state * kChunk;
  for (int which = 0; which < 2; ++which) {
    if (!(which ? call.params->forward.variable_C : call.params->forward.variable_B)) continue;
    float* to = (which ? call.params->dC : call.params->dB) + of_group * s.state * s.length + first;
    const float* from = call.partial + of_group * call.parts * part_size + (chunk * 2 + which) * s.state * kChunk;
    for (int64_t n = 0; n < s.state; ++n) {
      float sums[kChunk] = {};
      for (int64_t part = 0; part < call.parts; ++part)
        for (int i = 0; i < kChunk; ++i) sums[i] += from[part * part_size + n * kChunk + i];
      memcpy(to + n * s.length, sums, steps * sizeof(float));
    }
  }
}

// Adds the batch entries of one channel.
static void add_batches_task(void* context, int64_t row, int32_t) {
  const BackwardCall& call = *static_cast<const BackwardCall*>(context);
  const SelectiveScanBackwardParams& p = *call.params;
  const ScanLayout& s = call.layout;
  const float* first = call.sums + row * call.sums_per_row;
  for (int64_t i = 0; i < call.sums_per_row; ++i) {
    float sum = 0;
    for (int64_t b = 0; b < s.batch; ++b) sum += first[b * s.dim * call.sums_per_row + i];
    const int64_t n = (i - 2) % s.state, which = i < 2 ? 0 : (i - 2) / s.state;
    if (i == 0) {
      if (p.dD != nullptr) p.dD[row] = sum;
    } else if (i == 1) {
      if (p.ddelta_bias != nullptr) p.ddelta_bias[row] = sum;
    } else if (which == 0) {
      p.dA[row * s.state + n] = sum;
    } else {
      float* to = which == 1 && !p.forward.variable_B ? p.dB : p.dC;
      to[row * s.state + n] = sum;
    }
  }
}

// Enough parts to keep 16 threads busy, yet no more memory in them than about the size of u in float32.
MAMBA_INLINE int64_t part_count(const ScanLayout& s) {
  const int64_t wanted = divided_up(16, s.batch * s.groups);
  const int64_t affordable = larger(4, s.group_rows / (2 * s.state));
  return smaller(s.group_tiles, smaller(wanted, affordable));
}

static MambaStatus selective_scan_bwd(const SelectiveScanBackwardParams& p, int32_t threads) {
  const SelectiveScanParams& f = p.forward;
  const ScanLayout s = scan_layout(f);
  const int64_t parts = part_count(s), tasks = s.batch * s.groups * parts, items = s.batch * s.dim * s.length;
  const int64_t work = s.batch * s.groups * s.group_tiles * s.length * kLanes * s.state;
  const int32_t useful = static_cast<int32_t>(smaller(tasks, useful_threads(threads, work, 1 << 18)));
  const bool varies = f.variable_B || f.variable_C;
  const int64_t sums_per_row = 2 + s.state * (1 + !f.variable_B + !f.variable_C);
  const int64_t packed_bytes = divided_up(packed_size(f) * 4, 64) * 64;
  const int64_t partial_bytes = varies ? tasks * s.chunks * 2 * s.state * kChunk * 4 : 0;
  const int64_t sums_bytes = divided_up(s.batch * s.dim * sums_per_row * 4, 64) * 64;
  const int64_t scratch_bytes = useful * static_cast<int64_t>(sizeof(BackwardScratch));
  char* memory = static_cast<char*>(allocate(packed_bytes + partial_bytes + sums_bytes + scratch_bytes));
  if (memory == nullptr) return MAMBA_OUT_OF_MEMORY;
  float* packed = reinterpret_cast<float*>(memory);
  float* partial = reinterpret_cast<float*>(memory + packed_bytes);
  float* sums = reinterpret_cast<float*>(memory + packed_bytes + partial_bytes);
  void* scratch = memory + packed_bytes + partial_bytes + sums_bytes;
  BackwardCall call{&p, s, parts, packed, partial, sums, sums_per_row, static_cast<BackwardScratch*>(scratch),
                    may_stream(p.du, f.dtype, items), may_stream(p.ddelta, f.dtype, items),
                    p.dz.data != nullptr && may_stream(p.dz, f.dtype, items)};
  pack(f, s, packed, threads);
  run_tasks(tasks, useful, scan_backward_task, &call);
  if (varies) {
    const int64_t added = tasks * s.chunks * s.state * kChunk;
    run_tasks(s.batch * s.groups * s.chunks, useful_threads(threads, added, 1 << 18), add_parts_task, &call);
  }
  run_tasks(s.dim, useful_threads(threads, s.batch * s.dim * sums_per_row, 1 << 17), add_batches_task, &call);
  release(memory);
  return MAMBA_OK;
}

}  // namespace MAMBA_ISA
}  // namespace mamba
