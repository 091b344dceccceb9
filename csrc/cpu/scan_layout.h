// How a selective scan is cut up: tiles of kLanes channels of one group, chunks of kChunk steps. All of it follows from
// the shape alone, so results do not depend on the number of threads.
#pragma once
#include "tiles.h"
#include "variant.h"

namespace mamba {
namespace MAMBA_ISA {

// States that are advanced together, in registers.
constexpr int kGroup = 4;

struct ScanLayout {
  int64_t batch, dim, length, state, groups;
  int64_t group_rows;   // channels of a group
  int64_t group_tiles;  // tiles of a group; the last may hold fewer than kLanes channels
  int64_t chunks;
  int64_t per_checkpoint;  // chunks from one checkpoint to the next
};

struct ScanTile {
  int64_t batch, group, row;  // row: the first channel, within dim
  int rows;
};

MAMBA_INLINE int64_t divided_up(int64_t value, int64_t by) { return (value + by - 1) / by; }
MAMBA_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
MAMBA_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

MAMBA_INLINE ScanLayout scan_layout(const SelectiveScanParams& p) {
  const int64_t rows = p.dim / p.groups;
  return ScanLayout{p.batch, p.dim, p.length, p.state, p.groups, rows, divided_up(rows, kLanes),
                    divided_up(p.length, kChunk), chunks_per_checkpoint(p.state)};
}

// `index` counts (batch, group, tile of the group).
MAMBA_INLINE ScanTile scan_tile(const ScanLayout& s, int64_t index) {
  const int64_t tile = index % s.group_tiles, of_group = index / s.group_tiles;
  const int64_t group = of_group % s.groups;
  return ScanTile{of_group / s.groups, group, group * s.group_rows + tile * kLanes,
                  static_cast<int>(smaller(kLanes, s.group_rows - tile * kLanes))};
}

// Where variable B and C lie once they are packed: [batch][group][length][B or C][state], so that a step reads one
// short run of memory and broadcasts from it.
MAMBA_INLINE const float* packed_at(const float* packed, const ScanLayout& s, const ScanTile& tile, int64_t step) {
  return packed + ((tile.batch * s.groups + tile.group) * s.length + step) * 2 * s.state;
}

// Checkpoints: [batch][tile][checkpoint][state][row of the tile], the states before every per_checkpoint-th chunk.
MAMBA_INLINE float* checkpoint_at(float* checkpoints, const ScanLayout& s, const ScanTile& tile, int64_t chunk) {
  const int64_t count = divided_up(s.chunks, s.per_checkpoint), index = chunk / s.per_checkpoint;
  return checkpoints + ((tile.batch * s.dim + tile.row) * count + index * tile.rows) * s.state;
}

// --- packing ----------------------------------------------------------------------------------------------------

constexpr int kPackSteps = 64;

struct PackCall {
  const SelectiveScanParams* params;
  ScanLayout layout;
  float* packed;
};

static void pack_block(const PackCall& call, const MambaView& view, int64_t of_group, int64_t first, int which) {
  const ScanLayout& s = call.layout;
  const int steps = static_cast<int>(smaller(kPackSteps, s.length - first));
  const int64_t batch = of_group / s.groups, group = of_group % s.groups;
  const int64_t offset = (batch * view.stride[0] + group * view.stride[1]) * item_size(call.params->dtype);
  const Plane plane{static_cast<char*>(view.data) + offset, view.stride[2], view.stride[3], call.params->dtype, false};
  float* to = call.packed + ((of_group * s.length + first) * 2 + which) * s.state;
  for (int64_t n = 0; n < s.state; n += kLanes) {
    const int rows = static_cast<int>(smaller(kLanes, s.state - n));
    Vec tile[kPackSteps];
    load_tile(tile, plane, n, first, rows, steps);
    for (int i = 0; i < steps; ++i) memcpy(to + 2 * s.state * i + n, &tile[i], rows * sizeof(float));
  }
}

static void pack_task(void* context, int64_t index, int32_t) {
  const PackCall& call = *static_cast<const PackCall*>(context);
  const int64_t blocks = divided_up(call.layout.length, kPackSteps);
  const int64_t of_group = index / blocks, first = index % blocks * kPackSteps;
  if (call.params->variable_B) pack_block(call, call.params->B, of_group, first, 0);
  if (call.params->variable_C) pack_block(call, call.params->C, of_group, first, 1);
}

MAMBA_INLINE int64_t packed_size(const SelectiveScanParams& p) {
  return p.variable_B || p.variable_C ? p.batch * p.groups * p.length * 2 * p.state : 0;
}

MAMBA_INLINE void pack(const SelectiveScanParams& p, const ScanLayout& s, float* packed, int32_t threads) {
  if (packed_size(p) == 0) return;
  PackCall call{&p, s, packed};
  const int32_t useful = useful_threads(threads, packed_size(p), 1 << 18);
  run_tasks(s.batch * s.groups * divided_up(s.length, kPackSteps), useful, pack_task, &call);
}

// --- parameters of a tile's channels, one lane each ---------------------------------------------------------------

// (dim, state) float32: one vector per state.
MAMBA_INLINE void load_per_state(Vec* to, const MambaView& view, const ScanLayout& s, const ScanTile& tile) {
  const float* from = static_cast<const float*>(view.data) + tile.row * view.stride[0];
  for (int64_t n = 0; n < s.state; ++n) {
    Vec v{};
    for (int r = 0; r < tile.rows; ++r) v[r] = from[r * view.stride[0] + n * view.stride[1]];
    to[n] = v;
  }
}

// (batch, dim, state) float32; zeros where the view is absent.
MAMBA_INLINE void load_states(Vec* to, const MambaView& view, const ScanLayout& s, const ScanTile& tile) {
  if (view.data == nullptr) {
    for (int64_t n = 0; n < s.state; ++n) to[n] = Vec{};
    return;
  }
  MambaView of_batch = view;
  of_batch.data = static_cast<float*>(view.data) + tile.batch * view.stride[0];
  of_batch.stride[0] = view.stride[1];
  of_batch.stride[1] = view.stride[2];
  load_per_state(to, of_batch, s, tile);
}

// (dim) float32; zeros where the view is absent.
MAMBA_INLINE Vec load_per_row(const MambaView& view, const ScanTile& tile) {
  Vec v{};
  if (view.data != nullptr)
    for (int r = 0; r < tile.rows; ++r) v[r] = static_cast<const float*>(view.data)[(tile.row + r) * view.stride[0]];
  return v;
}

MAMBA_INLINE void save_checkpoint(float* to, const Vec* h, int64_t state, int rows) {
  for (int64_t n = 0; n < state; ++n) {
    if (rows == kLanes)
      store(to + n * kLanes, h[n]);
    else
      for (int r = 0; r < rows; ++r) to[n * rows + r] = h[n][r];
  }
}

MAMBA_INLINE void load_checkpoint(Vec* h, const float* from, int64_t state, int rows) {
  for (int64_t n = 0; n < state; ++n) {
    h[n] = rows == kLanes ? load(from + n * kLanes) : Vec{};
    for (int r = 0; rows < kLanes && r < rows; ++r) h[n][r] = from[n * rows + r];
  }
}

}  // namespace MAMBA_ISA
}  // namespace mamba
