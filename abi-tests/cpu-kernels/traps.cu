// Integer division by zero in a kernel goes on, whoever took SIGFPE before or after the device's start; a trap of the host's
// goes to the handler that the program has, with that handler's flags. Each case is a process of its own.
#include "check.h"
#include <csetjmp>
#include <csignal>
#include <dlfcn.h>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

// Libraries with error handlers of their own (UCX under MPI) put a sigaction before libc's that refuses to replace them.
static bool refusing;
extern "C" int sigaction(int signal, const struct sigaction* set, struct sigaction* old) noexcept {
  typedef int Function(int, const struct sigaction*, struct sigaction*);
  static Function* const next = (Function*)dlsym(RTLD_NEXT, "sigaction");
  return next(signal, refusing && signal == SIGFPE ? nullptr : set, old);
}

__global__ void divide(int* out, int by) { out[threadIdx.x] = (int)(threadIdx.x + 1) / by; }

static volatile int zero = 0;
static volatile sig_atomic_t calls, second;
static sigjmp_buf back;
static siginfo_t seen;
static bool blocked, informed;
static struct sigaction before;

static void note() {
  calls = calls + 1;
  sigset_t mask;
  sigprocmask(SIG_SETMASK, nullptr, &mask);
  blocked = sigismember(&mask, SIGUSR1);
}
static void plain(int) {
  note();
  siglongjmp(back, 1);
}
static void telling(int, siginfo_t* info, void* context) {
  note();
  seen = *info;
  informed = context != nullptr;
  siglongjmp(back, 1);
}
static void returning(int) { note(); }
// Passes on to whom it replaced, as libraries do.
static void passing(int signal, siginfo_t* info, void* context) {
  note();
  if (calls > 3) _exit(99);  // going round in a circle
  if (before.sa_flags & SA_SIGINFO) before.sa_sigaction(signal, info, context);
  else if (before.sa_handler == SIG_DFL) std::signal(signal, SIG_DFL);
  else before.sa_handler(signal);
}
static void replacing(int) {
  second = second + 1;
  siglongjmp(back, 1);
}

template <class Handler>
static void take(Handler* handler, int flags, bool with_mask = false) {
  struct sigaction action = {};
  if constexpr (std::is_same<Handler, void(int, siginfo_t*, void*)>::value) action.sa_sigaction = handler;
  else action.sa_handler = handler;
  action.sa_flags = flags;
  if (with_mask) sigaddset(&action.sa_mask, SIGUSR1);
  sigaction(SIGFPE, &action, &before);
}

// A kernel divides by zero and goes on, past every handler of the program's.
static void kernel_divides() {
  int *out, host[2] = {0, 0}, called = calls;
  CUDA(cudaMalloc(&out, sizeof host));
  divide<<<1, 2>>>(out, zero);
  CUDA(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
  CHECK(host[0] == -1 && host[1] == -1);
  CHECK(calls == called);
}
static void host_divides() {
  if (sigsetjmp(back, 1) == 0) printf("%d\n", getpid() / zero);
}

// What has become of a process: 0 is well, a number below 128 its status, above that the signal.
static int in_a_process(const std::function<void()>& body) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    body();
    int status = failures != 0;
    fflush(stdout);
    _exit(status);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

struct Case {
  const char* name;
  int ends;
  std::function<void()> body;
};

int main() {
  const int by_trap = 128 + SIGFPE;
  const Case cases[] = {
      {"a handler from before the start", 0, [] {
         take(telling, SA_SIGINFO);
         kernel_divides();
         for (int i = 1; i <= 3; i++) {
           host_divides();
           CHECK(calls == i && seen.si_code == FPE_INTDIV && informed && !blocked);
           kernel_divides();
         }
       }},
      {"a handler from after the start", 0, [] {
         kernel_divides();
         take(plain, 0, true);
         kernel_divides();
         for (int i = 1; i <= 3; i++) {
           host_divides();
           CHECK(calls == i && blocked);
           kernel_divides();
         }
       }},
      {"handlers that come and go", 0, [] {
         for (int i = 1; i <= 40; i++) {
           kernel_divides();
           take(plain, 0);
           struct sigaction kept = before;
           kernel_divides();
           host_divides();
           CHECK(calls == i);
           sigaction(SIGFPE, &kept, nullptr);
           kernel_divides();
         }
       }},
      {"a second handler replaces the first", 0, [] {
         take(plain, 0);
         kernel_divides();
         take(replacing, 0);
         kernel_divides();
         host_divides();
         CHECK(calls == 0 && second == 1);
       }},
      {"a handler that passes on, to the default", by_trap, [] {
         kernel_divides();
         take(passing, SA_SIGINFO);
         kernel_divides();
         host_divides();
       }},
      {"a handler that passes on, to another", 0, [] {
         take(replacing, 0);
         kernel_divides();
         take(passing, SA_SIGINFO);
         kernel_divides();
         for (int i = 1; i <= 3; i++) {
           host_divides();
           CHECK(calls == i && second == i);
         }
       }},
      {"a handler for one signal only", by_trap, [] {
         take(plain, SA_RESETHAND);
         kernel_divides();
         host_divides();
         CHECK(calls == 1);
         if (failures) _exit(1);
         kernel_divides();
         host_divides();
       }},
      {"a handler that returns from a signal of another process", 0, [] {
         take(returning, 0);
         kernel_divides();
         raise(SIGFPE);
         CHECK(calls == 1);
         kernel_divides();
       }},
      {"the default, and a trap", by_trap, [] {
         kernel_divides();
         host_divides();
       }},
      {"the default, and a signal", by_trap, [] {
         kernel_divides();
         raise(SIGFPE);
       }},
      {"ignored, and a signal", 0, [] {
         std::signal(SIGFPE, SIG_IGN);
         kernel_divides();
         raise(SIGFPE);
         kernel_divides();
       }},
      {"ignored, and a trap", by_trap, [] {
         std::signal(SIGFPE, SIG_IGN);
         kernel_divides();
         host_divides();
       }},
      {"a library that keeps its own handler", 0, [] {
         take(telling, SA_SIGINFO);
         refusing = true;
         kernel_divides();
         host_divides();
         CHECK(calls == 1 && seen.si_code == FPE_INTDIV);
         kernel_divides();
       }},
  };
  int wrong = 0;
  for (const Case& one : cases) {
    int status = in_a_process(one.body);
    if (status != one.ends) {
      printf("%s: ended with %d, not %d\n", one.name, status, one.ends);
      wrong++;
    }
  }
  if (wrong == 0) printf("traps: ok\n");
  return wrong != 0;
}
