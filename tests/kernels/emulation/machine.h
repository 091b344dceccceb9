// The emulated machine's own parts, which kernels do not see: fibers, the schedule, the shadow of memory.
#pragma once
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <string>

#include "emulation.h"

namespace emu {

constexpr int kLanes = 32;
constexpr size_t kStackBytes = 64 * 1024;
constexpr size_t kSharedLimit = 227 * 1024;  // of a block, once asked for
constexpr size_t kStaticSharedLimit = 48 * 1024;

enum class Order { kForward, kReverse, kShuffled };
enum class State : uint8_t { kRunnable, kAtBarrier, kAtWarpOp, kExited };
enum class Access { kRead, kWrite, kAtomic };

struct Fiber {
  int id;  // within the block
  State state;
  Index thread;
  void* stack_pointer;
  char* stack;
  int line;  // where it waits
  const char* file;
  WarpOp op;
  unsigned mask;
  int source_lane;
  uint64_t value, result;
  // What its warp's barriers order: a clock of its own, and the newest clock seen of each lane.
  uint32_t clock;
  uint32_t seen[kLanes];
};

// What memory checks need to know of the moment: set by the schedule.
struct Moment {
  Fiber* fiber = nullptr;    // running; null outside kernels
  uint32_t epoch = 1;        // counts block barriers, over all launches
  uint32_t block_start = 0;  // epoch at which the block, the launch began
  uint32_t launch_start = 0;
  bool failed = false;
};
extern Moment now;
extern Order order;
extern unsigned seed;

Fiber* fiber_at(int id);
int block_threads();
Index current_block();

// Ends the launch with this diagnosis, for which the running thread is to blame.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string text_of(const char* format, ...) __attribute__((format(printf, 1, 2)));
const char* base_name(const char* file);

// Memory that kernels may touch. Granule: the bytes whose history is kept together.
void add_memory(const std::string& name, void* data, size_t bytes, size_t granule, bool read_only, bool initialised,
                bool shared);
void remove_memory(const void* data);
void remove_all_memory();
void mark_initialised(const void* data, size_t bytes);
bool is_memory(const void* data, size_t bytes);
void check_access(const void* at, size_t bytes, Access access);
// Bytes that kernels have read from, and written to, the memories of that name.
void traffic(const std::string& name, unsigned long long* read, unsigned long long* written);

// Runs a kernel; an empty string, or what went wrong.
std::string run(const Kernel& kernel, void* arguments, Index grid, Index block, size_t shared_bytes);

}  // namespace emu
