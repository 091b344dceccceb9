// What a binding knows of the world beside torch's tensors: the kernel tables that mamba_ssm handed over, the number of
// threads and the CUDA stream. The two functions of torch are weak, since not every torch, and no CPU torch, has them.
#pragma once
#include <cstdint>
#include <stdexcept>

#include "../include/mamba_kernels.h"

namespace at {
__attribute__((weak)) int get_num_threads();
}
extern "C" __attribute__((weak)) int32_t aoti_torch_get_current_cuda_stream(int32_t device_index, void** stream);

namespace mamba {

inline const MambaKernels* tables[2] = {nullptr, nullptr};

inline const MambaKernels* kernels_for(int32_t device_type) { return tables[device_type]; }

inline int32_t thread_count() {
  if (&at::get_num_threads == nullptr) return 1;
  const int count = at::get_num_threads();
  return count > 0 ? count : 1;
}

// `given` is the stream as a number where Python passed it (torch before 2.4), or -1.
inline void* stream_for(int32_t device, int64_t given) {
  if (given != -1) return reinterpret_cast<void*>(static_cast<intptr_t>(given));
  void* stream = nullptr;
  if (&aoti_torch_get_current_cuda_stream == nullptr || aoti_torch_get_current_cuda_stream(device, &stream) != 0)
    throw std::runtime_error("mamba_ssm: this torch does not tell its current CUDA stream\nhint: pass `stream`");
  return stream;
}

inline bool usable(const MambaKernels* table, int32_t device_type) {
  return table == nullptr || (table->abi_version == MAMBA_KERNELS_ABI_VERSION && table->device_type == device_type);
}

}  // namespace mamba

extern "C" {

// Hands the kernels over; null where a library is not loaded. 0, or 1 where a table is not of this binding's ABI version
// or is for another device: then nothing changes.
MAMBA_EXPORT int32_t mamba_bind(const MambaKernels* cpu, const MambaKernels* cuda) {
  if (!mamba::usable(cpu, MAMBA_CPU) || !mamba::usable(cuda, MAMBA_CUDA)) return 1;
  mamba::tables[MAMBA_CPU] = cpu;
  mamba::tables[MAMBA_CUDA] = cuda;
  return 0;
}

// The ABI version of the kernels that this binding was compiled for.
MAMBA_EXPORT int32_t mamba_binding_abi_version() { return MAMBA_KERNELS_ABI_VERSION; }

// Elements of `checkpoints` for a call of these sizes: what a fake implementation must know. -1 without kernels.
MAMBA_EXPORT int64_t mamba_selective_scan_checkpoints(int32_t device_type, int64_t batch, int64_t dim, int64_t length,
                                                      int64_t state, int64_t groups, int32_t dtype) {
  if (device_type < 0 || device_type > 1 || mamba::tables[device_type] == nullptr) return -1;
  SelectiveScanParams p = {};
  p.batch = batch;
  p.dim = dim;
  p.length = length;
  p.state = state;
  p.groups = groups;
  p.dtype = dtype;
  return mamba::tables[device_type]->selective_scan_checkpoints(&p);
}
}
