// What the selective scan's kernels receive, by value, from their launcher. Plain C++: both compilers read it.
#pragma once
#include "common/items.h"
#include "mamba_kernels.h"

namespace mamba {

// Tensors that kernels may access 16 bytes at a time; bits of `vector`.
enum ScanVector : uint32_t {
  kVectorU = 1,
  kVectorDelta = 2,
  kVectorZ = 4,
  kVectorB = 8,
  kVectorC = 16,
  kVectorOut = 32,
  kVectorDout = 64,
  kVectorDu = 128,
  kVectorDdelta = 256,
  kVectorDz = 512,
};

// A block scans one (batch, channel) row in `chunks` chunks of blockDim.x * kItems steps. Checkpoints are the states at
// the end of all chunks but the last: (batch, dim, chunks - 1, state).
struct ScanForward {
  SelectiveScanParams call;
  int64_t chunks;
  uint32_t vector;
};

struct ScanBackward {
  SelectiveScanBackwardParams call;
  int64_t chunks;
  uint32_t vector;
};

// float32 elements of dynamic shared memory. Forward: the state that enters a chunk, double-buffered. Backward: the
// same for the gradient, the block's sums of dA and of constant dB and dC, and each warp's padded transpose.
constexpr int kTransposeRow = kItems + 1;
constexpr int64_t scan_forward_shared(int64_t state) { return 2 * state; }
constexpr int64_t scan_backward_shared(int64_t state, int64_t threads) { return 5 * state + threads * kTransposeRow; }

}  // namespace mamba
