// NVIDIA's libnccl.so.2 without NVIDIA's driver: its CUDA calls go to the CPU device.
//
// The library holds a CUDA runtime of its own (linked statically), which runs on NVIDIA's driver alone. Its functions have names in the
// file's symbol table, so each `cudaX` is made to jump to the one of libginrs_cpu that the program has, before the first call. Nothing
// of the library itself is changed, nor is anything told to its own runtime, which is not called any more.
//
//   LD_PRELOAD="libredirect.so /path/of/NVIDIA's/libnccl.so.2" ./program --threads 2
//
// The same file under the name libnvidia-ml.so.1 is the little of NVML that the library asks at start. x86-64.
//
// THEIRS_SAYS=1         each function that is redirected, and each call of one that is not there
// THEIRS_RUNTIME=own    redirects nothing: for a GPU, where only the next line is wanted
// THEIRS_RANKS=2        so many ranks, as threads, wait for each other behind ncclDevCommCreate and before ncclDevCommDestroy
// THEIRS_HOSTS=thread   each thread that asks is on a host of its own: ranks may share a GPU, and reach each other by the card alone
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef unsigned long long handle_t;
enum { kOk = 0, kInvalid = 1, kNotSupported = 801, kDescriptor = 1 };
static int says;

// What is not on the CPU device: the call fails, and its name is told. Each has a few bytes of code that load the name.
static int missing(const char* name) {
  if (says) fprintf(stderr, "redirect: %s was called and is not there\n", name);
  return kNotSupported;
}

static void* missingNamed(const char* name) {
  static unsigned char* code;
  static size_t used;
  if (code == NULL) {
    code = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED) abort();
  }
  unsigned char* at = code + used;
  void *text = strdup(name), *function = (void*)missing;
  if ((used += 32) > 1 << 16) abort();
  memcpy(at, "\x48\xbf", 2);  // mov rdi, text
  memcpy(at + 2, &text, 8);
  memcpy(at + 10, "\x48\xb8", 2);  // mov rax, function
  memcpy(at + 12, &function, 8);
  memcpy(at + 20, "\xff\xe0", 2);  // jmp rax
  return at;
}

#define ON_CPU(name, ...) (((int (*)(__VA_ARGS__))dlsym(RTLD_DEFAULT, #name)))

// ---- Memory handles. The library wants descriptors that it can hand to another process, which the CPU device has not. Its ranks are
// threads here, so a descriptor is a file with the handle in it, and a handle counts how often it was imported.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { handle_t handle; int more; } imported[1 << 14];

// Changes how many more releases a handle has before its last; -1: this is the last one.
static int more(handle_t handle, int by) {
  int left = -1;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < sizeof imported / sizeof *imported; i++) {
    if (imported[i].handle != handle && !(by > 0 && imported[i].more == 0)) continue;
    if (imported[i].more + by < 0) break;
    imported[i].handle = handle;
    left = imported[i].more += by;
    break;
  }
  pthread_mutex_unlock(&lock);
  return left;
}

struct prop {  // the start of CUmemAllocationProp
  int type, handleTypes, locationType, location;
  char rest[16];
};

static int memCreate(handle_t* out, size_t bytes, const struct prop* prop, handle_t flags) {
  struct prop plain = *prop;
  plain.handleTypes = 0;
  return ON_CPU(cuMemCreate, handle_t*, size_t, struct prop*, handle_t)(out, bytes, &plain, flags);
}

static int memGranularity(size_t* out, const struct prop* prop, int option) {
  struct prop plain = *prop;
  plain.handleTypes = 0;
  return ON_CPU(cuMemGetAllocationGranularity, size_t*, struct prop*, int)(out, &plain, option);
}

static int memProperties(struct prop* out, handle_t handle) {
  int result = ON_CPU(cuMemGetAllocationPropertiesFromHandle, struct prop*, handle_t)(out, handle);
  if (result == kOk) out->handleTypes = kDescriptor;
  return result;
}

static int memExport(int* out, handle_t handle, int type, handle_t flags) {
  (void)flags;
  if (type != kDescriptor) return kNotSupported;
  *out = memfd_create("handle", MFD_CLOEXEC);
  return *out >= 0 && pwrite(*out, &handle, sizeof handle, 0) == sizeof handle ? kOk : kInvalid;
}

static int memImport(handle_t* out, void* descriptor, int type) {
  if (type != kDescriptor || pread((int)(intptr_t)descriptor, out, sizeof *out, 0) != sizeof *out) return kInvalid;
  return more(*out, 1) > 0 ? kOk : kInvalid;
}

static int memRelease(handle_t handle) { return more(handle, -1) >= 0 ? kOk : ON_CPU(cuMemRelease, handle_t)(handle); }

static const struct { const char* name; void* function; } kDriver[] = {
    {"cuMemCreate", memCreate},
    {"cuMemGetAllocationGranularity", memGranularity},
    {"cuMemGetAllocationPropertiesFromHandle", memProperties},
    {"cuMemExportToShareableHandle", memExport},
    {"cuMemImportFromShareableHandle", memImport},
    {"cuMemRelease", memRelease},
};

static int entryPoint(const char* name, void** out, unsigned version, handle_t flags, int* result) {
  *out = NULL;
  for (size_t i = 0; i < sizeof kDriver / sizeof *kDriver; i++)
    if (strcmp(name, kDriver[i].name) == 0) *out = kDriver[i].function;
  if (*out == NULL) {
    ON_CPU(cudaGetDriverEntryPointByVersion, const char*, void**, unsigned, handle_t, int*)(name, out, version, flags, result);
    ON_CPU(cudaGetLastError, void)();
  }
  if (*out == NULL) *out = missingNamed(name);
  if (result != NULL) *result = 0;
  return kOk;
}

// ---- What the CPU device would refuse, or say to the program instead of to the library. Kernels of the library are not run.
static int functionAttributes(void* out, const void* function) {
  (void)function;
  memset(out, 0, 64);
  ((int*)out)[6] = 1024;  // maxThreadsPerBlock
  return kOk;
}

static int functionAttribute(const void* function, int attribute, int value) {
  (void)function, (void)attribute, (void)value;
  return kOk;
}

// A doorbell's page. Two runtimes would each have a last error, and the program not see the library's.
static int hostRegister(void* at, size_t bytes, unsigned flags) {
  int result = ON_CPU(cudaHostRegister, void*, size_t, unsigned)(at, bytes, flags);
  if (says) fprintf(stderr, "redirect: cudaHostRegister of %zu bytes with flags %u: %d\n", bytes, flags, result);
  if (result != kOk) ON_CPU(cudaGetLastError, void)();
  return result;
}

static const struct { const char* name; void* function; } kRuntime[] = {
    {"cudaGetDriverEntryPointByVersion", entryPoint},
    {"cudaFuncGetAttributes", functionAttributes},
    {"cudaFuncSetAttribute", functionAttribute},
    {"cudaHostRegister", hostRegister},
};

// ---- Hosts.
static uint64_t hostOfThread(void) {
  static __thread int anchor;
  return (uint64_t)(uintptr_t)&anchor;
}

// ---- Ranks that share a GPU. What frees memory waits for all kernels there, and a card's copies wait behind it: no kernel starts before
// every rank is through with ncclDevCommCreate, and nothing is taken away while one runs.
static void allRanks(void) {
  static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
  static unsigned arrived;
  const char* ranks = getenv("THEIRS_RANKS");
  unsigned n = ranks != NULL ? (unsigned)atoi(ranks) : 0;
  if (n < 2) return;
  pthread_mutex_lock(&lock);
  unsigned round = arrived++ / n;
  if (arrived % n == 0) pthread_cond_broadcast(&changed);
  while (arrived / n == round) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
}

int ncclDevCommCreate(void* comm, const void* requirements, void* out) {
  int result = ((int (*)(void*, const void*, void*))dlsym(RTLD_NEXT, "ncclDevCommCreate"))(comm, requirements, out);
  allRanks();
  return result;
}

int ncclDevCommDestroy(void* comm, const void* devComm) {
  allRanks();
  return ((int (*)(void*, const void*))dlsym(RTLD_NEXT, "ncclDevCommDestroy"))(comm, devComm);
}

// ---- The library's file, and its functions.
struct library { char path[4096]; uintptr_t base; };

static int isLibrary(struct dl_phdr_info* info, size_t size, void* out) {
  struct library* library = out;
  (void)size;
  if (strstr(info->dlpi_name, "libnccl.so") == NULL) return 0;
  snprintf(library->path, sizeof library->path, "%s", info->dlpi_name);
  library->base = info->dlpi_addr;
  return 1;
}

static void jump(uintptr_t from, void* to) {
  uintptr_t page = from & ~4095ul;
  if (mprotect((void*)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) abort();
  memcpy((void*)from, "\xff\x25\0\0\0\0", 6);  // jmp [the word behind]
  memcpy((void*)(from + 6), &to, 8);
}

static void* target(const char* name, int own) {
  if (getenv("THEIRS_HOSTS") != NULL && strcmp(name, "_Z11getHostHashv") == 0) return hostOfThread;
  if (own || strncmp(name, "cuda", 4) != 0 || name[4] < 'A' || name[4] > 'Z') return NULL;
  for (size_t i = 0; i < sizeof kRuntime / sizeof *kRuntime; i++)
    if (strcmp(name, kRuntime[i].name) == 0) return kRuntime[i].function;
  void* there = dlsym(RTLD_DEFAULT, name);
  return there != NULL ? there : missingNamed(name);
}

__attribute__((constructor)) static void redirect(void) {
  struct library library;
  const char* runtime = getenv("THEIRS_RUNTIME");
  says = getenv("THEIRS_SAYS") != NULL;
  if (!dl_iterate_phdr(isLibrary, &library)) return;  // a program that runs beside, as `timeout`
  int file = open(library.path, O_RDONLY | O_CLOEXEC);
  struct stat about;
  if (file < 0 || fstat(file, &about) != 0) abort();
  char* at = mmap(NULL, about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  if (at == MAP_FAILED) abort();
  const Elf64_Ehdr* head = (const Elf64_Ehdr*)at;
  const Elf64_Shdr* sections = (const Elf64_Shdr*)(at + head->e_shoff);
  int changed = 0;
  for (int i = 0; i < head->e_shnum; i++) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const Elf64_Sym* symbols = (const Elf64_Sym*)(at + sections[i].sh_offset);
    const char* names = at + sections[sections[i].sh_link].sh_offset;
    for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; k++) {
      // A jump takes 14 bytes.
      if (ELF64_ST_TYPE(symbols[k].st_info) != STT_FUNC || symbols[k].st_shndx == SHN_UNDEF || symbols[k].st_size < 14) continue;
      void* to = target(names + symbols[k].st_name, runtime != NULL && strcmp(runtime, "own") == 0);
      if (to == NULL) continue;
      if (says) fprintf(stderr, "redirect: %s\n", names + symbols[k].st_name);
      jump(library.base + symbols[k].st_value, to);
      changed++;
    }
  }
  munmap(at, about.st_size);
  close(file);
  if (changed == 0) {
    fprintf(stderr, "redirect: %s has no symbol table | fix: the libnccl.so.2 of the package nvidia-nccl-cu13\n", library.path);
    exit(2);
  }
}
