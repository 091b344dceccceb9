// Messages, memory and threads for the kernels; part of dispatch.cpp.
#pragma once
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "../common/glibc_floor.h"
#include "variant.h"

namespace mamba {

static thread_local char error_message[512];

__attribute__((format(printf, 2, 3))) static MambaStatus fail(MambaStatus status, const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(error_message, sizeof error_message, format, values);
  va_end(values);
  return status;
}

void* allocate(int64_t bytes) {
  void* memory = nullptr;
  if (bytes >= 0 && posix_memalign(&memory, 64, static_cast<size_t>(bytes) + 64) == 0) return memory;
  fail(MAMBA_OUT_OF_MEMORY, "out of memory: %lld bytes of work space for this call could not be had",
       static_cast<long long>(bytes));
  return nullptr;
}

void release(void* memory) { free(memory); }

constexpr int32_t kMostThreads = 256;

int32_t useful_threads(int32_t threads, int64_t work, int64_t work_per_thread) {
  const int64_t busy = 1 + work / work_per_thread;
  if (threads > kMostThreads) threads = kMostThreads;
  return busy < threads ? static_cast<int32_t>(busy) : threads;
}

namespace {

struct Team {
  int64_t count;
  int64_t next;  // shared: the first task that nobody has taken
  void (*task)(void*, int64_t, int32_t);
  void* context;
};

struct Worker {
  Team* team;
  int32_t number;
};

void* work(void* argument) {
  const Worker& worker = *static_cast<Worker*>(argument);
  Team& team = *worker.team;
  for (;;) {
    const int64_t index = __atomic_fetch_add(&team.next, int64_t(1), __ATOMIC_RELAXED);
    if (index >= team.count) return nullptr;
    team.task(team.context, index, worker.number);
  }
}

}  // namespace

// Threads live for the call only: no pool means nothing that a fork could leave behind. Where the system refuses a
// thread, the others do its share.
void run_tasks(int64_t count, int32_t threads, void (*task)(void*, int64_t, int32_t), void* context) {
  if (threads > kMostThreads) threads = kMostThreads;
  if (threads > count) threads = static_cast<int32_t>(count);
  Team team{count, 0, task, context};
  Worker workers[kMostThreads];
  pthread_t started[kMostThreads];
  int32_t running = 0;
  for (int32_t i = 1; i < threads; ++i) {
    workers[i] = Worker{&team, i};
    if (pthread_create(&started[running], nullptr, work, &workers[i]) != 0) break;
    ++running;
  }
  workers[0] = Worker{&team, 0};
  work(&workers[0]);
  for (int32_t i = 0; i < running; ++i) pthread_join(started[i], nullptr);
}

}  // namespace mamba
