// Checks and launches the selective scan on a CUDA device.
#include "cuda/checks.h"
#include "cuda/device.h"
#include "cuda/launchers.h"
#include "selective_scan/arguments.h"

namespace mamba {
namespace cuda {
namespace {

const char* const kForwardKernels[3] = {"mamba_scan_forward_float32", "mamba_scan_forward_float16",
                                        "mamba_scan_forward_bfloat16"};
const char* const kBackwardKernels[3] = {"mamba_scan_backward_float32", "mamba_scan_backward_float16",
                                         "mamba_scan_backward_bfloat16"};

// The layout of the checkpoints follows from it, so it depends on the call's sizes alone.
int64_t threads_for(const SelectiveScanParams& p) {
  const int64_t warps = divided_up(p.length, kItems * kWarp);
  return smaller(warps, kMaxWarps) * kWarp;
}
int64_t chunks_for(const SelectiveScanParams& p) { return divided_up(p.length, threads_for(p) * kItems); }

MambaStatus check_sizes(const char* f, const SelectiveScanParams& p) {
  if (p.batch < 0 || p.dim < 0)
    return fail(MAMBA_INVALID_ARGUMENT, "%s: batch and dim must not be negative, got: `%lld, %lld`", f,
                static_cast<long long>(p.batch), static_cast<long long>(p.dim));
  if (p.length < 1)
    return fail(MAMBA_INVALID_ARGUMENT, "%s: the length must be at least 1, got: `%lld`", f,
                static_cast<long long>(p.length));
  if (p.state < 1 || p.state > 256)
    return fail(MAMBA_UNSUPPORTED, "%s: the state must have 1 to 256 elements, got: `%lld`", f,
                static_cast<long long>(p.state));
  if (p.groups < 1 || p.dim % p.groups != 0)
    return fail(MAMBA_INVALID_ARGUMENT, "%s: dim must be a multiple of groups, got: `%lld, %lld`", f,
                static_cast<long long>(p.dim), static_cast<long long>(p.groups));
  const int64_t rows[] = {p.batch, p.dim, p.length}, states[] = {p.batch, p.dim, p.state, chunks_for(p)};
  const int64_t projections[] = {p.batch, p.groups, p.state, p.length};
  if (product(rows, 3) < 0 || product(states, 4) < 0 || product(projections, 4) < 0)
    return fail(MAMBA_INVALID_ARGUMENT, "%s: the sizes overflow 64 bits", f);
  if (!known_dtype(p.dtype)) return fail(MAMBA_UNSUPPORTED, "%s: unknown dtype: `%d`", f, p.dtype);
  return MAMBA_OK;
}

MambaStatus check_scan(const char* f, const SelectiveScanParams* p) {
  if (p == nullptr) return fail(MAMBA_INVALID_ARGUMENT, "%s: the parameters are null", f);
  const MambaStatus status = check_sizes(f, *p);
  if (status != MAMBA_OK || p->batch == 0 || p->dim == 0) return status;
  return all_present(f, {{"u", &p->u}, {"delta", &p->delta}, {"A", &p->A}, {"B", &p->B}, {"C", &p->C}});
}

MambaStatus check_gradients(const char* f, const SelectiveScanBackwardParams& g) {
  const SelectiveScanParams& p = g.forward;
  if (p.batch != 0 && p.dim != 0) {
    const MambaStatus status = all_present(f, {{"dout", &g.dout}, {"du", &g.du}, {"ddelta", &g.ddelta}});
    if (status != MAMBA_OK) return status;
    if (g.dA == nullptr || g.dB == nullptr || g.dC == nullptr)
      return fail(MAMBA_INVALID_ARGUMENT, "%s: `dA`, `dB` or `dC` is null", f);
    if (p.checkpoints == nullptr && chunks_for(p) > 1)
      return fail(MAMBA_INVALID_ARGUMENT, "%s: a sequence of %lld steps needs the forward call's checkpoints", f,
                  static_cast<long long>(p.length));
  }
  if ((p.z.data != nullptr) != (g.dz.data != nullptr) && p.batch != 0 && p.dim != 0)
    return fail(MAMBA_INVALID_ARGUMENT, "%s: `z` and `dz` must both be given or both be absent", f);
  return MAMBA_OK;
}

uint32_t bit(ScanVector which, const MambaView& view, int axes, int32_t dtype, bool applies = true) {
  return applies && allows_vectors(view, axes, dtype) ? static_cast<uint32_t>(which) : 0;
}

uint32_t input_vectors(const SelectiveScanParams& p) {
  return bit(kVectorU, p.u, 3, p.dtype) | bit(kVectorDelta, p.delta, 3, p.dtype) | bit(kVectorZ, p.z, 3, p.dtype) |
         bit(kVectorB, p.B, 4, p.dtype, p.variable_B) | bit(kVectorC, p.C, 4, p.dtype, p.variable_C);
}

int64_t projection_elements(const SelectiveScanParams& p, int32_t variable) {
  return variable ? p.batch * p.groups * p.state * p.length : p.dim * p.state;
}

}  // namespace

int64_t selective_scan_checkpoints(const SelectiveScanParams* p) {
  if (check_sizes("selective_scan_checkpoints", *p) != MAMBA_OK) return -1;
  return p->batch * p->dim * (chunks_for(*p) - 1) * p->state;
}

int32_t selective_scan_fwd(const SelectiveScanParams* p, const MambaContext* context) {
  const char* f = "selective_scan_fwd";
  MambaStatus status = check_scan(f, p);
  if (status != MAMBA_OK) return status;
  const bool empty = p->batch == 0 || p->dim == 0;
  if (!empty && (status = all_present(f, {{"out", &p->out}})) != MAMBA_OK) return status;
  Launcher launcher(kSelectiveScan, context);
  launcher.launch(kForwardKernels[p->dtype], p->batch * p->dim, threads_for(*p), scan_forward_shared(p->state),
                  ScanForward{*p, chunks_for(*p), input_vectors(*p) | bit(kVectorOut, p->out, 3, p->dtype)});
  return launcher.status();
}

int32_t selective_scan_bwd(const SelectiveScanBackwardParams* g, const MambaContext* context) {
  const char* f = "selective_scan_bwd";
  MambaStatus status = check_scan(f, g == nullptr ? nullptr : &g->forward);
  if (status == MAMBA_OK) status = check_gradients(f, *g);
  if (status != MAMBA_OK) return status;
  const SelectiveScanParams& p = g->forward;
  Launcher launcher(kSelectiveScan, context);
  launcher.zero(g->dA, p.dim * p.state);
  launcher.zero(g->dB, projection_elements(p, p.variable_B));
  launcher.zero(g->dC, projection_elements(p, p.variable_C));
  launcher.zero(g->dD, p.dim);
  launcher.zero(g->ddelta_bias, p.dim);
  const uint32_t vector = input_vectors(p) | bit(kVectorDout, g->dout, 3, p.dtype) | bit(kVectorDu, g->du, 3, p.dtype) |
                          bit(kVectorDdelta, g->ddelta, 3, p.dtype) | bit(kVectorDz, g->dz, 3, p.dtype);
  launcher.launch(kBackwardKernels[p.dtype], p.batch * p.dim, threads_for(p),
                  scan_backward_shared(p.state, threads_for(p)), ScanBackward{*g, chunks_for(p), vector});
  return launcher.status();
}

}  // namespace cuda
}  // namespace mamba
