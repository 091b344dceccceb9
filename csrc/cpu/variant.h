// What dispatch.cpp and the kernels of one instruction set know of each other. Threads, memory and messages live in
// dispatch.cpp, which is compiled for the baseline only: nothing that runs on every CPU may come from a wider object.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "../include/mamba_kernels.h"

namespace mamba {

// The arguments are valid and the batch is not empty.
struct Variant {
  MambaStatus (*selective_scan_fwd)(const SelectiveScanParams&, int32_t threads);
  MambaStatus (*selective_scan_bwd)(const SelectiveScanBackwardParams&, int32_t threads);
  MambaStatus (*causal_conv1d_fwd)(const CausalConv1dParams&, int32_t threads);
  MambaStatus (*causal_conv1d_bwd)(const CausalConv1dBackwardParams&, int32_t threads);
  MambaStatus (*causal_conv1d_update)(const CausalConv1dUpdateParams&, int32_t threads);
};

namespace baseline {
extern const Variant variant;
}
namespace avx2 {
extern const Variant variant;
}
namespace avx512 {
extern const Variant variant;
}

constexpr int kMaxState = 256;
// Steps per tile of the backward pass: with 4 states, its decays and states fill a quarter of a first-level cache.
constexpr int kChunk = 16;
// Chunks between two checkpoints: as many as keep the checkpoints within twice the size of u in float32. What lies
// between is computed again, a tenth of the backward pass for 64 states; up to 32 states nothing is.
constexpr int kMostChunks = kMaxState / 32;
static inline int64_t chunks_per_checkpoint(int64_t state) { return (state + 31) / 32; }

// Calls task(context, i, worker) for each i in [0, count), on at most `threads` threads, 0 <= worker < threads.
void run_tasks(int64_t count, int32_t threads, void (*task)(void* context, int64_t index, int32_t worker),
               void* context);
// As many of `threads` as `work` can keep busy; a thread takes tens of microseconds to start.
int32_t useful_threads(int32_t threads, int64_t work, int64_t work_per_thread);
// Aligned to a cache line; null, with last_error() saying so, where there is not that much.
void* allocate(int64_t bytes);
void release(void* memory);

}  // namespace mamba
