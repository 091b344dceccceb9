// The ops for one torch minor below 2.9 and one C++ ABI, over ATen's C++ API with the fewest headers.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>
#include <torch/version.h>

#include "ops.h"

namespace {

struct ClassicApi {
  using Tensor = at::Tensor;
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 5)
  using OptionalTensor = std::optional<at::Tensor>;
#else
  using OptionalTensor = c10::optional<at::Tensor>;
#endif

  static int64_t dim(const Tensor& t) { return t.dim(); }
  static int64_t size(const Tensor& t, int64_t i) { return t.size(i); }
  static int64_t stride(const Tensor& t, int64_t i) { return t.stride(i); }
  static void* data(const Tensor& t) { return t.data_ptr(); }
  static int32_t device_type(const Tensor& t) { return t.is_cpu() ? MAMBA_CPU : t.is_cuda() ? MAMBA_CUDA : -1; }
  static int32_t device_index(const Tensor& t) { return t.is_cpu() ? 0 : static_cast<int32_t>(t.get_device()); }
  static std::string dtype_name(const Tensor& t) { return c10::toString(t.scalar_type()); }

  static int32_t dtype(const Tensor& t) {
    switch (t.scalar_type()) {
      case at::kFloat: return MAMBA_FLOAT32;
      case at::kHalf: return MAMBA_FLOAT16;
      case at::kBFloat16: return MAMBA_BFLOAT16;
      default: return -1;
    }
  }

  static Tensor empty(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, int32_t dtype,
                      const Tensor& like) {
    const at::ScalarType type = dtype == MAMBA_FLOAT32   ? at::kFloat
                                : dtype == MAMBA_FLOAT16 ? at::kHalf
                                                         : at::kBFloat16;
    return at::empty_strided(sizes, strides, like.options().dtype(type));
  }
};

}  // namespace

#define MAMBA_DEFINE(name, schema) m.def(schema);
#define MAMBA_IMPLEMENT(name, schema) m.impl(#name, &mamba::Ops<ClassicApi>::name);

TORCH_LIBRARY(mamba_ssm, m) { MAMBA_OPS(MAMBA_DEFINE) }
TORCH_LIBRARY_IMPL(mamba_ssm, CPU, m) { MAMBA_OPS(MAMBA_IMPLEMENT) }
TORCH_LIBRARY_IMPL(mamba_ssm, CUDA, m) { MAMBA_OPS(MAMBA_IMPLEMENT) }
