// The selective scan's kernels under the names by which the launcher finds them. The blocks wanted on an SM are what
// the registers allow without a spill: with none named, ptxas spills 4 bytes of the forward scan to fit a fifth.
#include "selective_scan/backward.cuh"
#include "selective_scan/forward.cuh"

#define MAMBA_FORWARD(name, T) DEV_KERNEL(name, mamba::ScanForward, mamba::kMaxThreads, 4, mamba::scan_forward<T>)
MAMBA_FORWARD(mamba_scan_forward_float32, float)
MAMBA_FORWARD(mamba_scan_forward_float16, __half)
MAMBA_FORWARD(mamba_scan_forward_bfloat16, __nv_bfloat16)

#define MAMBA_BACKWARD(name, T) DEV_KERNEL(name, mamba::ScanBackward, mamba::kMaxThreads, 3, mamba::scan_backward<T>)
MAMBA_BACKWARD(mamba_scan_backward_float32, float)
MAMBA_BACKWARD(mamba_scan_backward_float16, __half)
MAMBA_BACKWARD(mamba_scan_backward_bfloat16, __nv_bfloat16)
