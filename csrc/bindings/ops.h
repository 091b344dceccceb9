// The ops, described once for every binding: MAMBA_OPS lists them with their schemas, Ops<Api> implements them over the
// few tensor functions that a binding supplies. To add an op, add a line to MAMBA_OPS and a function to Ops.
//
// An Api has: Tensor; OptionalTensor (has_value(), operator*); and static functions
//   dim(t) size(t, i) stride(t, i) data(t) device_type(t) device_index(t) dtype(t) dtype_name(t)
//   empty(sizes, strides, dtype, like)
// with device_type a MambaDevice or -1, and dtype a MambaDtype or -1.
#pragma once
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "checks.h"
#include "kernels.h"

#define MAMBA_OPS(X)                                                                                                  \
  X(selective_scan_fwd,                                                                                               \
    "selective_scan_fwd(Tensor u, Tensor delta, Tensor A, Tensor B, Tensor C, Tensor? D, Tensor? z, "                 \
    "Tensor? delta_bias, bool delta_softplus, Tensor? initial_state, bool save_checkpoints, int stream) "             \
    "-> (Tensor, Tensor, Tensor)")                                                                                    \
  X(selective_scan_bwd,                                                                                               \
    "selective_scan_bwd(Tensor dout, Tensor u, Tensor delta, Tensor A, Tensor B, Tensor C, Tensor? D, Tensor? z, "    \
    "Tensor? delta_bias, bool delta_softplus, Tensor? initial_state, Tensor checkpoints, Tensor? dlast_state, "       \
    "int stream) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)")                        \
  X(causal_conv1d_fwd, "causal_conv1d_fwd(Tensor x, Tensor weight, Tensor? bias, bool silu, int stream) -> Tensor")   \
  X(causal_conv1d_bwd,                                                                                                \
    "causal_conv1d_bwd(Tensor dout, Tensor x, Tensor weight, Tensor? bias, bool silu, int stream) "                   \
    "-> (Tensor, Tensor, Tensor)")                                                                                    \
  X(causal_conv1d_update,                                                                                             \
    "causal_conv1d_update(Tensor x, Tensor(a!) conv_state, Tensor weight, Tensor? bias, bool silu, int stream) "      \
    "-> Tensor")

namespace mamba {

// The kernels' calls of one op, where the result stands before a failure becomes an exception.
template <class Api>
struct Ops {
  using Tensor = typename Api::Tensor;
  using Optional = typename Api::OptionalTensor;
  using Arg = Argument<Api>;
  using Check = Checker<Api>;

  // --- selective scan -------------------------------------------------------------------------------------------

  // out (batch, dim, length), last_state (batch, dim, state) float32, checkpoints (n) float32; n is 0 unless saved.
  static std::tuple<Tensor, Tensor, Tensor> selective_scan_fwd(
      const Tensor& u, const Tensor& delta, const Tensor& A, const Tensor& B, const Tensor& C, const Optional& D,
      const Optional& z, const Optional& delta_bias, bool delta_softplus, const Optional& initial_state,
      bool save_checkpoints, int64_t stream) {
    const Check check("selective_scan_fwd", u, "u");
    SelectiveScanParams p = scan_params(check, u, delta, A, B, C, D, z, delta_bias, delta_softplus, initial_state);
    const MambaKernels& kernels = check.kernels();
    Tensor out = contiguous({p.batch, p.dim, p.length}, p.dtype, u);
    Tensor last_state = contiguous({p.batch, p.dim, p.state}, MAMBA_FLOAT32, u);
    Tensor checkpoints = contiguous({save_checkpoints ? kernels.selective_scan_checkpoints(&p) : 0}, MAMBA_FLOAT32, u);
    p.out = view(out);
    p.last_state = view(last_state);
    p.checkpoints = save_checkpoints ? floats(checkpoints) : nullptr;
    const MambaContext context = check.context(stream);
    check.status(kernels, kernels.selective_scan_fwd(&p, &context));
    return std::make_tuple(out, last_state, checkpoints);
  }

  // du, ddelta, dA, dB, dC, dD, dz, ddelta_bias, dinitial_state; 0 elements where the input is absent. dA, dB, dC, dD,
  // ddelta_bias and dinitial_state are float32. Empty checkpoints mean that the forward pass is to be run again.
  static std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> selective_scan_bwd(
      const Tensor& dout, const Tensor& u, const Tensor& delta, const Tensor& A, const Tensor& B, const Tensor& C,
      const Optional& D, const Optional& z, const Optional& delta_bias, bool delta_softplus,
      const Optional& initial_state, const Tensor& checkpoints, const Optional& dlast_state, int64_t stream) {
    const Check check("selective_scan_bwd", u, "u");
    SelectiveScanBackwardParams p = {};
    p.forward = scan_params(check, u, delta, A, B, C, D, z, delta_bias, delta_softplus, initial_state);
    SelectiveScanParams& f = p.forward;
    const MambaKernels& kernels = check.kernels();
    const MambaContext context = check.context(stream);
    p.dout = check.tensor({"dout", dout}, {f.batch, f.dim, f.length}, f.dtype);
    p.dlast_state = check.optional("dlast_state", dlast_state, {f.batch, f.dim, f.state}, MAMBA_FLOAT32);

    const Tensor saved = saved_checkpoints(check, checkpoints, f, context);
    f.checkpoints = floats(saved);
    Tensor du = contiguous({f.batch, f.dim, f.length}, f.dtype, u);
    Tensor ddelta = contiguous({f.batch, f.dim, f.length}, f.dtype, u);
    Tensor dA = contiguous({f.dim, f.state}, MAMBA_FLOAT32, u);
    Tensor dB = gradient_of_projection(f, f.variable_B, u);
    Tensor dC = gradient_of_projection(f, f.variable_C, u);
    Tensor dD = present(D, {f.dim}, MAMBA_FLOAT32, u);
    Tensor dz = present(z, {f.batch, f.dim, f.length}, f.dtype, u);
    Tensor ddelta_bias = present(delta_bias, {f.dim}, MAMBA_FLOAT32, u);
    Tensor dinitial_state = present(initial_state, {f.batch, f.dim, f.state}, MAMBA_FLOAT32, u);
    p.du = view(du);
    p.ddelta = view(ddelta);
    if (z.has_value()) p.dz = view(dz);
    p.dA = floats(dA);
    p.dB = floats(dB);
    p.dC = floats(dC);
    p.dD = D.has_value() ? floats(dD) : nullptr;
    p.ddelta_bias = delta_bias.has_value() ? floats(ddelta_bias) : nullptr;
    p.dinitial_state = initial_state.has_value() ? floats(dinitial_state) : nullptr;
    check.status(kernels, kernels.selective_scan_bwd(&p, &context));
    return std::make_tuple(du, ddelta, dA, dB, dC, dD, dz, ddelta_bias, dinitial_state);
  }

  // --- causal conv1d --------------------------------------------------------------------------------------------

  static Tensor causal_conv1d_fwd(const Tensor& x, const Tensor& weight, const Optional& bias, bool silu,
                                  int64_t stream) {
    const Check check("causal_conv1d_fwd", x, "x");
    CausalConv1dParams p = conv_params(check, x, weight, bias, silu);
    const MambaKernels& kernels = check.kernels();
    Tensor out = laid_out_like(x);
    p.out = view(out);
    const MambaContext context = check.context(stream);
    check.status(kernels, kernels.causal_conv1d_fwd(&p, &context));
    return out;
  }

  // dx in x's dtype and layout, dweight (dim, width) and dbias (dim) float32; dbias has 0 elements without a bias.
  static std::tuple<Tensor, Tensor, Tensor> causal_conv1d_bwd(const Tensor& dout, const Tensor& x, const Tensor& weight,
                                                              const Optional& bias, bool silu, int64_t stream) {
    const Check check("causal_conv1d_bwd", x, "x");
    CausalConv1dBackwardParams p = {};
    p.forward = conv_params(check, x, weight, bias, silu);
    const CausalConv1dParams& f = p.forward;
    p.dout = check.tensor({"dout", dout}, {f.batch, f.dim, f.length}, f.dtype);
    const MambaKernels& kernels = check.kernels();
    Tensor dx = laid_out_like(x);
    Tensor dweight = contiguous({f.dim, f.width}, MAMBA_FLOAT32, x);
    Tensor dbias = present(bias, {f.dim}, MAMBA_FLOAT32, x);
    p.dx = view(dx);
    p.dweight = floats(dweight);
    p.dbias = bias.has_value() ? floats(dbias) : nullptr;
    const MambaContext context = check.context(stream);
    check.status(kernels, kernels.causal_conv1d_bwd(&p, &context));
    return std::make_tuple(dx, dweight, dbias);
  }

  static Tensor causal_conv1d_update(const Tensor& x, const Tensor& conv_state, const Tensor& weight,
                                     const Optional& bias, bool silu, int64_t stream) {
    const Check check("causal_conv1d_update", x, "x");
    const CausalConv1dParams c = conv_params(check, x, weight, bias, silu);
    CausalConv1dUpdateParams p = {};
    p.batch = c.batch;
    p.dim = c.dim;
    p.length = c.length;
    p.width = c.width;
    p.dtype = c.dtype;
    p.weight_dtype = c.weight_dtype;
    p.silu = c.silu;
    p.x = c.x;
    p.weight = c.weight;
    p.bias = c.bias;
    check.rank({"conv_state", conv_state}, {3});
    p.state_length = Api::size(conv_state, 2);
    check.that(p.state_length >= p.width - 1, "conv_state",
               "must hold at least width - 1 = " + std::to_string(p.width - 1) + " columns, got " +
                   std::to_string(p.state_length));
    p.conv_state = check.tensor({"conv_state", conv_state}, {p.batch, p.dim, p.state_length}, p.dtype);
    const MambaKernels& kernels = check.kernels();
    Tensor out = laid_out_like(x);
    p.out = view(out);
    const MambaContext context = check.context(stream);
    check.status(kernels, kernels.causal_conv1d_update(&p, &context));
    return out;
  }

 private:
  static MambaView view(const Tensor& tensor) { return Check::view(tensor); }
  static float* floats(const Tensor& tensor) { return static_cast<float*>(Api::data(tensor)); }

  static Tensor contiguous(std::initializer_list<int64_t> sizes, int32_t dtype, const Tensor& like) {
    std::vector<int64_t> strides(sizes.size());
    int64_t step = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
      strides[i] = step;
      step *= std::max<int64_t>(*(sizes.begin() + i), 1);
    }
    return Api::empty(std::vector<int64_t>(sizes), strides, dtype, like);
  }

  // A gradient for an input that may be absent: then nothing is allocated.
  static Tensor present(const Optional& input, std::initializer_list<int64_t> sizes, int32_t dtype, const Tensor& like) {
    return input.has_value() ? contiguous(sizes, dtype, like) : contiguous({0}, dtype, like);
  }

  // (batch, dim, length), channel-last where `x` is, so that a channel-last model stays so.
  static Tensor laid_out_like(const Tensor& x) {
    const int64_t batch = Api::size(x, 0), dim = Api::size(x, 1), length = Api::size(x, 2);
    const bool channel_last = Api::stride(x, 1) == 1 && Api::stride(x, 2) > 1;
    const std::vector<int64_t> strides = channel_last ? std::vector<int64_t>{dim * length, 1, dim}
                                                      : std::vector<int64_t>{dim * length, length, 1};
    return Api::empty({batch, dim, length}, strides, Api::dtype(x), x);
  }

  static Tensor gradient_of_projection(const SelectiveScanParams& p, int32_t variable, const Tensor& like) {
    return variable ? contiguous({p.batch, p.groups, p.state, p.length}, MAMBA_FLOAT32, like)
                    : contiguous({p.dim, p.state}, MAMBA_FLOAT32, like);
  }

  // What the backward kernels read: the caller's checkpoints, or, where it kept none, those of a second forward pass.
  static Tensor saved_checkpoints(const Check& check, const Tensor& given, SelectiveScanParams forward,
                                  const MambaContext& context) {
    const MambaKernels& kernels = check.kernels();
    const int64_t needed = kernels.selective_scan_checkpoints(&forward);
    check.rank({"checkpoints", given}, {1});
    if (Api::size(given, 0) != 0 || needed == 0) {
      check.tensor({"checkpoints", given}, {needed}, MAMBA_FLOAT32);
      check.that(Api::stride(given, 0) == 1, "checkpoints", "must be contiguous");
      return given;
    }
    Tensor again = contiguous({needed}, MAMBA_FLOAT32, given);
    Tensor out = contiguous({forward.batch, forward.dim, forward.length}, forward.dtype, given);
    forward.checkpoints = floats(again);
    forward.out = view(out);
    check.status(kernels, kernels.selective_scan_fwd(&forward, &context));
    return again;
  }

  static SelectiveScanParams scan_params(const Check& check, const Tensor& u, const Tensor& delta, const Tensor& A,
                                         const Tensor& B, const Tensor& C, const Optional& D, const Optional& z,
                                         const Optional& delta_bias, bool delta_softplus,
                                         const Optional& initial_state) {
    SelectiveScanParams p = {};
    p.dtype = check.floating({"u", u});
    check.rank({"u", u}, {3});
    check.rank({"A", A}, {2});
    p.batch = Api::size(u, 0);
    p.dim = Api::size(u, 1);
    p.length = Api::size(u, 2);
    p.state = Api::size(A, 1);
    check.not_empty({"u", u});
    check.that(p.state >= 1 && p.state <= 256, "A",
               "must have between 1 and 256 columns (the state), got " + std::to_string(p.state));
    check.rank({"B", B}, {2, 4});
    check.rank({"C", C}, {2, 4});
    p.variable_B = Api::dim(B) == 4;
    p.variable_C = Api::dim(C) == 4;
    p.groups = p.variable_B ? Api::size(B, 1) : p.variable_C ? Api::size(C, 1) : 1;
    check.that(p.groups >= 1 && p.dim % p.groups == 0, p.variable_B ? "B" : "C",
               "must have a number of groups that divides dim = " + std::to_string(p.dim) + ", got " +
                   std::to_string(p.groups));
    p.delta_softplus = delta_softplus;
    p.u = check.tensor({"u", u}, {p.batch, p.dim, p.length}, p.dtype);
    p.delta = check.tensor({"delta", delta}, {p.batch, p.dim, p.length}, p.dtype);
    p.A = check.tensor({"A", A}, {p.dim, p.state}, MAMBA_FLOAT32);
    p.B = projection(check, {"B", B}, p);
    p.C = projection(check, {"C", C}, p);
    p.D = check.optional("D", D, {p.dim}, MAMBA_FLOAT32);
    p.z = check.optional("z", z, {p.batch, p.dim, p.length}, p.dtype);
    p.delta_bias = check.optional("delta_bias", delta_bias, {p.dim}, MAMBA_FLOAT32);
    p.initial_state = check.optional("initial_state", initial_state, {p.batch, p.dim, p.state}, MAMBA_FLOAT32);
    return p;
  }

  // B or C: (batch, groups, state, length) in u's dtype, or (dim, state) in float32.
  static MambaView projection(const Check& check, const Arg& arg, const SelectiveScanParams& p) {
    return Api::dim(arg.tensor) == 4 ? check.tensor(arg, {p.batch, p.groups, p.state, p.length}, p.dtype)
                                     : check.tensor(arg, {p.dim, p.state}, MAMBA_FLOAT32);
  }

  static CausalConv1dParams conv_params(const Check& check, const Tensor& x, const Tensor& weight, const Optional& bias,
                                        bool silu) {
    CausalConv1dParams p = {};
    p.dtype = check.floating({"x", x});
    p.weight_dtype = check.floating({"weight", weight});
    check.rank({"x", x}, {3});
    check.rank({"weight", weight}, {2});
    p.batch = Api::size(x, 0);
    p.dim = Api::size(x, 1);
    p.length = Api::size(x, 2);
    p.width = Api::size(weight, 1);
    check.not_empty({"x", x});
    check.that(p.width >= 2 && p.width <= 4, "weight",
               "must have 2, 3 or 4 columns (the width), got " + std::to_string(p.width));
    p.silu = silu;
    p.x = check.tensor({"x", x}, {p.batch, p.dim, p.length}, p.dtype);
    p.weight = check.tensor({"weight", weight}, {p.dim, p.width}, p.weight_dtype);
    p.bias = check.optional("bias", bias, {p.dim}, p.weight_dtype);
    return p;
  }
};

}  // namespace mamba
