// Memory that is not the program's, for AddressSanitizer: CASE names one of these mistakes, MENDED=1 runs its mended twin. Ranks are processes
// or threads, as with every example. tests/memory.rs finds the marked lines ("touch of: ...") by their marks.
#include "../../examples-c/common/example.h"

static const int count = 1001; // 4004 bytes: no multiple of what AddressSanitizer counts in
static const int large = 1 << 20, granule = 1 << 19;

enum Case {
  MALLOC, BEFORE, FREED, ASYNC, ASYNC_FREED, PINNED, MANAGED, LARGE, NCCL, NCCL_BEFORE, GRANULE, NCCL_FREED, WINDOW, LOCAL, PART, DYNAMIC,
  STATIC, VARIABLE, STACK, CASES
};
static const char* const names[CASES] = {
    "malloc", "before", "freed", "async", "async-freed", "pinned", "managed", "large", "nccl", "nccl-before", "granule", "nccl-freed",
    "window", "local", "part", "dynamic", "static", "variable", "stack"};

__device__ int variable[count];

// `past`: 1 in the mistakes, 0 in the mended ones.
__global__ void kernel(int which, int past, int* p, ncclWindow_t window, int peer) {
  extern __shared__ int dynamic[];
  __shared__ int fixed[33];
  int own[9];
  switch (which) {
    case MALLOC: p[count - 1 + past] = 1; break;  // touch of: malloc
    case BEFORE: p[-past] = 2; break;  // touch of: before
    case FREED: p[past - past] = 3; break;  // touch of: freed
    case ASYNC: p[count - 1 + past] = 4; break;  // touch of: async
    case ASYNC_FREED: p[past - past] = 5; break;  // touch of: async-freed
    case LARGE: p[large - 1 + past] = 6; break;  // touch of: large
    case NCCL: p[count - 1 + past] = 7; break;  // touch of: nccl
    case NCCL_BEFORE: p[-past] = 8; break;  // touch of: nccl-before
    case GRANULE: p[granule - 1 + past] = 9; break;  // touch of: granule
    case NCCL_FREED: p[past - past] = 10; break;  // touch of: nccl-freed
    case WINDOW: ((int*)ncclGetLsaPointer(window, 0, peer))[count - 1 + past] = 11; break;  // touch of: window
    case LOCAL: ((int*)ncclGetLocalPointer(window, 0))[count - 1 + past] = 12; break;  // touch of: local
    case PART: ((int*)ncclGetLocalPointer(window, 0))[1023 + past] = 13; break;  // touch of: part
    case DYNAMIC: dynamic[9 + past] = 14; break;  // touch of: dynamic
    case STATIC: fixed[threadIdx.x + past] = 15; break;  // touch of: static
    case VARIABLE: variable[count - 1 + past] = 16; break;  // touch of: variable
    case STACK: own[threadIdx.x % 9 + 9 * past] = 17; p[0] = own[threadIdx.x % 7]; break;  // touch of: stack
  }
}

int runRank(Example& ex) {
  const char* name = getenv("CASE");
  int which = 0;
  while (which < CASES && (!name || strcmp(name, names[which]) != 0)) which++;
  if (which == CASES) return fprintf(stderr, "CASE is none of those in the source\n"), 1;
  int past = getenv("MENDED") ? 0 : 1;
  int *p, *q, *pinned, *managed;
  CUDACHECK(cudaMalloc(&p, (which == LARGE ? large : count) * sizeof *p));
  CUDACHECK(cudaMallocAsync(&q, count * sizeof *q, ex.stream));
  CUDACHECK(cudaMallocHost(&pinned, count * sizeof *pinned));
  CUDACHECK(cudaMallocManaged(&managed, count * sizeof *managed));
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  if (which == PINNED) pinned[count - 1 + past] = 1;  // touch of: pinned
  if (which == MANAGED) managed[count - 1 + past] = 1;  // touch of: managed
  void *memory, *more, *all;
  ncclWindow_t window, part;
  memory = ex.allocWindow(count * sizeof(int), &window);
  NCCLCHECK(ncclMemAlloc(&all, 4 * 4096));
  NCCLCHECK(ncclCommWindowRegister(ex.comm, (char*)all + 4096, 4096, &part, NCCL_WIN_COLL_SYMMETRIC));
  NCCLCHECK(ncclMemAlloc(&more, which == GRANULE ? granule * sizeof(int) : count * sizeof(int)));
  if (which == FREED && past) CUDACHECK(cudaFree(p));
  if (which == ASYNC_FREED && past) CUDACHECK(cudaFreeAsync(q, ex.stream));
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  if (which == NCCL_FREED && past) NCCLCHECK(ncclMemFree(more));
  int* used = which == ASYNC || which == ASYNC_FREED ? q : which >= NCCL && which <= NCCL_FREED ? (int*)more : p;
  // Blocks with more and with less of it before: what is left of those is none of its.
  for (int turn = 0; turn < 2; turn++) {
    kernel<<<2, 33, 400, ex.stream>>>(CASES, 0, p, window, 0);
    kernel<<<2, 33, 4, ex.stream>>>(CASES, 0, p, window, 0);
    CUDACHECK(cudaStreamSynchronize(ex.stream));
  }
  if (ex.rank == 0) kernel<<<1, 33, 40, ex.stream>>>(which, past, used, which == PART ? part : window, ex.nRanks - 1);
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  // Nobody goes before all are done.
  int* word;
  CUDACHECK(cudaMalloc(&word, sizeof *word));
  CUDACHECK(cudaMemset(word, 0, sizeof *word));
  NCCLCHECK(ncclAllReduce(word, word, 1, ncclInt, ncclSum, ex.comm, ex.stream));
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  NCCLCHECK(ncclCommWindowDeregister(ex.comm, part));
  NCCLCHECK(ncclMemFree(all));
  if (which != NCCL_FREED || !past) NCCLCHECK(ncclMemFree(more));
  ex.freeWindow(memory, window);
  CUDACHECK(cudaFree(word));
  if (which != FREED || !past) CUDACHECK(cudaFree(p));
  if (which != ASYNC_FREED || !past) CUDACHECK(cudaFree(q));
  CUDACHECK(cudaFreeHost(pinned));
  CUDACHECK(cudaFree(managed));
  return 0;
}
