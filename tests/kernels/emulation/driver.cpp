// A libcuda.so.1 whose GPU is the emulated machine and whose device memory is the host's, so that the real launcher can
// be driven from end to end. A module image is a text: `emulated UNIT sm_80 sm_90 compute_90`.
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "machine.h"

#define DRIVER_EXPORT extern "C" __attribute__((visibility("default")))

namespace emu {
namespace {

Kernel* kernels = nullptr;

enum Result {
  kSuccess = 0,
  kInvalidValue = 1,
  kNotInitialised = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kNotFound = 500,
  kLaunchFailed = 719,
};

struct Context {
  int device, retained;
};
struct Module {
  Context* context;
  std::string unit;
};
struct Function {
  Module* module;
  Kernel* kernel;
  unsigned shared_limit;
};

// What tests may set, and count.
struct Settings {
  int init_result = kSuccess, load_result = kSuccess, devices = 1, major = 9, minor = 0;
  long modules_loaded = 0, kernels_launched = 0;
} settings;

bool initialised = false;
std::map<int, Context> contexts;
thread_local std::vector<Context*> current;
std::string last_failure;

// A cubin runs on its own major and the same or a higher minor; PTX on anything from its capability on.
bool image_fits(const std::string& arch) {
  const size_t at = arch.find('_');
  const int number = std::stoi(arch.substr(at + 1)), own = settings.major * 10 + settings.minor;
  return arch[0] == 'c' ? own >= number : number / 10 == settings.major && number <= own;
}

}  // namespace

Kernel::Kernel(const char* name, const char* file, void (*body)(void*), int max_threads)
    : name(name), file(file), body(body), max_threads(max_threads), next(kernels) {
  kernels = this;
}

}  // namespace emu

using namespace emu;

DRIVER_EXPORT int cuInit(unsigned) {
  initialised |= settings.init_result == kSuccess;
  return settings.init_result;
}
DRIVER_EXPORT int cuDriverGetVersion(int* version) {
  *version = 12040;
  return kSuccess;
}
DRIVER_EXPORT int cuGetErrorString(int result, const char** text) {
  *text = result == kLaunchFailed ? last_failure.c_str()
          : result == kNoDevice   ? "no CUDA-capable device is detected"
                                  : "emulated error";
  return kSuccess;
}
DRIVER_EXPORT int cuDeviceGetCount(int* count) {
  *count = settings.devices;
  return initialised ? kSuccess : kNotInitialised;
}
DRIVER_EXPORT int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal >= 0 && ordinal < settings.devices ? kSuccess : kInvalidDevice;
}
DRIVER_EXPORT int cuDeviceGetAttribute(int* value, int attribute, int) {
  if (attribute != 75 && attribute != 76) return kInvalidValue;
  *value = attribute == 75 ? settings.major : settings.minor;
  return kSuccess;
}
DRIVER_EXPORT int cuDevicePrimaryCtxRetain(Context** context, int device) {
  *context = &contexts.emplace(device, Context{device, 0}).first->second;
  (*context)->retained++;
  return kSuccess;
}
DRIVER_EXPORT int cuCtxPushCurrent_v2(Context* context) {
  current.push_back(context);
  return kSuccess;
}
DRIVER_EXPORT int cuCtxPopCurrent_v2(Context** context) {
  if (current.empty()) return kInvalidContext;
  *context = current.back();
  current.pop_back();
  return kSuccess;
}
DRIVER_EXPORT int cuModuleLoadData(Module** module, const void* image) {
  if (settings.load_result != kSuccess) return settings.load_result;
  if (current.empty()) return kInvalidContext;
  std::istringstream words(static_cast<const char*>(image));
  std::string word, unit;
  words >> word >> unit;
  if (word != "emulated") return kInvalidImage;
  bool fits = false;
  while (words >> word) fits |= image_fits(word);
  if (!fits) return kNoBinaryForGpu;
  settings.modules_loaded++;
  *module = new Module{current.back(), unit};
  return kSuccess;
}
DRIVER_EXPORT int cuModuleGetFunction(Function** function, Module* module, const char* name) {
  for (Kernel* kernel = kernels; kernel != nullptr; kernel = kernel->next) {
    if (module->unit + ".cu" != base_name(kernel->file) || std::string(name) != kernel->name) continue;
    static std::map<std::pair<Module*, const Kernel*>, Function> functions;
    *function = &functions.emplace(std::make_pair(module, kernel), Function{module, kernel, 48 * 1024}).first->second;
    return kSuccess;
  }
  return kNotFound;
}
DRIVER_EXPORT int cuFuncSetAttribute(Function* function, int attribute, int value) {
  if (attribute != 8 || value < 0 || static_cast<size_t>(value) > kSharedLimit) return kInvalidValue;
  function->shared_limit = static_cast<unsigned>(value);
  return kSuccess;
}
DRIVER_EXPORT int cuLaunchKernel(Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, void*,
                                 void** arguments, void**) {
  if (current.empty() || current.back() != function->module->context) return kInvalidContext;
  if (shared_bytes > function->shared_limit) return kInvalidValue;
  settings.kernels_launched++;
  function->kernel->launches++;
  last_failure =
      run(*function->kernel, arguments[0], {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes);
  return last_failure.empty() ? kSuccess : kLaunchFailed;
}
DRIVER_EXPORT int cuMemsetD32Async(unsigned long long address, unsigned value, size_t count, void*) {
  if (current.empty()) return kInvalidContext;
  auto* data = reinterpret_cast<unsigned*>(address);
  if (address % 4 != 0 || !is_memory(data, count * 4)) return kInvalidValue;
  for (size_t i = 0; i < count; i++) data[i] = value;
  mark_initialised(data, count * 4);
  return kSuccess;
}

// What tests call beside the driver's interface.
DRIVER_EXPORT void emulation_set(int init_result, int load_result, int devices, int major, int minor) {
  settings.init_result = init_result;
  settings.load_result = load_result;
  settings.devices = devices;
  settings.major = major;
  settings.minor = minor;
}
DRIVER_EXPORT void emulation_order(int which, unsigned with_seed) {
  order = static_cast<Order>(which);
  seed = with_seed;
}
DRIVER_EXPORT void emulation_memory(const char* name, void* data, size_t bytes, size_t granule, int read_only,
                                    int initialised_by_caller) {
  add_memory(name, data, bytes, granule, read_only != 0, initialised_by_caller != 0, false);
}
DRIVER_EXPORT void emulation_forget() { remove_all_memory(); }
DRIVER_EXPORT int emulation_contexts() { return static_cast<int>(current.size()); }
DRIVER_EXPORT long emulation_modules_loaded() { return settings.modules_loaded; }
DRIVER_EXPORT long emulation_kernels_launched() { return settings.kernels_launched; }
DRIVER_EXPORT long emulation_launches(const char* name) {
  for (const Kernel* kernel = kernels; kernel != nullptr; kernel = kernel->next)
    if (std::string(name) == kernel->name) return kernel->launches;
  return -1;
}
DRIVER_EXPORT void emulation_traffic(const char* name, unsigned long long* read, unsigned long long* written) {
  traffic(name, read, written);
}
DRIVER_EXPORT int emulation_kernel_names(char* text, int bytes) {
  std::string names;
  for (const Kernel* kernel = kernels; kernel != nullptr; kernel = kernel->next)
    names += std::string(kernel->name) + "\n";
  return snprintf(text, static_cast<size_t>(bytes), "%s", names.c_str());
}
