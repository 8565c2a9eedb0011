// The pool. A job is open while its caller runs pieces of it; workers come in if they are awake in time, and the caller
// waits only for those inside. So a worker that the system does not schedule delays nobody.
#include "parallel.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "sanitizer.h"

namespace needle {
namespace {

using Body = std::function<void(int64_t, int64_t)>;

constexpr int kMaxThreads = 256;
constexpr int kPiecesPerThread = 4;  // so that a thread that was interrupted leaves most of its share to others
constexpr auto kSpin = std::chrono::microseconds(200);
constexpr int kPausesPerLook = 64;

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

// The pieces of one thread, on a cache line of its own. It takes them in order, and others' when it has none left.
struct alignas(64) Share {
  std::atomic<int64_t> next{0};
  int64_t end = 0;
};

class Pool {
 public:
  explicit Pool(int threads) : shares_(new Share[threads]), threads_(threads) {
    sigset_t all, before;  // signals are for the threads that Python knows
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      for (int id = 1; id < threads; ++id) workers_.emplace_back([this, id] { work(id); });
    } catch (const std::system_error&) {
      // The system gives no more threads: those there are do the work.
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~Pool() {
    stopping_.store(true);
    wake();
    for (std::thread& worker : workers_) worker.join();
  }

  void run(int64_t n, int64_t grain, const Body& body) {
    int64_t grains = (n + grain - 1) / grain;
    int64_t per_piece = std::max<int64_t>(1, grains / (int64_t{threads_} * kPiecesPerThread));
    piece_ = per_piece * grain;
    n_ = n;
    body_ = &body;
    error_ = nullptr;
    int64_t pieces = (n + piece_ - 1) / piece_;
    for (int t = 0; t < threads_; ++t) {
      shares_[t].next.store(pieces * t / threads_, std::memory_order_relaxed);
      shares_[t].end = pieces * (t + 1) / threads_;
    }
    inside_.fetch_and(~kClosed, std::memory_order_release);  // a worker may be inside still, about to leave
    wake();
    take_pieces(0);
    inside_.fetch_or(kClosed, std::memory_order_acq_rel);
    for (int looks = 0; inside_.load(std::memory_order_acquire) != kClosed; ++looks) {
      if (looks < 1000) {
        pause();
      } else {
        sched_yield();  // on a busy machine the worker needs this processor
      }
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  static constexpr uint32_t kClosed = 1u << 31;

  void wake() {
    generation_.fetch_add(1);  // sequentially consistent, like sleepers_: either side sees the other's change
    if (sleepers_.load() > 0) {
      { std::lock_guard<std::mutex> lock(mutex_); }
      condition_.notify_all();
    }
  }

  void work(int id) {
    uint32_t seen = 0;
    while (true) {
      seen = wait_beyond(seen);
      if (stopping_.load()) return;
      if (!(inside_.fetch_add(1, std::memory_order_acq_rel) & kClosed)) take_pieces(id);
      inside_.fetch_sub(1, std::memory_order_release);
    }
  }

  // Spin for a while, then sleep, until the generation is another than `seen`; give it. On a busy machine the caller may
  // be waiting for this very processor, so it is offered again and again.
  uint32_t wait_beyond(uint32_t seen) {
    auto start = std::chrono::steady_clock::now();
    do {
      for (int i = 0; i < kPausesPerLook; ++i) {
        uint32_t now = generation_.load(std::memory_order_acquire);
        if (now != seen) return now;
        pause();
      }
      sched_yield();
    } while (std::chrono::steady_clock::now() - start < kSpin);
    std::unique_lock<std::mutex> lock(mutex_);
    sleepers_.fetch_add(1);
    condition_.wait(lock, [&] { return generation_.load() != seen; });
    sleepers_.fetch_sub(1);
    return generation_.load();
  }

  void take_pieces(int id) {
    try {
      for (int k = 0; k < threads_; ++k) {
        Share& share = shares_[(id + k) % threads_];
        int64_t i;
        while ((i = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end) {
          (*body_)(i * piece_, std::min(n_, (i + 1) * piece_));
        }
      }
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex_);
      error_ = std::current_exception();
    }
  }

  // The job.
  const Body* body_ = nullptr;
  int64_t n_ = 0, piece_ = 0;
  std::unique_ptr<Share[]> shares_;
  std::exception_ptr error_;

  const int threads_;
  alignas(64) std::atomic<uint32_t> generation_{0};
  alignas(64) std::atomic<uint32_t> inside_{kClosed};  // workers in the job, and whether it is closed to further ones
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable condition_;
  std::vector<std::thread> workers_;
};

// The pool is made when it is first needed, and never destroyed at exit: its threads sleep until the process is gone.
Pool* pool = nullptr;
int pool_threads = 0;
std::atomic<bool> pool_taken{false};
std::atomic<int> wanted_threads{0};  // 0: not set yet

// After a fork the child has none of the pool's threads, and perhaps a caller's mark of one that it does not have.
void forget_pool() {
  pool = nullptr;
  pool_threads = 0;
  pool_taken.store(false);
}

const int fork_handler = pthread_atfork(nullptr, nullptr, forget_pool);

class TakenPool {
 public:
  TakenPool() : mine_(!pool_taken.exchange(true, std::memory_order_acquire)) {}
  ~TakenPool() {
    if (mine_) pool_taken.store(false, std::memory_order_release);
  }
  explicit operator bool() const { return mine_; }

 private:
  bool mine_;
};

struct Scratch {
  void* data = nullptr;
  int64_t bytes = 0;
  ~Scratch() { ::operator delete(data, std::align_val_t(64)); }
};

}  // namespace

int available_processors() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  return std::max(1u, std::thread::hardware_concurrency());
}

int num_threads() {
  int n = wanted_threads.load(std::memory_order_relaxed);
  if (n == 0) wanted_threads.store(n = std::min(available_processors(), kMaxThreads));
  return n;
}

void set_num_threads(int n) { wanted_threads.store(std::max(1, std::min(n, kMaxThreads))); }

void parallel_for(int64_t n, int64_t grain, const Body& body) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  int threads = num_threads();
  if (threads == 1 || n <= grain) return body(0, n);
  TakenPool taken;
  if (!taken) return body(0, n);
  if (pool_threads != threads) {
    delete pool;
    pool = nullptr;
    pool_threads = 0;
    pool = new Pool(threads);
    pool_threads = threads;
  }
  pool->run(n, grain, body);
}

void* scratch(int slot, int64_t bytes) {
  static thread_local Scratch buffers[8];
  Scratch& buffer = buffers[slot];
  if (buffer.bytes < bytes) {
    ::operator delete(buffer.data, std::align_val_t(64));
    buffer.data = nullptr;
    buffer.bytes = 0;
    buffer.data = ::operator new(static_cast<size_t>(bytes), std::align_val_t(64));
    buffer.bytes = bytes;
  }
  permit(buffer.data, bytes);
  forbid(static_cast<char*>(buffer.data) + bytes, buffer.bytes - bytes);
  return buffer.data;
}

}  // namespace needle
