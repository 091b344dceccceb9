// What every launcher asks of its arguments, and which tensors allow 16-byte accesses.
#pragma once
#include <cstdint>

#include "cuda/status.h"
#include "mamba_kernels.h"

namespace mamba {
namespace cuda {

inline bool known_dtype(int32_t dtype) {
  return dtype == MAMBA_FLOAT32 || dtype == MAMBA_FLOAT16 || dtype == MAMBA_BFLOAT16;
}
inline int64_t element_size(int32_t dtype) { return dtype == MAMBA_FLOAT32 ? 4 : 2; }

// Elements of a tensor of these sizes that a kernel may count in 64 bits with room for bytes; -1 beyond.
inline int64_t product(const int64_t* sizes, int count) {
  int64_t total = 1;
  for (int i = 0; i < count; ++i)
    if (__builtin_mul_overflow(total, sizes[i], &total) || total > (INT64_MAX >> 4)) return -1;
  return total;
}

struct NamedView {
  const char* name;
  const MambaView* view;
};

template <int count>
MambaStatus all_present(const char* function, const NamedView (&views)[count]) {
  for (const NamedView& each : views)
    if (each.view->data == nullptr) return fail(MAMBA_INVALID_ARGUMENT, "%s: `%s` is null", function, each.name);
  return MAMBA_OK;
}

// True where the last of `axes` is contiguous and every row along it starts on a 16-byte boundary.
inline bool allows_vectors(const MambaView& view, int axes, int32_t dtype) {
  const int64_t width = 16 / element_size(dtype);
  if (view.data == nullptr || view.stride[axes - 1] != 1 || reinterpret_cast<uintptr_t>(view.data) % 16 != 0)
    return false;
  for (int i = 0; i + 1 < axes; ++i)
    if (view.stride[i] % width != 0) return false;
  return true;
}

inline int64_t divided_up(int64_t value, int64_t by) { return (value + by - 1) / by; }
inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

}  // namespace cuda
}  // namespace mamba
