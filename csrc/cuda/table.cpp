// What libmamba_cuda.so exports.
#include "cuda/device.h"
#include "cuda/launchers.h"
#include "cuda/status.h"

namespace {

const MambaKernels kTable = {
    MAMBA_KERNELS_ABI_VERSION,
    MAMBA_CUDA,
    mamba::cuda::device_count,
    mamba::cuda::describe,
    mamba::last_error,
    mamba::cuda::selective_scan_checkpoints,
    mamba::cuda::selective_scan_fwd,
    mamba::cuda::selective_scan_bwd,
    mamba::cuda::causal_conv1d_fwd,
    mamba::cuda::causal_conv1d_bwd,
    mamba::cuda::causal_conv1d_update,
};

}  // namespace

int32_t mamba_kernels_abi_version() { return MAMBA_KERNELS_ABI_VERSION; }
const MambaKernels* mamba_kernels_table() { return &kTable; }
