// CUDA for kernels that are compiled by a C++ compiler: one fiber per CUDA thread, one block at a time, every memory
// access checked. common/device.h includes it where nvcc is not the compiler. See README.md.
#pragma once
#include <math.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "half.h"

#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define EMU_UNCHECKED __attribute__((no_sanitize("thread")))
#define EMU_AT int line = __builtin_LINE(), const char *file = __builtin_FILE()

namespace emu {

struct Index {
  unsigned x, y, z;
};
// Out of line and const: they are constant within a fiber and are no checked loads.
__attribute__((const)) Index thread_index();
__attribute__((const)) Index block_index();
__attribute__((const)) Index block_size();
__attribute__((const)) Index grid_size();

// A kernel under the name by which the driver hands it out; `file` is the unit that holds it.
struct Kernel {
  Kernel(const char* name, const char* file, void (*body)(void* arguments), int max_threads);
  const char* name;
  const char* file;
  void (*body)(void* arguments);
  int max_threads;
  long launches = 0;
  Kernel* next;
};

void* dynamic_shared();
void* static_shared(const void* key, size_t bytes, size_t align, const char* name);
template <class T, class Tag>
T& shared(Tag, const char* name) {
  static const char key = 0;  // one for each variable: each has its own Tag
  return *static_cast<T*>(static_shared(&key, sizeof(T), alignof(T), name));
}

enum class WarpOp { kSync, kShuffle, kShuffleUp, kShuffleDown, kShuffleXor };
uint64_t warp_op(WarpOp op, unsigned mask, int argument, int width, uint64_t value, int line, const char* file);
void block_barrier(int line, const char* file);
void vector_access(const void* at, size_t bytes, bool write);
void atomic_access(const void* at, size_t bytes);

template <class T>
T shuffle(WarpOp op, unsigned mask, T value, int argument, int width, int line, const char* file) {
  static_assert(std::is_trivially_copyable<T>::value && sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  bits = warp_op(op, mask, argument, width, bits, line, file);
  memcpy(&value, &bits, sizeof value);
  return value;
}

template <class Arguments>
EMU_UNCHECKED void call(void (*kernel)(const Arguments), void* arguments) {
  kernel(*static_cast<const Arguments*>(arguments));  // by value: onto the fiber's own stack
}

}  // namespace emu

#define threadIdx (emu::thread_index())
#define blockIdx (emu::block_index())
#define blockDim (emu::block_size())
#define gridDim (emu::grid_size())

inline void __syncthreads(EMU_AT) { emu::block_barrier(line, file); }
inline void __syncwarp(unsigned mask = 0xffffffffu, EMU_AT) {
  emu::warp_op(emu::WarpOp::kSync, mask, 0, 32, 0, line, file);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, EMU_AT) {
  return emu::shuffle(emu::WarpOp::kShuffle, mask, value, lane, width, line, file);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, EMU_AT) {
  return emu::shuffle(emu::WarpOp::kShuffleUp, mask, value, static_cast<int>(by), width, line, file);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, EMU_AT) {
  return emu::shuffle(emu::WarpOp::kShuffleDown, mask, value, static_cast<int>(by), width, line, file);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32, EMU_AT) {
  return emu::shuffle(emu::WarpOp::kShuffleXor, mask, value, with, width, line, file);
}
template <class T>
EMU_UNCHECKED T atomicAdd(T* at, T value) {
  emu::atomic_access(at, sizeof(T));
  const T old = *at;
  *at = old + value;
  return old;
}

#define DEV_DYNAMIC_SHARED(T, name) T* name = static_cast<T*>(emu::dynamic_shared())
#define DEV_SHARED(T, name) auto& name = emu::shared<typename dev::Same<T>::type>([] {}, #name)
#define DEV_KERNEL(kernel, Arguments, threads, blocks, ...)                                          \
  static void body_of_##kernel(const Arguments arguments) { __VA_ARGS__(arguments); }                \
  static void call_##kernel(void* arguments) { emu::call<Arguments>(&body_of_##kernel, arguments); } \
  static const emu::Kernel registered_##kernel(#kernel, __FILE__, &call_##kernel, threads);
#define DEV_UNROLL
#define DEV_NO_UNROLL

namespace dev {

template <class T>
struct Same {
  using type = T;
};
inline float exp2(float x) { return exp2f(x); }
inline float exp(float x) { return exp2f(x * 1.4426950408889634f); }
inline float divide(float a, float b) { return fabsf(b) > 0x1p126f && !isinf(b) ? 0.f : a / b; }  // as __fdividef does

template <class T>
EMU_UNCHECKED T load16(const void* from) {
  static_assert(sizeof(T) == 16, "a vector access moves 16 bytes");
  emu::vector_access(from, 16, false);
  return *static_cast<const T*>(from);
}
template <class T>
EMU_UNCHECKED void store16(void* to, const T& value) {
  static_assert(sizeof(T) == 16, "a vector access moves 16 bytes");
  emu::vector_access(to, 16, true);
  *static_cast<T*>(to) = value;
}

}  // namespace dev
