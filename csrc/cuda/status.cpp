#include "cuda/status.h"

#include <stdarg.h>
#include <stdio.h>

namespace mamba {
namespace {
thread_local char message[kMessageSize];
}

MambaStatus fail(MambaStatus status, const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(message, sizeof message, format, values);
  va_end(values);
  return status;
}

void write_text(char (&text)[kMessageSize], const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
}

const char* last_error() { return message; }

}  // namespace mamba
