// Checks and launches the causal convolution on a CUDA device.
#include "causal_conv1d/arguments.h"
#include "cuda/checks.h"
#include "cuda/device.h"
#include "cuda/launchers.h"

namespace mamba {
namespace cuda {
namespace {

// Kernels' names in MambaDtype's order.
const char* const kForwardKernels[3] = {"mamba_conv_forward_float32", "mamba_conv_forward_float16",
                                        "mamba_conv_forward_bfloat16"};
const char* const kBackwardKernels[3] = {"mamba_conv_backward_float32", "mamba_conv_backward_float16",
                                         "mamba_conv_backward_bfloat16"};
const char* const kUpdateKernels[3] = {"mamba_conv_update_float32", "mamba_conv_update_float16",
                                       "mamba_conv_update_bfloat16"};

constexpr int64_t kTilesOfThread = 4;   // along time
constexpr int64_t kTilesOfChannel = 8;  // along the channels: enough steps for each of a thread's few atomics

MambaStatus check_sizes(const char* f, int64_t batch, int64_t dim, int64_t length, int64_t width, int32_t dtype,
                        int32_t weight_dtype) {
  if (batch < 0 || dim < 0)
    return fail(MAMBA_INVALID_ARGUMENT, "%s: batch and dim must not be negative, got: `%lld, %lld`", f,
                static_cast<long long>(batch), static_cast<long long>(dim));
  if (length < 1)
    return fail(MAMBA_INVALID_ARGUMENT, "%s: the length must be at least 1, got: `%lld`", f,
                static_cast<long long>(length));
  if (width < 2 || width > kMaxWidth)
    return fail(MAMBA_UNSUPPORTED, "%s: the width must be 2, 3 or 4, got: `%lld`", f, static_cast<long long>(width));
  const int64_t sizes[] = {batch, dim, length};
  if (product(sizes, 3) < 0) return fail(MAMBA_INVALID_ARGUMENT, "%s: the sizes overflow 64 bits", f);
  if (!known_dtype(dtype)) return fail(MAMBA_UNSUPPORTED, "%s: unknown dtype: `%d`", f, dtype);
  if (!known_dtype(weight_dtype))
    return fail(MAMBA_UNSUPPORTED, "%s: unknown dtype of the weight: `%d`", f, weight_dtype);
  return MAMBA_OK;
}

MambaStatus check_conv(const char* f, const CausalConv1dParams* p) {
  if (p == nullptr) return fail(MAMBA_INVALID_ARGUMENT, "%s: the parameters are null", f);
  const MambaStatus status = check_sizes(f, p->batch, p->dim, p->length, p->width, p->dtype, p->weight_dtype);
  if (status != MAMBA_OK || p->batch == 0 || p->dim == 0) return status;
  return all_present(f, {{"x", &p->x}, {"weight", &p->weight}});
}

bool empty(const CausalConv1dParams& p) { return p.batch == 0 || p.dim == 0; }

struct Grid {
  ConvSpread spread;
  int64_t blocks, threads;
};

// Neighbouring threads take what lies side by side in x.
Grid grid_for(const CausalConv1dParams& p) {
  Grid grid = {};
  const int64_t tiles = divided_up(p.length, kItems);
  grid.spread.channels_fast = p.x.stride[1] == 1 && p.x.stride[2] != 1 && p.dim > 1;
  if (grid.spread.channels_fast) {
    grid.threads = kMaxThreads;
    grid.spread.tiles = kTilesOfChannel;
    grid.spread.segments = divided_up(tiles, grid.spread.tiles);
    grid.blocks = divided_up(p.batch * p.dim * grid.spread.segments, grid.threads);
  } else {
    grid.threads = smaller(divided_up(tiles, kWarp), kMaxWarps) * kWarp;
    grid.spread.tiles = grid.threads * kTilesOfThread;
    grid.spread.segments = divided_up(tiles, grid.spread.tiles);
    grid.blocks = p.batch * p.dim * grid.spread.segments;
  }
  return grid;
}

uint32_t bit(ConvVector which, const MambaView& view, int32_t dtype) {
  return allows_vectors(view, 3, dtype) ? static_cast<uint32_t>(which) : 0;
}

}  // namespace

int32_t causal_conv1d_fwd(const CausalConv1dParams* p, const MambaContext* context) {
  const char* f = "causal_conv1d_fwd";
  MambaStatus status = check_conv(f, p);
  if (status == MAMBA_OK && !empty(*p)) status = all_present(f, {{"out", &p->out}});
  if (status != MAMBA_OK) return status;
  Launcher launcher(kCausalConv1d, context);
  const Grid grid = grid_for(*p);
  const uint32_t vector = bit(kVectorX, p->x, p->dtype) | bit(kVectorConvOut, p->out, p->dtype);
  launcher.launch(kForwardKernels[p->dtype], grid.blocks, grid.threads, 0, ConvForward{*p, grid.spread, vector});
  return launcher.status();
}

int32_t causal_conv1d_bwd(const CausalConv1dBackwardParams* g, const MambaContext* context) {
  const char* f = "causal_conv1d_bwd";
  MambaStatus status = check_conv(f, g == nullptr ? nullptr : &g->forward);
  if (status != MAMBA_OK) return status;
  const CausalConv1dParams& p = g->forward;
  if (!empty(p)) status = all_present(f, {{"dout", &g->dout}, {"dx", &g->dx}});
  if (status == MAMBA_OK && p.dim != 0 && g->dweight == nullptr)
    status = fail(MAMBA_INVALID_ARGUMENT, "%s: `dweight` is null", f);
  if (status != MAMBA_OK) return status;
  Launcher launcher(kCausalConv1d, context);
  launcher.zero(g->dweight, p.dim * p.width);
  launcher.zero(g->dbias, p.dim);
  const Grid grid = grid_for(p);
  const uint32_t vector =
      bit(kVectorX, p.x, p.dtype) | bit(kVectorConvDout, g->dout, p.dtype) | bit(kVectorDx, g->dx, p.dtype);
  launcher.launch(kBackwardKernels[p.dtype], grid.blocks, grid.threads, 0, ConvBackward{*g, grid.spread, vector});
  return launcher.status();
}

int32_t causal_conv1d_update(const CausalConv1dUpdateParams* p, const MambaContext* context) {
  const char* f = "causal_conv1d_update";
  if (p == nullptr) return fail(MAMBA_INVALID_ARGUMENT, "%s: the parameters are null", f);
  MambaStatus status = check_sizes(f, p->batch, p->dim, p->length, p->width, p->dtype, p->weight_dtype);
  if (status == MAMBA_OK && p->state_length < p->width - 1)
    status = fail(MAMBA_INVALID_ARGUMENT, "%s: the state must hold at least width - 1 inputs, got: `%lld`", f,
                  static_cast<long long>(p->state_length));
  if (status == MAMBA_OK && p->batch != 0 && p->dim != 0)
    status = all_present(f, {{"x", &p->x}, {"out", &p->out}, {"conv_state", &p->conv_state}, {"weight", &p->weight}});
  if (status != MAMBA_OK) return status;
  Launcher launcher(kCausalConv1d, context);
  launcher.launch(kUpdateKernels[p->dtype], divided_up(p->batch * p->dim, kMaxThreads), kMaxThreads, 0, ConvUpdate{*p});
  return launcher.status();
}

}  // namespace cuda
}  // namespace mamba
