/* What ginrs-cc's rewritten text stands on: launches, kernels, __device__ variables, dynamic shared memory.
 *
 *   __global__ void k(int n) { body }    void k(int n) { kernel<&k>([=]() mutable { body }); }
 *   k<<<grid, block>>>(3)                (Launch("file", 7, grid, block), k(3))
 *
 * so a kernel called on a host thread queues its body, with its parameters captured, for the launch around the call;
 * called on a CUDA thread (cudaLaunchKernel does that) it runs the body. C++17. */
#ifndef GINRS_CPU_LAUNCH_H_
#define GINRS_CPU_LAUNCH_H_
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include "../driver_types.h"
#include "../vector_types.h"
#include "race.h"
#include "runtime.h"

#if !defined(__GINRS_RACE__) && !defined(GINRS_CPU_OWN_KERNELS)
/* The race detector says nothing where it does not see all (--check=race). Weak: objects also go into programs without the library. */
extern "C" __attribute__((weak)) void ginrs_cpu_race_told(int what, int32_t rank);
static __attribute__((constructor)) void ginrs_cpu_unwatched(void) {
  if (ginrs_cpu_race_told != nullptr) ginrs_cpu_race_told(GINRS_CPU_RACE_UNWATCHED, 0);
}
#endif

namespace ginrs_cpu {

/* The part between <<< and >>>. It lives to the end of the full expression that launches; launches nest where an argument
 * is computed by a function that launches too. */
class Launch {
 public:
  Launch(const char* file, int line, dim3 grid, dim3 block, size_t sharedBytes = 0, cudaStream_t stream = nullptr)
      : outer(innermost) {
    if (ginrs_cpu_self) ginrs_cpu_trap("a launch in device code is not available on the CPU device", file, line);
    request.grid = {grid.x, grid.y, grid.z};
    request.block = {block.x, block.y, block.z};
    request.sharedBytes = sharedBytes;
    request.stream = stream;
    request.file = file;
    request.line = line;
    innermost = this;
  }
  /* Not copied: the kernel called next finds it by its address. */
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  ~Launch() { innermost = outer; }

  /* The launch that a kernel called on this host thread belongs to. */
  static ginrsCpuLaunch take(const char* kernel) {
    if (innermost == nullptr || innermost->taken) {
      std::fprintf(stderr, "ginrs: kernel %s was called like a function; launch it with <<<grid, block>>>\n", kernel);
      std::abort();
    }
    innermost->taken = true;
    return innermost->request;
  }

 private:
  ginrsCpuLaunch request = {};
  bool taken = false;
  Launch* outer;
  static inline __thread Launch* innermost = nullptr;
};

/* True for a kernel's type with parameters that every CUDA thread can have its own copy of; else an error. */
template <class... P>
constexpr bool copied(void (*)(P...)) {
  static_assert(!(std::is_reference_v<P> || ...), "a __global__ function cannot have a parameter of reference type");
  static_assert((std::is_copy_constructible_v<P> && ...),
                "every parameter of a __global__ function must be copyable: each CUDA thread gets its own copy");
  return true;
}
template <class Pointer>
constexpr bool parameters() {
  return copied(Pointer());
}

/* A kernel by its address: its name, and how cudaLaunchKernel calls it with an array of pointers to its arguments. */
template <auto Entry, class = decltype(Entry)>
struct Kernel;
template <auto Entry, class... P>
struct Kernel<Entry, void (*)(P...)> {
  static const char* name() {
    static const std::string text = cut(__PRETTY_FUNCTION__);
    return text.c_str();
  }
  static bool add() {
    const ginrsCpuKernel kernel = {(const void*)Entry, name(), pack, invoke, destroy};
    ginrs_cpu_register_kernel(&kernel);
    return true;
  }
  /* Runs when the program or library is loaded, for every kernel and every instance of a template that is used. */
  static inline const bool registered = add();

 private:
  typedef std::tuple<P...> Packed;
  static void* pack(void** arguments) { return pack(arguments, std::index_sequence_for<P...>()); }
  template <size_t... I>
  static void* pack([[maybe_unused]] void** arguments, std::index_sequence<I...>) {
    return new Packed(*static_cast<P*>(arguments[I])...);
  }
  static void invoke(void* packed) {
    GINRS_CPU_COPYING(1);
    std::apply([](const auto&... argument) { Entry(argument...); }, *static_cast<const Packed*>(packed));
  }
  static void destroy(void* packed) { delete static_cast<Packed*>(packed); }
  /* The compiler's "... [with auto Entry = ns::k<float>; ...]" or "... [Entry = &ns::k, ...]". */
  static std::string cut(const std::string& pretty) {
    size_t from = pretty.find("Entry = ");
    if (from == std::string::npos) return pretty;
    from += 8;
    if (pretty[from] == '&') from++;
    size_t to = from;
    for (int depth = 0; to < pretty.size(); to++) {
      char c = pretty[to];
      if (c == '<' || c == '(' || c == '[' || c == '{') depth++;
      if (depth == 0 && (c == ';' || c == ',' || c == ']')) break;
      if (c == '>' || c == ')' || c == ']' || c == '}') depth--;
    }
    return pretty.substr(from, to - from);
  }
};

/* __launch_bounds__ of a kernel: the first of these. */
template <class Most, class... More>
constexpr unsigned bound(Most most, More...) {
  return static_cast<unsigned>(most);
}
template <auto Entry, unsigned Most>
struct Bound {
  static bool add() {
#ifndef GINRS_CPU_OWN_KERNELS
    ginrs_cpu_bound_kernel((const void*)Entry, Most);
#endif
    return true;
  }
  static inline const bool known = add();
};

/* The one place that holds the body's code: it is entered on two ways. */
template <class Body>
__attribute__((noinline)) inline void run(Body& body) {
  GINRS_CPU_COPYING(0);
  body();
  GINRS_CPU_COPYING(1);
}

/* Queues the body for the launch around the call. Like run, it takes the body by reference and is not inlined: then every
 * copy of the parameters is one of whole structs, padding included (abi-tests/cpu-kernels/idioms.cu). */
template <auto Entry, class Body>
__attribute__((noinline)) inline void queue(Body& body) {
  ginrsCpuLaunch request = Launch::take(Kernel<Entry>::name());
  request.kernel.entry = (const void*)Entry;
  request.kernel.name = Kernel<Entry>::name();
  /* Every CUDA thread runs a copy, so that it may change its parameters. */
  request.kernel.invoke = [](void* packed) {
    GINRS_CPU_COPYING(1);
    Body copy(*static_cast<const Body*>(packed));
    run(copy);
  };
  request.kernel.destroy = [](void* packed) { delete static_cast<Body*>(packed); };
  request.packed = new Body(std::move(body));
  ginrs_cpu_launch(&request); /* keeps its error for cudaGetLastError */
}

/* What a kernel's function does; Body is its body with the parameters captured by value. */
template <auto Entry, unsigned Most = 0, class Body>
inline void kernel(Body&& body) {
  (void)&Kernel<Entry>::registered;
  if constexpr (Most != 0) (void)&Bound<Entry, Most>::known;
  if (ginrs_cpu_self)
    run(body);
  else
    queue<Entry>(body);
}

/* The copy of a __device__ variable that belongs to the device of this thread; `master` itself on a host thread. */
template <class T>
inline T& device_variable(T& master, const char* name) {
  void* address = const_cast<void*>(static_cast<const volatile void*>(std::addressof(master)));
  return *static_cast<T*>(ginrs_cpu_device_variable(address, sizeof master, name));
}

/* What an `extern __shared__` variable of any type is bound to. */
struct DynamicShared {
  template <class T>
  operator T&() const {
    return *static_cast<T*>(ginrs_cpu_dynamic_shared());
  }
};
/* The same at namespace scope. Thread-local variables of one file are bound together, so this is also asked for on host
 * threads, which never use it. */
struct DynamicSharedOrNothing {
  template <class T>
  operator T&() const {
    alignas(1024) static char nothing[1024];
    return *static_cast<T*>(ginrs_cpu_self ? ginrs_cpu_dynamic_shared() : static_cast<void*>(nothing));
  }
};

/* Shared memory between bytes that are nobody's (-fsanitize=address); once for each OS thread. */
extern "C" void __asan_poison_memory_region(const volatile void*, size_t);
template <class Fence>
inline Fence& fenced(Fence& memory) {
  __asan_poison_memory_region(memory.before, sizeof memory.before);
  __asan_poison_memory_region(memory.after, sizeof memory.after);
  return memory;
}

}  // namespace ginrs_cpu
#endif
