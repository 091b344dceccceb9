// The kernels for one instruction set. Compiled once for each, with -DMAMBA_ISA=baseline|avx2|avx512 as the namespace;
// all code is local to it, so that the linker can never take a wide copy of a function for every CPU.
#include "conv.h"
#include "scan_backward.h"
#include "scan_forward.h"

namespace mamba {
namespace MAMBA_ISA {

extern const Variant variant;
const Variant variant = {selective_scan_fwd, selective_scan_bwd, causal_conv1d_fwd, causal_conv1d_bwd,
                         causal_conv1d_update};

}  // namespace MAMBA_ISA
}  // namespace mamba
