#include "cuda/device.h"

#include <pthread.h>

#include "cuda/status.h"

#ifndef MAMBA_CUDA_DESCRIPTION
#error "the build says what is in the library: -DMAMBA_CUDA_DESCRIPTION='\"cuda 13.0: sm_80 sm_90+PTX\"'"
#endif

extern "C" {
extern const char mamba_fatbin_selective_scan[];
extern const char mamba_fatbin_causal_conv1d[];
}

namespace mamba {
namespace cuda {
namespace {

constexpr int64_t kMaxBlocks = 2147483647;
constexpr int kMaxDevices = 64;
const char* const kUnitNames[kUnits] = {"selective_scan", "causal_conv1d"};

// The primary context is retained once and never released, and modules are never unloaded: launches may be under way
// until the process ends.
struct DeviceState {
  Context context;
  Module modules[kUnits];
};
DeviceState devices[kMaxDevices];
pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

const char* image(Unit unit) {
  return unit == kSelectiveScan ? mamba_fatbin_selective_scan : mamba_fatbin_causal_conv1d;
}

MambaStatus status_of(Result result) {
  switch (result) {
    case kOutOfMemory:
      return MAMBA_OUT_OF_MEMORY;
    case kNoDevice:
    case kInvalidDevice:
      return MAMBA_NO_DEVICE;
    default:
      return MAMBA_DRIVER_ERROR;
  }
}

MambaStatus driver_failure(const Driver& driver, Result result, const char* what) {
  const char* text = nullptr;
  driver.cuGetErrorString(result, &text);
  return fail(status_of(result), "the CUDA driver failed in %s: %s (%d)", what,
              text == nullptr ? "unknown error" : text, result);
}

// Names the GPU and what the library holds, since one of the two has to change.
MambaStatus no_image(const Driver& driver, Result result, Device device, int ordinal, Unit unit) {
  int major = 0, minor = 0, version = 0;
  driver.cuDeviceGetAttribute(&major, kCapabilityMajor, device);
  driver.cuDeviceGetAttribute(&minor, kCapabilityMinor, device);
  driver.cuDriverGetVersion(&version);
  const int driver_major = version / 1000, driver_minor = version % 1000 / 10;
  if (result == kNoBinaryForGpu)
    return fail(MAMBA_NO_KERNEL_IMAGE,
                "no kernel image of %s for GPU %d, whose compute capability is %d.%d; the library holds: `%s`\n"
                "hint: install a build for sm_%d%d, or build from source on this machine",
                kUnitNames[unit], ordinal, major, minor, MAMBA_CUDA_DESCRIPTION, major, minor);
  return fail(
      MAMBA_NO_KERNEL_IMAGE,
      "the driver (CUDA %d.%d) cannot read the kernel image of %s for GPU %d, whose compute capability is "
      "%d.%d (error %d); the library holds: `%s`\nhint: update the NVIDIA driver, or install a build for CUDA %d",
      driver_major, driver_minor, kUnitNames[unit], ordinal, major, minor, result, MAMBA_CUDA_DESCRIPTION,
      driver_major);
}

MambaStatus open_context(const Driver& driver, int32_t ordinal, Device* device, DeviceState* state) {
  Result result = driver.cuDeviceGet(device, ordinal);
  if (result != kSuccess) return driver_failure(driver, result, "cuDeviceGet");
  if (state->context != nullptr) return MAMBA_OK;
  result = driver.cuDevicePrimaryCtxRetain(&state->context, *device);
  if (result == kSuccess) return MAMBA_OK;
  state->context = nullptr;
  return driver_failure(driver, result, "cuDevicePrimaryCtxRetain");
}

MambaStatus load_module(const Driver& driver, int32_t ordinal, Device device, Unit unit, DeviceState* state) {
  if (state->modules[unit] != nullptr) return MAMBA_OK;
  const Result result = driver.cuModuleLoadData(&state->modules[unit], image(unit));
  if (result == kSuccess) return MAMBA_OK;
  state->modules[unit] = nullptr;
  if (result == kNoBinaryForGpu || result == kUnsupportedPtxVersion || result == kInvalidImage || result == kInvalidPtx)
    return no_image(driver, result, device, ordinal, unit);
  return driver_failure(driver, result, "cuModuleLoadData");
}

MambaStatus check_ordinal(const Driver& driver, int32_t ordinal) {
  int count = 0;
  const Result result = driver.cuDeviceGetCount(&count);
  if (result != kSuccess) return driver_failure(driver, result, "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= count)
    return fail(MAMBA_NO_DEVICE, "no CUDA device %d: the driver sees %d", ordinal, count);
  if (ordinal >= kMaxDevices)
    return fail(MAMBA_UNSUPPORTED, "CUDA device %d: only the first %d are served", ordinal, kMaxDevices);
  return MAMBA_OK;
}

}  // namespace

int32_t device_count() {
  const Driver* driver = cuda::driver();
  if (driver == nullptr) return 0;
  int count = 0;
  const Result result = driver->cuDeviceGetCount(&count);
  if (result != kSuccess) {
    driver_failure(*driver, result, "cuDeviceGetCount");
    return 0;
  }
  if (count == 0) fail(MAMBA_NO_DEVICE, "no CUDA device: the driver sees none\nhint: is CUDA_VISIBLE_DEVICES set?");
  return count;
}

const char* describe() { return MAMBA_CUDA_DESCRIPTION; }

Launcher::Launcher(Unit unit, const MambaContext* context) : unit_(unit) {
  if (context == nullptr) {
    status_ = fail(MAMBA_INVALID_ARGUMENT, "the context is null");
    return;
  }
  ordinal_ = context->device;
  stream_ = static_cast<Stream>(context->stream);
  driver_ = driver();
  if (driver_ == nullptr) {
    status_ = MAMBA_NO_DEVICE;
    return;
  }
  status_ = check_ordinal(*driver_, ordinal_);
  if (status_ != MAMBA_OK) return;
  DeviceState* state = &devices[ordinal_];
  Device device = 0;
  pthread_mutex_lock(&loading);
  status_ = open_context(*driver_, ordinal_, &device, state);
  if (status_ == MAMBA_OK) pushed_ = holds(driver_->cuCtxPushCurrent_v2(state->context), "cuCtxPushCurrent");
  if (status_ == MAMBA_OK) status_ = load_module(*driver_, ordinal_, device, unit, state);
  module_ = state->modules[unit];
  pthread_mutex_unlock(&loading);
}

Launcher::~Launcher() {
  Context ours = nullptr;
  if (pushed_) driver_->cuCtxPopCurrent_v2(&ours);
}

bool Launcher::holds(Result result, const char* what) {
  if (result == kSuccess) return true;
  status_ = driver_failure(*driver_, result, what);
  return false;
}

void Launcher::zero(float* data, int64_t count) {
  if (status_ != MAMBA_OK || data == nullptr || count == 0) return;
  holds(driver_->cuMemsetD32Async(reinterpret_cast<DevicePointer>(data), 0, static_cast<size_t>(count), stream_),
        "cuMemsetD32Async");
}

void Launcher::launch_with(const char* kernel, int64_t blocks, int64_t threads, int64_t shared_floats,
                           void** arguments) {
  if (status_ != MAMBA_OK || blocks == 0) return;
  if (blocks > kMaxBlocks) {
    status_ = fail(MAMBA_UNSUPPORTED, "%s: %lld blocks are more than a launch can have", kernel,
                   static_cast<long long>(blocks));
    return;
  }
  Function function = nullptr;
  if (!holds(driver_->cuModuleGetFunction(&function, module_, kernel), kernel)) return;
  const unsigned shared_bytes = static_cast<unsigned>(shared_floats * static_cast<int64_t>(sizeof(float)));
  if (shared_bytes > kSharedWithoutAsking &&
      !holds(driver_->cuFuncSetAttribute(function, kMaxDynamicSharedBytes, static_cast<int>(shared_bytes)), kernel))
    return;
  holds(driver_->cuLaunchKernel(function, static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(threads), 1, 1,
                                shared_bytes, stream_, arguments, nullptr),
        kernel);
}

}  // namespace cuda
}  // namespace mamba
