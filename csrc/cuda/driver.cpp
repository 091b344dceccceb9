#include "cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/glibc_floor.h"
#include "cuda/status.h"

namespace mamba {
namespace cuda {
namespace {

// Names another driver library than the system's, for systems that keep it where the loader does not look, and for
// tests.
constexpr const char* kDriverVariable = "MAMBA_SSM_CUDA_DRIVER";

pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
bool tried = false;
bool ready = false;
char reason[kMessageSize];
Driver functions;

bool open_driver() {
  const char* asked = getenv(kDriverVariable);
  const char* name = asked != nullptr && *asked != '\0' ? asked : "libcuda.so.1";
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    write_text(reason,
               "no CUDA device: %s could not be opened (%s)\nhint: install the NVIDIA driver, or set %s to its library",
               name, why == nullptr ? "no reason given" : why, kDriverVariable);
    return false;
  }
  const char* missing = nullptr;
#define MAMBA_DRIVER_SYMBOL(symbol, parameters)                                       \
  functions.symbol = reinterpret_cast<Result(*) parameters>(dlsym(library, #symbol)); \
  if (functions.symbol == nullptr) missing = #symbol;
  MAMBA_DRIVER_FUNCTIONS(MAMBA_DRIVER_SYMBOL)
#undef MAMBA_DRIVER_SYMBOL
  if (missing != nullptr) {
    write_text(reason, "no CUDA device: %s has no function `%s`\nhint: install a newer NVIDIA driver", name, missing);
    return false;
  }
  const Result result = functions.cuInit(0);
  if (result != kSuccess) {
    const char* text = nullptr;
    functions.cuGetErrorString(result, &text);
    write_text(reason, "no CUDA device: cuInit failed: %s (%d)", text == nullptr ? "unknown error" : text, result);
    return false;
  }
  return true;
}

}  // namespace

const Driver* driver() {
  pthread_mutex_lock(&opening);
  if (!tried) {
    ready = open_driver();
    tried = true;
  }
  pthread_mutex_unlock(&opening);
  if (ready) return &functions;
  fail(MAMBA_NO_DEVICE, "%s", reason);
  return nullptr;
}

}  // namespace cuda
}  // namespace mamba
