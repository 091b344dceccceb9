// Kernels on one GPU: modules loaded when first used, launches inside the device's primary context.
#pragma once
#include <cstddef>
#include <cstdint>

#include "cuda/driver.h"
#include "mamba_kernels.h"

namespace mamba {
namespace cuda {

enum Unit { kSelectiveScan, kCausalConv1d, kUnits };

int32_t device_count();
const char* describe();

// Work on one device within one call. The constructor makes the device's primary context current, the destructor gives
// the caller its own back. After a failure, which stays in status(), every further step does nothing.
class Launcher {
 public:
  Launcher(Unit unit, const MambaContext* context);
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // Fills `count` elements with zeros; nothing where `data` is null.
  void zero(float* data, int64_t count);

  template <class Arguments>
  void launch(const char* kernel, int64_t blocks, int64_t threads, int64_t shared_floats, Arguments arguments) {
    void* pointers[] = {&arguments};
    launch_with(kernel, blocks, threads, shared_floats, pointers);
  }

  MambaStatus status() const { return status_; }

 private:
  void launch_with(const char* kernel, int64_t blocks, int64_t threads, int64_t shared_floats, void** arguments);
  bool holds(Result result, const char* what);

  Unit unit_;
  int32_t ordinal_ = 0;
  Stream stream_ = nullptr;
  const Driver* driver_ = nullptr;
  Module module_ = nullptr;
  bool pushed_ = false;
  MambaStatus status_ = MAMBA_OK;
};

}  // namespace cuda
}  // namespace mamba
