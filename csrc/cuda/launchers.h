// The functions of MambaKernels that launch kernels; each op's launch.cpp holds its own.
#pragma once
#include "mamba_kernels.h"

namespace mamba {
namespace cuda {

int64_t selective_scan_checkpoints(const SelectiveScanParams* params);
int32_t selective_scan_fwd(const SelectiveScanParams* params, const MambaContext* context);
int32_t selective_scan_bwd(const SelectiveScanBackwardParams* params, const MambaContext* context);
int32_t causal_conv1d_fwd(const CausalConv1dParams* params, const MambaContext* context);
int32_t causal_conv1d_bwd(const CausalConv1dBackwardParams* params, const MambaContext* context);
int32_t causal_conv1d_update(const CausalConv1dUpdateParams* params, const MambaContext* context);

}  // namespace cuda
}  // namespace mamba
