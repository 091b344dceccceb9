// The C ABI between the kernels and everything above them.
//
// A kernel library (libmamba_cpu.so, libmamba_cuda.so) exports two functions, `mamba_kernels_abi_version` and
// `mamba_kernels_table`; all else is reached through the table. No torch, no Python, no C++ types cross this line.
//
// Conventions: strides count elements, not bytes, and may be negative or zero on inputs; a view whose `data` is null is
// an absent argument; outputs need not be initialised by the caller; every function returns a MambaStatus and, when that
// is not MAMBA_OK, leaves a sentence for the calling thread in `last_error()`.
#pragma once
#include <cstdint>

#define MAMBA_KERNELS_ABI_VERSION 1

#if defined(__GNUC__)
#define MAMBA_EXPORT __attribute__((visibility("default")))
#else
#define MAMBA_EXPORT
#endif

extern "C" {

enum MambaStatus : int32_t {
  MAMBA_OK = 0,
  MAMBA_INVALID_ARGUMENT = 1,  // a shape, stride or dtype that no kernel could take
  MAMBA_UNSUPPORTED = 2,       // a valid argument that these kernels do not serve
  MAMBA_OUT_OF_MEMORY = 3,
  MAMBA_NO_DEVICE = 4,         // no driver, or no such GPU
  MAMBA_NO_KERNEL_IMAGE = 5,   // the library has no code that this GPU can run
  MAMBA_DRIVER_ERROR = 6,      // any other failure that the CUDA driver reports
};

enum MambaDtype : int32_t { MAMBA_FLOAT32 = 0, MAMBA_FLOAT16 = 1, MAMBA_BFLOAT16 = 2 };

enum MambaDevice : int32_t { MAMBA_CPU = 0, MAMBA_CUDA = 1 };

// A strided view. Which axes `stride` describes stands beside each use.
struct MambaView {
  void* data;
  int64_t stride[4];
};

// Where a call runs.
struct MambaContext {
  int32_t device;       // CUDA ordinal; ignored by CPU kernels
  int32_t num_threads;  // CPU threads, at least 1; ignored by CUDA kernels
  void* stream;         // CUstream, null for the default stream; ignored by CPU kernels
};

// Selective scan (Gu & Dao 2023, equation 2 with zero-order hold on A and Euler on B):
//   dt = softplus?(delta + delta_bias)
//   h_t = exp(dt_t A) h_{t-1} + dt_t u_t B_t,   h_0 = initial_state or 0
//   out_t = (C_t . h_t + D u_t) * silu(z_t)
// Arithmetic is float32 whatever the dtypes.
struct SelectiveScanParams {
  int64_t batch, dim, length, state, groups;  // dim % groups == 0, 1 <= state <= 256
  int32_t dtype;                              // of u, delta, z, out, and of B and C where they vary
  int32_t delta_softplus;                     // 0 or 1; linear above 20
  int32_t variable_B, variable_C;             // 1: (batch, groups, state, length) in `dtype`; 0: (dim, state) in float32
  MambaView u, delta, z;                      // (batch, dim, length); z may be absent
  MambaView A;                                // (dim, state) float32
  MambaView B, C;                             // as variable_B and variable_C say
  MambaView D, delta_bias;                    // (dim) float32; may be absent
  MambaView initial_state;                    // (batch, dim, state) float32; may be absent
  MambaView out;                              // (batch, dim, length)
  MambaView last_state;                       // (batch, dim, state) float32, written; may be absent
  float* checkpoints;                         // written by forward where not null, read by backward; the layout is the
                                              // library's own, its size what selective_scan_checkpoints() says
};

struct SelectiveScanBackwardParams {
  SelectiveScanParams forward;  // the forward call's; out, last_state are not read
  MambaView dout;               // (batch, dim, length), dtype
  MambaView dlast_state;        // (batch, dim, state) float32; may be absent
  MambaView du, ddelta, dz;     // (batch, dim, length), dtype; dz absent where z is
  float* dA;                    // (dim, state) contiguous
  float* dB;                    // contiguous float32, (batch, groups, state, length) or (dim, state)
  float* dC;                    // likewise
  float* dD;                    // (dim); null where D is absent
  float* ddelta_bias;           // (dim); null where delta_bias is absent
  float* dinitial_state;        // (batch, dim, state) contiguous; may be null
};

// Causal depthwise convolution: out_t = silu?(bias + sum_k weight[k] x[t - (width - 1) + k]), x before the start is 0.
struct CausalConv1dParams {
  int64_t batch, dim, length, width;  // 2 <= width <= 4
  int32_t dtype, weight_dtype;        // of x and out; of weight and bias
  int32_t silu;                       // 0 or 1
  MambaView x, out;                   // (batch, dim, length), any strides
  MambaView weight;                   // (dim, width)
  MambaView bias;                     // (dim); may be absent
};

struct CausalConv1dBackwardParams {
  CausalConv1dParams forward;  // out is not read
  MambaView dout, dx;          // (batch, dim, length), dtype
  float* dweight;              // (dim, width) contiguous
  float* dbias;                // (dim); null where bias is absent
};

// One or more further steps of the convolution. `conv_state` holds the last `state_length` inputs, newest last; it is
// shifted left by `length` and the new inputs are appended, in place.
struct CausalConv1dUpdateParams {
  int64_t batch, dim, length, width, state_length;  // state_length >= width - 1
  int32_t dtype, weight_dtype, silu;                // dtype: of x, out and conv_state
  MambaView x, out;                                 // (batch, dim, length), any strides
  MambaView conv_state;                             // (batch, dim, state_length), any strides
  MambaView weight, bias;
};

struct MambaKernels {
  int32_t abi_version;  // MAMBA_KERNELS_ABI_VERSION
  int32_t device_type;  // MambaDevice
  // Devices that the kernels can be launched on (CPU: 1). Never fails: 0 where there is none, and last_error() says why.
  int32_t (*device_count)();
  // What is in the library, for people: "avx512" or "cuda 13.0: sm_80 sm_90".
  const char* (*describe)();
  const char* (*last_error)();
  // float32 elements that `checkpoints` must hold for this call.
  int64_t (*selective_scan_checkpoints)(const SelectiveScanParams*);
  int32_t (*selective_scan_fwd)(const SelectiveScanParams*, const MambaContext*);
  int32_t (*selective_scan_bwd)(const SelectiveScanBackwardParams*, const MambaContext*);
  int32_t (*causal_conv1d_fwd)(const CausalConv1dParams*, const MambaContext*);
  int32_t (*causal_conv1d_bwd)(const CausalConv1dBackwardParams*, const MambaContext*);
  int32_t (*causal_conv1d_update)(const CausalConv1dUpdateParams*, const MambaContext*);
};

MAMBA_EXPORT int32_t mamba_kernels_abi_version();
MAMBA_EXPORT const MambaKernels* mamba_kernels_table();
}
