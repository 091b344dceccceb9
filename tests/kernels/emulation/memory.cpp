// The shadow of memory. Kernels are compiled with -fsanitize=thread but not linked to its runtime: the hooks it calls
// before each access are defined here. An access must lie in known memory, be aligned, not write what is read-only, not
// read what nobody wrote, and not meet another thread's access without a barrier between them.
#include <algorithm>
#include <vector>

#include "machine.h"

extern "C" {
// The bounds of this library: constants that kernels read lie within.
extern char __ehdr_start[] __attribute__((visibility("hidden")));
extern char _end[] __attribute__((visibility("hidden")));
}

namespace emu {
namespace {

// The history of one granule: its newest write, and the newest reads of the epoch in which it was last read.
struct Cell {
  uint32_t write_epoch = 0, write_clock = 0, read_epoch = 0, read_clock = 0, read_lanes = 0;
  int16_t writer = -1;  // thread
  int16_t reader_warp = -1;
  bool initialised = false;
  bool atomic = false;        // the newest write was one
  bool many_writers = false;  // atomics of several threads in write_epoch
  bool many_blocks = false;   // atomics of several blocks in this launch
  bool many_warps = false;    // reads of several warps in read_epoch
};

struct Memory {
  std::string name;
  char* data;
  size_t bytes, granule;
  bool read_only, shared;
  std::vector<Cell> cells;
  unsigned long long bytes_read = 0, bytes_written = 0;

  bool holds(const char* at) const { return at >= data && at < data + bytes; }
};

std::vector<Memory*>& memories = *new std::vector<Memory*>;
Memory* newest = nullptr;  // where the last access fell

Memory* find(const char* at) {
  if (newest != nullptr && newest->holds(at)) return newest;
  for (Memory* each : memories)
    if (each->holds(at)) return newest = each;
  return nullptr;
}

bool ordered_by_warp(const Fiber* self, int thread, uint32_t clock) {
  return thread / kLanes == self->id / kLanes && self->seen[thread % kLanes] >= clock;
}

const char* verb(Access access) {
  return access == Access::kRead ? "read" : access == Access::kWrite ? "write" : "atomic";
}

void check_against_write(const Memory& memory, const Cell& cell, size_t offset, const Fiber* self, Access access,
                         uint32_t since) {
  if (cell.writer < 0 || cell.write_epoch < since || (access == Access::kAtomic && cell.atomic)) return;
  if (cell.write_epoch < now.block_start || cell.many_blocks)
    fail("race between blocks: %s at offset %zu, written by another block", memory.name.c_str(), offset);
  if (cell.write_epoch != now.epoch) return;
  if (cell.many_writers || (cell.writer != self->id && !ordered_by_warp(self, cell.writer, cell.write_clock)))
    fail("race: %s of %s at offset %zu, written by thread %d with no barrier between", verb(access),
         memory.name.c_str(), offset, cell.writer);
}

void check_against_reads(const Memory& memory, const Cell& cell, size_t offset, const Fiber* self, uint32_t since) {
  if (cell.reader_warp < 0 || cell.read_epoch < since) return;
  if (cell.read_epoch < now.block_start)
    fail("race between blocks: %s at offset %zu, read by another block", memory.name.c_str(), offset);
  if (cell.read_epoch != now.epoch) return;
  bool racing = cell.many_warps || cell.reader_warp != self->id / kLanes;
  for (int lane = 0; lane < kLanes && !racing; lane++)
    racing = (cell.read_lanes >> lane & 1) && lane != self->id % kLanes && self->seen[lane] < cell.read_clock;
  if (racing)
    fail("race: write to %s at offset %zu, read by another thread with no barrier between", memory.name.c_str(),
         offset);
}

void record_write(Cell& cell, const Fiber* self, Access access, uint32_t since) {
  // Earlier atomics of this launch stay on record: a plain access after them is a race with each.
  const bool after_atomics = access == Access::kAtomic && cell.atomic && cell.writer >= 0 && cell.write_epoch >= since;
  cell.many_blocks = after_atomics && (cell.many_blocks || cell.write_epoch < now.block_start);
  cell.many_writers =
      after_atomics && cell.write_epoch == now.epoch &&
      (cell.many_writers || (cell.writer != self->id && !ordered_by_warp(self, cell.writer, cell.write_clock)));
  cell.write_epoch = now.epoch;
  cell.writer = static_cast<int16_t>(self->id);
  cell.write_clock = self->clock;
  cell.atomic = access == Access::kAtomic;
  cell.initialised = true;
}

void record_read(Cell& cell, const Fiber* self) {
  const unsigned lane = 1u << self->id % kLanes;
  const int16_t warp = static_cast<int16_t>(self->id / kLanes);
  if (cell.read_epoch != now.epoch) {
    cell.read_epoch = now.epoch;
    cell.reader_warp = warp;
    cell.many_warps = false;
    cell.read_lanes = 0;
  }
  if (cell.reader_warp != warp) {
    cell.many_warps = true;
  } else if (cell.read_clock != self->clock || cell.read_lanes == 0) {
    cell.read_clock = self->clock;
    cell.read_lanes = lane;
  } else {
    cell.read_lanes |= lane;
  }
}

void no_memory(const char* at, size_t bytes, Access access) {
#ifdef EMU_COUNTS_LINES
  const bool allowed = true;  // gcov's counters lie there too
#else
  const bool allowed = access == Access::kRead;
#endif
  if (allowed && at >= __ehdr_start && at < _end) return;
  for (int i = 0; i < block_threads(); i++) {
    const char* stack = fiber_at(i)->stack;
    if (at >= stack && at < stack + kStackBytes) fail("%s on the stack of thread %d", verb(access), i);
  }
  fail("wild %s of %zu bytes", verb(access), bytes);
}

}  // namespace

void add_memory(const std::string& name, void* data, size_t bytes, size_t granule, bool read_only, bool initialised,
                bool shared) {
  auto* memory = new Memory{name, static_cast<char*>(data), bytes, granule, read_only, shared, {}, 0, 0};
  Cell cell;
  cell.initialised = initialised;
  memory->cells.assign((bytes + granule - 1) / granule, cell);
  memories.push_back(memory);
}

void remove_memory(const void* data) {
  for (size_t i = 0; i < memories.size(); i++) {
    if (memories[i]->data != data) continue;
    delete memories[i];
    memories.erase(memories.begin() + static_cast<std::ptrdiff_t>(i));
    break;
  }
  newest = nullptr;
}

void remove_all_memory() {
  for (const Memory* each : memories) delete each;
  memories.clear();
  newest = nullptr;
}

void mark_initialised(const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  Memory* memory = find(at);
  for (size_t i = 0; i < bytes; i += memory->granule)
    memory->cells[(static_cast<size_t>(at - memory->data) + i) / memory->granule].initialised = true;
}

bool is_memory(const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  const Memory* memory = find(at);
  return memory != nullptr && !memory->read_only && at + bytes <= memory->data + memory->bytes;
}

void check_access(const void* address, size_t bytes, Access access) {
  const Fiber* self = now.fiber;
  const char* at = static_cast<const char*>(address);
  if (self == nullptr || now.failed || (at >= self->stack && at < self->stack + kStackBytes)) return;
  Memory* memory = find(at);
  if (memory == nullptr) return no_memory(at, bytes, access);
  const char* name = memory->name.c_str();
  const size_t start = static_cast<size_t>(at - memory->data);
  if (start + bytes > memory->bytes)
    fail("%s of %zu bytes runs past %s (offset %zu of %zu)", verb(access), bytes, name, start, memory->bytes);
  if ((bytes & (bytes - 1)) == 0 && reinterpret_cast<uintptr_t>(at) % bytes != 0)
    fail("misaligned %zu-byte %s of %s at offset %zu", bytes, verb(access), name, start);
  if (access != Access::kRead && memory->read_only) fail("%s to read-only %s at offset %zu", verb(access), name, start);
  (access == Access::kRead ? memory->bytes_read : memory->bytes_written) += bytes;
  const uint32_t since = memory->shared ? now.block_start : now.launch_start;
  for (size_t i = start / memory->granule; i <= (start + bytes - 1) / memory->granule; i++) {
    Cell& cell = memory->cells[i];
    const size_t offset = i * memory->granule;
    const bool known = memory->shared ? cell.writer >= 0 && cell.write_epoch >= since : cell.initialised;
    if (access != Access::kWrite && !known) fail("read of uninitialised %s at offset %zu", name, offset);
    check_against_write(*memory, cell, offset, self, access, since);
    if (access == Access::kRead) {
      record_read(cell, self);
    } else {
      check_against_reads(*memory, cell, offset, self, since);
      record_write(cell, self, access, since);
    }
  }
}

void traffic(const std::string& name, unsigned long long* read, unsigned long long* written) {
  *read = *written = 0;
  for (const Memory* each : memories) {
    if (each->name != name) continue;
    *read += each->bytes_read;
    *written += each->bytes_written;
  }
}

void vector_access(const void* at, size_t bytes, bool write) {
  if (reinterpret_cast<uintptr_t>(at) % bytes != 0) fail("misaligned %zu-byte vector access", bytes);
  check_access(at, bytes, write ? Access::kWrite : Access::kRead);
}
void atomic_access(const void* at, size_t bytes) { check_access(at, bytes, Access::kAtomic); }

}  // namespace emu

extern "C" {
#define EMU_HOOKS(bytes)                                                                            \
  void __tsan_read##bytes(void* at) { emu::check_access(at, bytes, emu::Access::kRead); }           \
  void __tsan_write##bytes(void* at) { emu::check_access(at, bytes, emu::Access::kWrite); }         \
  void __tsan_unaligned_read##bytes(void* at) { emu::check_access(at, bytes, emu::Access::kRead); } \
  void __tsan_unaligned_write##bytes(void* at) { emu::check_access(at, bytes, emu::Access::kWrite); }
EMU_HOOKS(1)
EMU_HOOKS(2)
EMU_HOOKS(4)
EMU_HOOKS(8)
EMU_HOOKS(16)
void __tsan_read_range(void* at, long bytes) { emu::check_access(at, static_cast<size_t>(bytes), emu::Access::kRead); }
void __tsan_write_range(void* at, long bytes) {
  emu::check_access(at, static_cast<size_t>(bytes), emu::Access::kWrite);
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void*, void*) {}
void __tsan_vptr_read(void*) {}
}
