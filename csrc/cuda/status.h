// The sentence that goes with a MambaStatus.
#pragma once
#include "mamba_kernels.h"

namespace mamba {

constexpr int kMessageSize = 512;

#define MAMBA_PRINTF(format_at) __attribute__((format(printf, format_at, (format_at) + 1)))

// Leaves the sentence in the calling thread's last_error() and returns the status.
MambaStatus fail(MambaStatus status, const char* format, ...) MAMBA_PRINTF(2);
void write_text(char (&text)[kMessageSize], const char* format, ...) MAMBA_PRINTF(2);
const char* last_error();

}  // namespace mamba
