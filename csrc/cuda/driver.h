// The CUDA driver, opened when it is first needed: this library loads on machines without one, links no CUDA runtime,
// and needs no CUDA header. What stands here of the driver's interface is declared by this project.
#pragma once
#include <cstddef>
#include <cstdint>

namespace mamba {
namespace cuda {

using Result = int;
using Device = int;
using DevicePointer = unsigned long long;
struct ContextHandle;
struct ModuleHandle;
struct FunctionHandle;
struct StreamHandle;
using Context = ContextHandle*;
using Module = ModuleHandle*;
using Function = FunctionHandle*;
using Stream = StreamHandle*;

enum : Result {
  kSuccess = 0,
  kOutOfMemory = 2,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kNoBinaryForGpu = 209,
  kInvalidPtx = 218,
  kUnsupportedPtxVersion = 222,
};

enum : int { kCapabilityMajor = 75, kCapabilityMinor = 76 };  // device attributes
enum : int { kMaxDynamicSharedBytes = 8 };                    // function attribute
constexpr unsigned kSharedWithoutAsking = 48 * 1024;  // dynamic shared memory beyond it is asked for by attribute

// Each entry: its name in the driver's library, its parameters. The suffixes are those of the current interface, which
// no driver drops.
#define MAMBA_DRIVER_FUNCTIONS(X)                                                                              \
  X(cuInit, (unsigned flags))                                                                                  \
  X(cuDriverGetVersion, (int* version))                                                                        \
  X(cuGetErrorString, (Result result, const char** text))                                                      \
  X(cuDeviceGetCount, (int* count))                                                                            \
  X(cuDeviceGet, (Device * device, int ordinal))                                                               \
  X(cuDeviceGetAttribute, (int* value, int attribute, Device device))                                          \
  X(cuDevicePrimaryCtxRetain, (Context * context, Device device))                                              \
  X(cuCtxPushCurrent_v2, (Context context))                                                                    \
  X(cuCtxPopCurrent_v2, (Context * context))                                                                   \
  X(cuModuleLoadData, (Module * module, const void* image))                                                    \
  X(cuModuleGetFunction, (Function * function, Module module, const char* name))                               \
  X(cuFuncSetAttribute, (Function function, int attribute, int value))                                         \
  X(cuLaunchKernel,                                                                                            \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
     unsigned block_z, unsigned shared_bytes, Stream stream, void** arguments, void** extra))                  \
  X(cuMemsetD32Async, (DevicePointer address, unsigned value, size_t count, Stream stream))

struct Driver {
#define MAMBA_DRIVER_POINTER(name, parameters) Result(*name) parameters;
  MAMBA_DRIVER_FUNCTIONS(MAMBA_DRIVER_POINTER)
#undef MAMBA_DRIVER_POINTER
};

// The opened and initialised driver, or null with the reason in last_error(). Tried once in a process.
const Driver* driver();

}  // namespace cuda
}  // namespace mamba
