// Refuses arguments that the kernels could not take, with a sentence that says which, what was expected and what came;
// part of dispatch.cpp.
#pragma once
#include "runtime.h"

namespace mamba {

// Checks one call; the first failure stays, later checks do nothing.
class Checker {
 public:
  explicit Checker(const char* function) : function_(function) {}

  MambaStatus status() const { return status_; }

  // `low` <= value <= `high`
  Checker& number(const char* name, int64_t value, int64_t low, int64_t high) {
    if (ok() && (value < low || value > high)) {
      if (high == INT64_MAX)
        refuse(MAMBA_INVALID_ARGUMENT, "%s: `%s` must be at least %lld, got: `%lld`", name, low, value);
      else
        status_ = fail(MAMBA_INVALID_ARGUMENT, "%s: `%s` must be from %lld to %lld, got: `%lld`", function_, name,
                       wide(low), wide(high), wide(value));
    }
    return *this;
  }

  Checker& dtype(const char* name, int32_t value) {
    if (ok() && value != MAMBA_FLOAT32 && value != MAMBA_FLOAT16 && value != MAMBA_BFLOAT16)
      status_ = fail(MAMBA_INVALID_ARGUMENT, "%s: `%s` must be 0 (float32), 1 (float16) or 2 (bfloat16), got: `%d`",
                     function_, name, value);
    return *this;
  }

  Checker& present(const char* name, const void* data) {
    if (ok() && data == nullptr)
      status_ = fail(MAMBA_INVALID_ARGUMENT, "%s: `%s` is required, got: `null`", function_, name);
    return *this;
  }

  // `name` stands or falls with `other`.
  Checker& together(const char* name, const void* data, const char* other, const void* other_data) {
    if (ok() && (data == nullptr) != (other_data == nullptr))
      status_ = fail(MAMBA_INVALID_ARGUMENT, "%s: `%s` must be %s, because `%s` is, got: `%s`", function_, name,
                     other_data ? "given" : "null", other, data ? "a pointer" : "null");
    return *this;
  }

  Checker& multiple(const char* name, int64_t value, const char* of, int64_t divisor) {
    if (ok() && value % divisor != 0)
      status_ = fail(MAMBA_INVALID_ARGUMENT, "%s: `%s` must be a multiple of `%s` (%lld), got: `%lld`", function_, name,
                     of, wide(divisor), wide(value));
    return *this;
  }

  // The product of sizes must leave room for byte offsets in 64 bits.
  Checker& countable(const char* what, int64_t a, int64_t b, int64_t c, int64_t d) {
    int64_t total = 0;
    if (ok() && (__builtin_mul_overflow(a, b, &total) || __builtin_mul_overflow(total, c, &total) ||
                 __builtin_mul_overflow(total, d, &total) || total > INT64_MAX / 64))
      status_ = fail(MAMBA_INVALID_ARGUMENT, "%s: %s must be fewer than 2^57 elements, got: `%lld, %lld, %lld, %lld`",
                     function_, what, wide(a), wide(b), wide(c), wide(d));
    return *this;
  }

  Checker& context(const MambaContext* context) {
    present("context", context);
    if (ok()) number("num_threads", context->num_threads, 1, INT64_MAX);
    return *this;
  }

 private:
  bool ok() const { return status_ == MAMBA_OK; }
  static long long wide(int64_t value) { return value; }
  void refuse(MambaStatus status, const char* format, const char* name, int64_t low, int64_t value) {
    status_ = fail(status, format, function_, name, wide(low), wide(value));
  }

  const char* function_;
  MambaStatus status_ = MAMBA_OK;
};

// Shapes and dtypes only: what selective_scan_checkpoints needs.
static void check_scan_shape(Checker& check, const SelectiveScanParams& p) {
  check.number("batch", p.batch, 0, INT64_MAX)
      .number("dim", p.dim, 1, INT64_MAX)
      .number("length", p.length, 1, INT64_MAX)
      .number("state", p.state, 1, kMaxState)
      .number("groups", p.groups, 1, INT64_MAX)
      .multiple("dim", p.dim, "groups", p.groups)
      .dtype("dtype", p.dtype)
      .number("delta_softplus", p.delta_softplus, 0, 1)
      .number("variable_B", p.variable_B, 0, 1)
      .number("variable_C", p.variable_C, 0, 1)
      .countable("batch x dim x length x state", p.batch, p.dim, p.length, p.state);
}

static void check_scan(Checker& check, const SelectiveScanParams& p, const MambaContext* context) {
  check.context(context);
  check_scan_shape(check, p);
  if (p.batch == 0) return;  // tensors without elements may have no memory
  check.present("u", p.u.data).present("delta", p.delta.data).present("A", p.A.data);
  check.present("B", p.B.data).present("C", p.C.data);
}

static MambaStatus check_scan_forward(const SelectiveScanParams& p, const MambaContext* context) {
  Checker check("selective_scan_fwd");
  check_scan(check, p, context);
  if (p.batch != 0) check.present("out", p.out.data);
  return check.status();
}

static MambaStatus check_scan_backward(const SelectiveScanBackwardParams& p, const MambaContext* context) {
  const SelectiveScanParams& f = p.forward;
  Checker check("selective_scan_bwd");
  check_scan(check, f, context);
  check.present("dA", p.dA);
  if (f.batch != 0 || !f.variable_B) check.present("dB", p.dB);
  if (f.batch != 0 || !f.variable_C) check.present("dC", p.dC);
  check.together("dD", p.dD, "D", f.D.data).together("ddelta_bias", p.ddelta_bias, "delta_bias", f.delta_bias.data);
  if (f.batch == 0) return check.status();
  check.present("checkpoints", f.checkpoints).present("dout", p.dout.data);
  check.present("du", p.du.data).present("ddelta", p.ddelta.data);
  return check.together("dz", p.dz.data, "z", f.z.data).status();
}

template <typename Params>
static void check_conv(Checker& check, const Params& p, const MambaContext* context) {
  check.context(context)
      .number("batch", p.batch, 0, INT64_MAX)
      .number("dim", p.dim, 1, INT64_MAX)
      .number("length", p.length, 1, INT64_MAX)
      .number("width", p.width, 2, 4)
      .dtype("dtype", p.dtype)
      .dtype("weight_dtype", p.weight_dtype)
      .number("silu", p.silu, 0, 1)
      .countable("batch x dim x length", p.batch, p.dim, p.length, 8)
      .present("weight", p.weight.data);
  if (p.batch != 0) check.present("x", p.x.data);
}

static MambaStatus check_conv_forward(const CausalConv1dParams& p, const MambaContext* context) {
  Checker check("causal_conv1d_fwd");
  check_conv(check, p, context);
  if (p.batch != 0) check.present("out", p.out.data);
  return check.status();
}

static MambaStatus check_conv_backward(const CausalConv1dBackwardParams& p, const MambaContext* context) {
  Checker check("causal_conv1d_bwd");
  check_conv(check, p.forward, context);
  check.present("dweight", p.dweight).together("dbias", p.dbias, "bias", p.forward.bias.data);
  if (p.forward.batch != 0) check.present("dout", p.dout.data).present("dx", p.dx.data);
  return check.status();
}

static MambaStatus check_conv_update(const CausalConv1dUpdateParams& p, const MambaContext* context) {
  Checker check("causal_conv1d_update");
  check_conv(check, p, context);
  check.number("state_length", p.state_length, p.width - 1, INT64_MAX)
      .countable("batch x dim x state_length", p.batch, p.dim, p.state_length, 8);
  if (p.batch != 0) check.present("out", p.out.data).present("conv_state", p.conv_state.data);
  return check.status();
}

}  // namespace mamba
