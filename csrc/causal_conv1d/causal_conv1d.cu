// The causal convolution's kernels under the names by which the launcher finds them.
#include "causal_conv1d/backward.cuh"
#include "causal_conv1d/forward.cuh"
#include "causal_conv1d/update.cuh"

#define MAMBA_CONV(name, T)                                                                                   \
  DEV_KERNEL(mamba_conv_forward_##name, mamba::ConvForward, mamba::kMaxThreads, 4, mamba::conv_forward<T>)    \
  DEV_KERNEL(mamba_conv_backward_##name, mamba::ConvBackward, mamba::kMaxThreads, 3, mamba::conv_backward<T>) \
  DEV_KERNEL(mamba_conv_update_##name, mamba::ConvUpdate, mamba::kMaxThreads, 8, mamba::conv_update<T>)
MAMBA_CONV(float32, float)
MAMBA_CONV(float16, __half)
MAMBA_CONV(bfloat16, __nv_bfloat16)
