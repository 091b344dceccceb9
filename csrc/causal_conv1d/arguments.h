// What the convolution's kernels receive, by value, from their launcher. Plain C++: both compilers read it.
#pragma once
#include "common/items.h"
#include "mamba_kernels.h"

namespace mamba {

constexpr int kMaxWidth = 4;
constexpr int kHalo = kMaxWidth - 1;  // steps before a tile that reach into it

// Tensors that kernels may access 16 bytes at a time; bits of `vector`.
enum ConvVector : uint32_t { kVectorX = 1, kVectorConvOut = 2, kVectorConvDout = 4, kVectorDx = 8 };

// How (batch, channel, tile of kItems steps) is spread over threads. A row is cut into `segments` of `tiles` tiles.
// Threads of a warp take neighbouring tiles of one row, or, where memory runs along the channels, neighbouring
// channels.
struct ConvSpread {
  int64_t segments, tiles;
  int32_t channels_fast;
};

struct ConvForward {
  CausalConv1dParams call;
  ConvSpread spread;
  uint32_t vector;
};

struct ConvBackward {
  CausalConv1dBackwardParams call;
  ConvSpread spread;
  uint32_t vector;
};

struct ConvUpdate {
  CausalConv1dUpdateParams call;
};

}  // namespace mamba
