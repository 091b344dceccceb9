// Sizes that a kernel and its launcher must agree on. Plain C++: both compilers read it.
#pragma once
#include "mamba_kernels.h"

namespace mamba {

constexpr int kItems = 8;  // consecutive time steps of one thread: one 16-byte access of half precision
constexpr int kWarp = 32;
constexpr int kMaxThreads = 128;  // leaves the backward scan, the hungriest kernel, its registers without a spill
constexpr int kMaxWarps = kMaxThreads / kWarp;

}  // namespace mamba
