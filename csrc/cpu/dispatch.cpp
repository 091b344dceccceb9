// The library's table: checks a call's arguments, then hands it to the kernels for the widest instruction set that this
// CPU has. MAMBA_CPU_ISA=baseline|avx2|avx512 asks for a narrower one.
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "runtime.h"
#include "validate.h"

namespace mamba {
namespace {

struct Isa {
  const char* name;
  const Variant* variant;
};

#if defined(__x86_64__)
const Isa kIsas[] = {{"baseline", &baseline::variant}, {"avx2", &avx2::variant}, {"avx512", &avx512::variant}};
const char kIsaNames[] = "baseline, avx2 or avx512";

// Index into kIsas of the widest that the CPU has and the system saves the registers of.
int widest() {
  __builtin_cpu_init();
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
  if (!f16c || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  return avx512 ? 2 : 1;
}
#else
const Isa kIsas[] = {{"baseline", &baseline::variant}};
const char kIsaNames[] = "baseline";
int widest() { return 0; }
#endif

// Chosen at the first call. Two threads that race both compute, and store, the same.
const Isa* chosen;
char description[256];

const Isa* choose() {
  const Isa* known = __atomic_load_n(&chosen, __ATOMIC_ACQUIRE);
  if (known != nullptr) return known;
  const int has = widest();
  const Isa* isa = &kIsas[has];
  const char* asked = getenv("MAMBA_CPU_ISA");
  const char* ignored = nullptr;
  if (asked != nullptr && *asked != 0) {
    ignored = "is not one of";
    for (int i = 0; i < static_cast<int>(sizeof kIsas / sizeof *kIsas); ++i) {
      if (strcmp(asked, kIsas[i].name) != 0) continue;
      ignored = i > has ? "is more than this CPU has, of" : nullptr;
      if (i <= has) isa = &kIsas[i];
    }
  }
  if (ignored == nullptr)
    snprintf(description, sizeof description, "%s", isa->name);
  else
    snprintf(description, sizeof description, "%s (MAMBA_CPU_ISA ignored: `%.64s` %s %s)", isa->name, asked, ignored,
             kIsaNames);
  __atomic_store_n(&chosen, isa, __ATOMIC_RELEASE);
  return isa;
}

int32_t device_count() { return 1; }

const char* describe() {
  choose();
  return description;
}

const char* last_error() { return error_message; }

int64_t selective_scan_checkpoints(const SelectiveScanParams* p) {
  Checker check("selective_scan_checkpoints");
  check_scan_shape(check, *p);
  if (check.status() != MAMBA_OK) return -1;
  const int64_t steps = kChunk * chunks_per_checkpoint(p->state);
  return p->batch * p->dim * p->state * ((p->length + steps - 1) / steps);
}

int32_t selective_scan_fwd(const SelectiveScanParams* p, const MambaContext* context) {
  const MambaStatus status = check_scan_forward(*p, context);
  if (status != MAMBA_OK || p->batch == 0) return status;
  return choose()->variant->selective_scan_fwd(*p, context->num_threads);
}

void zero(float* to, int64_t count) {
  if (to != nullptr) memset(to, 0, static_cast<size_t>(count) * sizeof(float));
}

int32_t selective_scan_bwd(const SelectiveScanBackwardParams* p, const MambaContext* context) {
  const SelectiveScanParams& f = p->forward;
  const MambaStatus status = check_scan_backward(*p, context);
  if (status != MAMBA_OK) return status;
  if (f.batch != 0) return choose()->variant->selective_scan_bwd(*p, context->num_threads);
  zero(p->dA, f.dim * f.state);
  if (!f.variable_B) zero(p->dB, f.dim * f.state);
  if (!f.variable_C) zero(p->dC, f.dim * f.state);
  zero(p->dD, f.dim);
  zero(p->ddelta_bias, f.dim);
  return MAMBA_OK;
}

int32_t causal_conv1d_fwd(const CausalConv1dParams* p, const MambaContext* context) {
  const MambaStatus status = check_conv_forward(*p, context);
  if (status != MAMBA_OK || p->batch == 0) return status;
  return choose()->variant->causal_conv1d_fwd(*p, context->num_threads);
}

int32_t causal_conv1d_bwd(const CausalConv1dBackwardParams* p, const MambaContext* context) {
  const MambaStatus status = check_conv_backward(*p, context);
  if (status != MAMBA_OK) return status;
  if (p->forward.batch != 0) return choose()->variant->causal_conv1d_bwd(*p, context->num_threads);
  zero(p->dweight, p->forward.dim * p->forward.width);
  zero(p->dbias, p->forward.dim);
  return MAMBA_OK;
}

int32_t causal_conv1d_update(const CausalConv1dUpdateParams* p, const MambaContext* context) {
  const MambaStatus status = check_conv_update(*p, context);
  if (status != MAMBA_OK || p->batch == 0) return status;
  return choose()->variant->causal_conv1d_update(*p, context->num_threads);
}

const MambaKernels kTable = {
    MAMBA_KERNELS_ABI_VERSION,  MAMBA_CPU,          device_count,       describe,
    last_error,                 selective_scan_checkpoints, selective_scan_fwd, selective_scan_bwd,
    causal_conv1d_fwd,          causal_conv1d_bwd,  causal_conv1d_update,
};

}  // namespace
}  // namespace mamba

extern "C" {
int32_t mamba_kernels_abi_version() { return MAMBA_KERNELS_ABI_VERSION; }
const MambaKernels* mamba_kernels_table() { return &mamba::kTable; }
}
