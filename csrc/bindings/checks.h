// Argument checks shared by all ops: each failure names the op, the argument, what was expected and what came.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "kernels.h"

namespace mamba {

template <class Api>
struct Argument {
  const char* name;
  const typename Api::Tensor& tensor;
};

inline std::string shape_text(const int64_t* sizes, int64_t count) {
  std::string text = "(";
  for (int64_t i = 0; i < count; ++i) text += (i ? ", " : "") + std::to_string(sizes[i]);
  return text + ")";
}

inline const char* dtype_text(int32_t dtype) {
  return dtype == MAMBA_FLOAT32 ? "float32" : dtype == MAMBA_FLOAT16 ? "float16" : "bfloat16";
}

// Checks the arguments of one call of `op`; `lead` is the tensor whose device the others must share.
template <class Api>
class Checker {
  using Tensor = typename Api::Tensor;
  using Arg = Argument<Api>;

 public:
  Checker(const char* op, const Tensor& lead, const char* lead_name) : op_(op), lead_(lead), lead_name_(lead_name) {}

  static MambaView view(const Tensor& tensor) {
    MambaView result = {};
    result.data = Api::data(tensor);
    for (int64_t i = 0; i < Api::dim(tensor); ++i) result.stride[i] = Api::stride(tensor, i);
    return result;
  }

  // The tensor as the kernels see it, once its device, dtype and shape are right.
  MambaView tensor(const Arg& arg, std::initializer_list<int64_t> sizes, int32_t dtype) const {
    device(arg.name, arg.tensor);
    if (Api::dtype(arg.tensor) != dtype)
      fail(arg.name, std::string("must be ") + dtype_text(dtype) + ", got " + Api::dtype_name(arg.tensor));
    bool same = Api::dim(arg.tensor) == static_cast<int64_t>(sizes.size());
    for (size_t i = 0; same && i < sizes.size(); ++i) same = Api::size(arg.tensor, i) == *(sizes.begin() + i);
    if (!same)
      fail(arg.name, "must have the shape " + shape_text(sizes.begin(), sizes.size()) + ", got " + shape_of(arg.tensor));
    return view(arg.tensor);
  }

  MambaView optional(const char* name, const typename Api::OptionalTensor& value, std::initializer_list<int64_t> sizes,
                     int32_t dtype) const {
    if (!value.has_value()) return MambaView{};
    return tensor(Arg{name, *value}, sizes, dtype);
  }

  int32_t floating(const Arg& arg) const {
    const int32_t dtype = Api::dtype(arg.tensor);
    if (dtype < 0)
      fail(arg.name, std::string("must be float32, float16 or bfloat16, got ") + Api::dtype_name(arg.tensor));
    return dtype;
  }

  void rank(const Arg& arg, std::initializer_list<int64_t> allowed) const {
    std::string text;
    for (int64_t each : allowed) {
      if (Api::dim(arg.tensor) == each) return;
      text += (text.empty() ? "" : " or ") + std::to_string(each);
    }
    fail(arg.name, "must have " + text + " dimensions, got the shape " + shape_of(arg.tensor));
  }

  void not_empty(const Arg& arg) const {
    for (int64_t i = 0; i < Api::dim(arg.tensor); ++i)
      if (Api::size(arg.tensor, i) == 0) fail(arg.name, "must not be empty, got the shape " + shape_of(arg.tensor));
  }

  void that(bool holds, const char* name, const std::string& otherwise) const {
    if (!holds) fail(name, otherwise);
  }

  const MambaKernels& kernels() const {
    const int32_t type = Api::device_type(lead_);
    const MambaKernels* table = type < 0 ? nullptr : kernels_for(type);
    if (table == nullptr)
      throw std::runtime_error(prefix() + "no kernels are loaded for the device of `" + lead_name_ + "`: `" +
                               device_text(lead_) + "`\nhint: mamba_ssm.backend_info() says which are and why");
    return *table;
  }

  MambaContext context(int64_t stream) const {
    MambaContext result = {};
    result.device = Api::device_index(lead_);
    result.num_threads = thread_count();
    if (Api::device_type(lead_) == MAMBA_CUDA) result.stream = stream_for(result.device, stream);
    return result;
  }

  void status(const MambaKernels& kernels, int32_t status) const {
    if (status == MAMBA_OK) return;
    const char* reason = kernels.last_error();
    throw std::runtime_error(prefix() + "the " + (kernels.device_type == MAMBA_CUDA ? "cuda" : "cpu") +
                             " kernels failed: " + (reason && *reason ? reason : "no reason given") + " (status " +
                             std::to_string(status) + ")");
  }

 private:
  std::string prefix() const { return std::string("mamba_ssm::") + op_ + ": "; }

  [[noreturn]] void fail(const char* name, const std::string& text) const {
    throw std::runtime_error(prefix() + "`" + name + "` " + text);
  }

  void device(const char* name, const Tensor& tensor) const {
    if (Api::device_type(tensor) != Api::device_type(lead_) || Api::device_index(tensor) != Api::device_index(lead_))
      fail(name, std::string("must be on the device of `") + lead_name_ + "`, " + device_text(lead_) + ", got " +
                     device_text(tensor));
  }

  static std::string device_text(const Tensor& tensor) {
    const int32_t type = Api::device_type(tensor);
    if (type == MAMBA_CPU) return "cpu";
    return (type == MAMBA_CUDA ? "cuda:" : "another kind of device:") + std::to_string(Api::device_index(tensor));
  }

  static std::string shape_of(const Tensor& tensor) {
    std::string text = "(";
    for (int64_t i = 0; i < Api::dim(tensor); ++i) text += (i ? ", " : "") + std::to_string(Api::size(tensor, i));
    return text + ")";
  }

  const char* op_;
  const Tensor& lead_;
  const char* lead_name_;
};

}  // namespace mamba
