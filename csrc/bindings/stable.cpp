// The ops for every torch from 2.9 on, over torch's stable C++ API: compile with headers of 2.10 or newer and
// -DTORCH_TARGET_VERSION=0x0209000000000000.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <optional>
#include <utility>

#include "ops.h"

namespace {

void succeed(AOTITorchError error, const char* call) {
  if (error != 0) throw std::runtime_error(std::string("mamba_ssm: torch refused a call: `") + call + "`");
}
#define MAMBA_CALL(call) succeed(call, #call)

struct StableApi {
  using Tensor = torch::stable::Tensor;
  using OptionalTensor = std::optional<Tensor>;

  static int64_t dim(const Tensor& t) { return t.dim(); }
  static int64_t size(const Tensor& t, int64_t i) { return t.size(i); }
  static int64_t stride(const Tensor& t, int64_t i) { return t.stride(i); }
  static void* data(const Tensor& t) { return t.data_ptr(); }
  static int32_t device_type(const Tensor& t) { return t.is_cpu() ? MAMBA_CPU : t.is_cuda() ? MAMBA_CUDA : -1; }

  static int32_t device_index(const Tensor& t) {
    int32_t index = 0;
    MAMBA_CALL(aoti_torch_get_device_index(t.get(), &index));
    return t.is_cpu() ? 0 : index;
  }

  static int32_t raw_dtype(const Tensor& t) {
    int32_t dtype = 0;
    MAMBA_CALL(aoti_torch_get_dtype(t.get(), &dtype));
    return dtype;
  }

  static int32_t dtype(const Tensor& t) {
    const int32_t raw = raw_dtype(t);
    if (raw == aoti_torch_dtype_float32()) return MAMBA_FLOAT32;
    if (raw == aoti_torch_dtype_float16()) return MAMBA_FLOAT16;
    return raw == aoti_torch_dtype_bfloat16() ? MAMBA_BFLOAT16 : -1;
  }

  // Named as torch's C++ names them, so that both bindings say the same.
  static std::string dtype_name(const Tensor& t) {
    const int32_t raw = raw_dtype(t);
    const std::pair<int32_t, const char*> names[] = {
        {aoti_torch_dtype_float32(), "Float"},       {aoti_torch_dtype_float16(), "Half"},
        {aoti_torch_dtype_bfloat16(), "BFloat16"},   {aoti_torch_dtype_float64(), "Double"},
        {aoti_torch_dtype_int32(), "Int"},           {aoti_torch_dtype_int64(), "Long"},
        {aoti_torch_dtype_bool(), "Bool"},           {aoti_torch_dtype_complex64(), "ComplexFloat"},
        {aoti_torch_dtype_complex128(), "ComplexDouble"}};
    for (const auto& each : names)
      if (each.first == raw) return each.second;
    return "another dtype";
  }

  static Tensor empty(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, int32_t dtype,
                      const Tensor& like) {
    const int32_t raw = dtype == MAMBA_FLOAT32   ? aoti_torch_dtype_float32()
                        : dtype == MAMBA_FLOAT16 ? aoti_torch_dtype_float16()
                                                 : aoti_torch_dtype_bfloat16();
    int32_t device_type = 0, device_index = 0;
    MAMBA_CALL(aoti_torch_get_device_type(like.get(), &device_type));
    MAMBA_CALL(aoti_torch_get_device_index(like.get(), &device_index));
    AtenTensorHandle handle = nullptr;
    MAMBA_CALL(aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), raw,
                                        device_type, device_index, &handle));
    return Tensor(handle);
  }
};

// torch calls an op with a stack of 64-bit values; this converts them by the C++ signature, so that the schema's order is
// written once. (TORCH_BOX does the same, but its code needs torch 2.10 at run time.)
template <class Function>
struct Boxed;

template <class Result, class... Parameters>
struct Boxed<Result (*)(Parameters...)> {
  template <Result (*function)(Parameters...)>
  static void call(StableIValue* stack, uint64_t inputs, uint64_t) {
    if (inputs != sizeof...(Parameters)) throw std::runtime_error("mamba_ssm: a schema and its function disagree");
    unpack<function>(stack, std::index_sequence_for<Parameters...>());
  }

 private:
  template <Result (*function)(Parameters...), size_t... I>
  static void unpack(StableIValue* stack, std::index_sequence<I...>) {
    // Braces fix the order; all values are taken off the stack before the call may throw.
    std::tuple<std::decay_t<Parameters>...> values{
        torch::stable::detail::to<std::decay_t<Parameters>>(stack[I])...};
    give(stack, std::apply(function, values));
  }

  static void give(StableIValue* stack, const torch::stable::Tensor& result) {
    stack[0] = torch::stable::detail::from(result);
  }

  template <class... Results>
  static void give(StableIValue* stack, const std::tuple<Results...>& results) {
    size_t i = 0;
    std::apply([&](const auto&... each) { ((stack[i++] = torch::stable::detail::from(each)), ...); }, results);
  }
};

}  // namespace

#define MAMBA_DEFINE(name, schema) m.def(schema);
#define MAMBA_IMPLEMENT(name, schema) \
  m.impl(#name, &Boxed<decltype(&mamba::Ops<StableApi>::name)>::call<&mamba::Ops<StableApi>::name>);

STABLE_TORCH_LIBRARY(mamba_ssm, m) { MAMBA_OPS(MAMBA_DEFINE) }
STABLE_TORCH_LIBRARY_IMPL(mamba_ssm, CPU, m) { MAMBA_OPS(MAMBA_IMPLEMENT) }
STABLE_TORCH_LIBRARY_IMPL(mamba_ssm, CUDA, m) { MAMBA_OPS(MAMBA_IMPLEMENT) }
