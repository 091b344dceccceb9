// Fibers and their schedule. One warp runs as far as it can, then the next: a warp that runs ahead is what exposes a
// missing block barrier. The order of blocks, warps and lanes is forward, reverse, or shuffled anew at each turn.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "machine.h"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emu {

Moment now;
Order order = Order::kForward;
unsigned seed = 1;

namespace {

struct SharedVariable {
  const void* key;
  char* data;
  size_t bytes;
};

// The launch under way.
struct Launch {
  const Kernel* kernel = nullptr;
  void* arguments = nullptr;
  Index grid = {}, block = {}, at = {};
  int threads = 0, waiting = 0, exited = 0;
  std::string error;
  char* dynamic = nullptr;
  size_t dynamic_bytes = 0, static_bytes = 0, arena_used = 0;
  std::vector<SharedVariable> variables;
};
Launch launch;
constexpr size_t kArenaBytes = 512 * 1024;
char* arena = nullptr;

std::vector<Fiber*>& fibers = *new std::vector<Fiber*>;  // never freed: they may outlive static destructors

const char* const kOpNames[] = {"__syncwarp", "__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync"};
const char* op_name(WarpOp op) { return kOpNames[static_cast<int>(op)]; }

[[noreturn]] void fiber_main();

#if defined(__x86_64__)
// ucontext saves the signal mask by a system call at each switch, six times slower than this.
extern "C" void emu_switch(void** save, void* load);
asm(R"(
.text
.globl emu_switch
.hidden emu_switch
emu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
void* scheduler_stack;
void to_scheduler() { emu_switch(&now.fiber->stack_pointer, scheduler_stack); }
void to_fiber(Fiber* fiber) { emu_switch(&scheduler_stack, fiber->stack_pointer); }
void prepare_stack(Fiber* fiber) {
  void** top = reinterpret_cast<void**>(fiber->stack + kStackBytes);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&fiber_main);
  for (int i = 0; i < 6; i++) *--top = nullptr;
  fiber->stack_pointer = top;
}
#else
ucontext_t scheduler_context;
ucontext_t* context_of(Fiber* fiber) { return static_cast<ucontext_t*>(fiber->stack_pointer); }
void to_scheduler() { swapcontext(context_of(now.fiber), &scheduler_context); }
void to_fiber(Fiber* fiber) { swapcontext(&scheduler_context, context_of(fiber)); }
void prepare_stack(Fiber* fiber) {
  if (fiber->stack_pointer == nullptr) fiber->stack_pointer = new ucontext_t;
  getcontext(context_of(fiber));
  context_of(fiber)->uc_stack.ss_sp = fiber->stack;
  context_of(fiber)->uc_stack.ss_size = kStackBytes;
  context_of(fiber)->uc_link = nullptr;
  makecontext(context_of(fiber), reinterpret_cast<void (*)()>(&fiber_main), 0);
}
#endif

void fiber_main() {
  launch.kernel->body(launch.arguments);
  now.fiber->state = State::kExited;
  launch.exited++;
  to_scheduler();
  abort();
}

void grow_fibers(size_t count) {
  while (fibers.size() < count) {
    auto* fiber = new Fiber();
    fiber->id = static_cast<int>(fibers.size());
    char* memory = static_cast<char*>(
        mmap(nullptr, kStackBytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory, 4096, PROT_NONE);  // an overflow of the stack faults
    fiber->stack = memory + 4096;
    fibers.push_back(fiber);
  }
}

void stop(std::string error) {
  if (!now.failed) launch.error = std::move(error);
  now.failed = true;
}

std::string block_text() { return text_of("block (%u,%u,%u)", launch.at.x, launch.at.y, launch.at.z); }

void check_meeting(const Fiber* self, int lane) {
  const Fiber* other = fibers[(self->id & ~(kLanes - 1)) + lane];
  const char *here = base_name(self->file), *name = op_name(self->op);
  if (other->state == State::kExited)
    fail("%s:%d %s: lane %d in mask 0x%08x has exited", here, self->line, name, lane, self->mask);
  if (other->state != State::kAtWarpOp) return;
  if (other->mask != self->mask || other->op != self->op)
    fail("%s:%d %s mask 0x%08x meets lane %d at %s:%d %s mask 0x%08x", here, self->line, name, self->mask, lane,
         base_name(other->file), other->line, op_name(other->op), other->mask);
  if (other->line != self->line)
    fail("%s:%d %s: lane %d is at another call, line %d", here, self->line, name, lane, other->line);
}

int source_of(WarpOp op, int lane, int argument, int width) {
  const int segment = lane & ~(width - 1), end = segment + width;
  int source = lane;
  if (op == WarpOp::kShuffle) source = segment + (argument & (width - 1));
  if (op == WarpOp::kShuffleUp) source = lane - argument < segment ? lane : lane - argument;
  if (op == WarpOp::kShuffleDown) source = lane + argument >= end ? lane : lane + argument;
  if (op == WarpOp::kShuffleXor) source = (lane ^ argument) >= end ? lane : lane ^ argument;
  return source;
}

// All lanes of the mask have met: exchange values; a __syncwarp also orders their memory accesses.
void complete_warp_op(Fiber* self, int lanes) {
  Fiber** warp = &fibers[self->id & ~(kLanes - 1)];
  uint32_t newest[kLanes] = {};
  for (int lane = 0; lane < lanes; lane++) {
    if (!(self->mask >> lane & 1)) continue;
    Fiber* fiber = warp[lane];
    fiber->result = warp[fiber->source_lane]->value;
    if (self->op == WarpOp::kSync) {
      fiber->seen[lane] = fiber->clock++;
      for (int i = 0; i < kLanes; i++) newest[i] = std::max(newest[i], fiber->seen[i]);
    }
  }
  for (int lane = 0; lane < lanes; lane++) {
    if (!(self->mask >> lane & 1)) continue;
    warp[lane]->state = State::kRunnable;
    if (self->op == WarpOp::kSync) memcpy(warp[lane]->seen, newest, sizeof newest);
  }
}

bool run_warp(int first, const std::vector<int>& lanes) {
  bool progress = false;
  for (bool any = true; any && !now.failed;) {
    any = false;
    for (const int lane : lanes) {
      if (first + lane >= launch.threads || fibers[first + lane]->state != State::kRunnable) continue;
      any = progress = true;
      now.fiber = fibers[first + lane];
      to_fiber(now.fiber);
      now.fiber = nullptr;
      if (now.failed) break;
    }
  }
  return progress;
}

// Every thread still alive waits at a barrier: it must be one and the same, and none may have exited.
void open_barrier() {
  const Fiber* first = nullptr;
  for (int i = 0; i < launch.threads; i++) {
    const Fiber* fiber = fibers[i];
    if (fiber->state != State::kAtBarrier) continue;
    if (first == nullptr) first = fiber;
    if (first->line != fiber->line || strcmp(first->file, fiber->file) != 0)
      return stop(block_text() + text_of(": divergent barrier: thread %d at %s:%d, thread %d at %s:%d", first->id,
                                         base_name(first->file), first->line, fiber->id, base_name(fiber->file),
                                         fiber->line));
  }
  if (launch.exited)
    return stop(block_text() + text_of(": barrier %s:%d reached by %d of %d threads, the others exited",
                                       base_name(first->file), first->line, launch.waiting, launch.threads));
  for (int i = 0; i < launch.threads; i++) fibers[i]->state = State::kRunnable;
  launch.waiting = 0;
  now.epoch++;
}

std::string deadlock() {
  std::string text = block_text() + ": deadlock:";
  int shown = 0;
  for (int i = 0; i < launch.threads && shown < 4; i++) {
    const Fiber *fiber = fibers[i], *before = i ? fibers[i - 1] : nullptr;
    const bool exited = fiber->state == State::kExited;
    if (before && before->state == fiber->state && (exited || before->line == fiber->line)) continue;
    shown++;
    text += exited ? text_of(" thread %d exited;", i)
                   : text_of(" thread %d waits at %s %s:%d;", i,
                             fiber->state == State::kAtBarrier ? "__syncthreads" : op_name(fiber->op),
                             base_name(fiber->file), fiber->line);
  }
  return text;
}

std::vector<int> in_order(int count) {
  std::vector<int> result(count);
  for (int i = 0; i < count; i++) result[i] = order == Order::kReverse ? count - 1 - i : i;
  return result;
}

void run_block(std::mt19937& random) {
  launch.waiting = launch.exited = 0;
  now.block_start = ++now.epoch;
  memset(launch.dynamic, 0xff, launch.dynamic_bytes);  // NaN: shared memory starts undefined
  for (const SharedVariable& each : launch.variables) memset(each.data, 0xff, each.bytes);
  for (int i = 0; i < launch.threads; i++) {
    Fiber* fiber = fibers[i];
    const unsigned id = static_cast<unsigned>(i), wide = launch.block.x, high = launch.block.y;
    fiber->thread = {id % wide, id / wide % high, id / wide / high};
    fiber->state = State::kRunnable;
    fiber->clock = 1;
    memset(fiber->seen, 0, sizeof fiber->seen);
    prepare_stack(fiber);
  }
  std::vector<int> warps = in_order((launch.threads + kLanes - 1) / kLanes), lanes = in_order(kLanes);
  while (launch.exited < launch.threads && !now.failed) {
    if (order == Order::kShuffled) {
      std::shuffle(warps.begin(), warps.end(), random);
      std::shuffle(lanes.begin(), lanes.end(), random);
    }
    bool progress = false;
    for (size_t i = 0; i < warps.size() && !now.failed; i++) progress |= run_warp(warps[i] * kLanes, lanes);
    if (now.failed) return;
    if (launch.waiting && launch.waiting + launch.exited == launch.threads)
      open_barrier();
    else if (!progress && launch.exited < launch.threads)
      stop(deadlock());
  }
}

std::string refuse(const Kernel& kernel, Index grid, Index block, size_t shared_bytes) {
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (!grid.x || !grid.y || !grid.z || !threads) return "invalid configuration: an empty grid or block";
  if (threads > 1024 || block.z > 64) return "invalid configuration: the block is too large";
  if (threads > static_cast<uint64_t>(kernel.max_threads)) return "invalid configuration: above __launch_bounds__";
  if (grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535) return "invalid configuration: the grid is too large";
  if (shared_bytes > kSharedLimit) return "invalid configuration: too much dynamic shared memory";
  return "";
}

}  // namespace

Index thread_index() { return now.fiber->thread; }
Index block_index() { return launch.at; }
Index block_size() { return launch.block; }
Index grid_size() { return launch.grid; }
Index current_block() { return launch.at; }
Fiber* fiber_at(int id) { return fibers[id]; }
int block_threads() { return launch.threads; }

const char* base_name(const char* file) {
  const char* slash = strrchr(file, '/');
  return slash ? slash + 1 : file;
}

std::string text_of(const char* format, ...) {
  char text[1024];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  return text;
}

void fail(const char* format, ...) {
  char text[1024];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  stop(block_text() + text_of(" thread %d: ", now.fiber->id) + text);
  to_scheduler();
  abort();
}

void* dynamic_shared() { return launch.dynamic; }

void* static_shared(const void* key, size_t bytes, size_t align, const char* name) {
  for (const SharedVariable& each : launch.variables)
    if (each.key == key) return each.data;
  const size_t at = (launch.arena_used + 64 + align - 1) / align * align;  // a gap that belongs to no variable
  launch.arena_used = at + bytes;
  launch.static_bytes += (bytes + 15) / 16 * 16;
  if (launch.static_bytes > kStaticSharedLimit) fail("static shared memory is above 48 KiB");
  if (launch.static_bytes + launch.dynamic_bytes > kSharedLimit)
    fail("static and dynamic shared memory exceed a block's");
  char* data = arena + at;
  memset(data, 0xff, bytes);
  launch.variables.push_back({key, data, bytes});
  add_memory(name, data, bytes, 2, false, false, true);
  return data;
}

void block_barrier(int line, const char* file) {
  now.fiber->line = line;
  now.fiber->file = file;
  now.fiber->state = State::kAtBarrier;
  launch.waiting++;
  to_scheduler();
}

uint64_t warp_op(WarpOp op, unsigned mask, int argument, int width, uint64_t value, int line, const char* file) {
  Fiber* self = now.fiber;
  const int lane = self->id % kLanes, first = self->id - lane, lanes = std::min(kLanes, launch.threads - first);
  const char *here = base_name(file), *name = op_name(op);
  if (!(mask >> lane & 1)) fail("%s:%d %s: calling lane %d is not in mask 0x%08x", here, line, name, lane, mask);
  if (lanes < kLanes && mask >> lanes)
    fail("%s:%d %s: mask 0x%08x names lanes beyond the block", here, line, name, mask);
  if (width < 1 || width > kLanes || (width & (width - 1))) fail("%s:%d %s: width %d", here, line, name, width);
  const int source = source_of(op, lane, argument, width);
  if (!(mask >> source & 1))
    fail("%s:%d %s: lane %d reads lane %d, not in mask 0x%08x", here, line, name, lane, source, mask);
  self->line = line;
  self->file = file;
  self->op = op;
  self->mask = mask;
  self->source_lane = source;
  self->value = value;
  self->state = State::kAtWarpOp;
  bool all = true;
  for (int other = 0; other < lanes; other++) {
    if (!(mask >> other & 1)) continue;
    check_meeting(self, other);
    all &= fibers[first + other]->state == State::kAtWarpOp;
  }
  if (all)
    complete_warp_op(self, lanes);
  else
    to_scheduler();
  return self->result;
}

std::string run(const Kernel& kernel, void* arguments, Index grid, Index block, size_t shared_bytes) {
  const std::string refused = refuse(kernel, grid, block, shared_bytes);
  if (!refused.empty()) return refused;
  launch = Launch();
  launch.kernel = &kernel;
  launch.arguments = arguments;
  launch.grid = grid;
  launch.block = block;
  launch.threads = static_cast<int>(block.x * block.y * block.z);
  now.failed = false;
  now.launch_start = ++now.epoch;
  grow_fibers(static_cast<size_t>(launch.threads));
  if (arena == nullptr)
    arena = static_cast<char*>(mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::vector<char> dynamic(shared_bytes + 16);
  launch.dynamic = dynamic.data() + (16 - reinterpret_cast<uintptr_t>(dynamic.data()) % 16);
  launch.dynamic_bytes = shared_bytes;
  add_memory("dynamic shared memory", launch.dynamic, shared_bytes, 2, false, false, true);

  std::mt19937 random(seed);
  std::vector<int> blocks = in_order(static_cast<int>(grid.x * grid.y * grid.z));
  if (order == Order::kShuffled) std::shuffle(blocks.begin(), blocks.end(), random);
  for (const int each : blocks) {
    const unsigned id = static_cast<unsigned>(each);
    launch.at = {id % grid.x, id / grid.x % grid.y, id / grid.x / grid.y};
    run_block(random);
    if (now.failed) break;
  }
  remove_memory(launch.dynamic);
  for (const SharedVariable& each : launch.variables) remove_memory(each.data);
  return launch.error;
}

}  // namespace emu
