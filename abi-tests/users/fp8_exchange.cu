// All-to-all of activations quantised to fp8 on the way: a warp per group of 128 values finds the largest, scales, packs
// four values to a word and puts codes and scale in one message. Ranks are processes of a launcher (RANK, WORLD_SIZE);
// the id travels through a file in the folder that the first argument names.
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <fcntl.h>
#include <nccl.h>
#include <nccl_device.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <vector>

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 28, 0) || !defined(__CUDA_FP8_TYPES_EXIST__)
#error the device API of NCCL 2.28 and fp8 are needed
#endif

#define DIE(...) (fprintf(stderr, __VA_ARGS__), exit(1))
#define CUDA_OK(x)                                                                       \
  if (cudaError_t e = (x)) DIE("%s:%d %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorString(e))
#define NCCL_OK(x)                                                                       \
  if (ncclResult_t r = (x)) DIE("%s:%d %s: %s\n", __FILE__, __LINE__, #x, r ? ncclGetLastError(nullptr) : "")

constexpr int kGroup = 128, kGroups = 24, kWarps = 4; // groups for each pair of ranks

struct Message { // of a group: 132 bytes of use, padded to 16
  uint32_t codes[kGroup / 4];
  float scale;
  uint32_t pad[3];
};
static_assert(sizeof(Message) % 16 == 0, "puts of whole vectors");

__constant__ float kLargest = 448.f; // of e4m3

__global__ __launch_bounds__(kWarps * 32) void quantiseAndSend(ncclDevComm comm, ncclWindow_t window, const float4* activations) {
  const int lane = threadIdx.x % 32, warp = blockIdx.x * kWarps + threadIdx.x / 32, warps = gridDim.x * kWarps;
  ncclGin gin(comm, 0);
  Message* outbox = (Message*)ncclGetLocalPointer(window, 0);
  for (int n = warp; n < kGroups * comm.nRanks; n += warps) {
    const float4 x = __ldg(activations + n * 32 + lane);
    float most = fmaxf(fmaxf(fabsf(x.x), fabsf(x.y)), fmaxf(fabsf(x.z), fabsf(x.w)));
    most = __uint_as_float(__reduce_max_sync(0xffffffffu, __float_as_uint(most))); // not negative: ordered as its bits
    const float scale = most > 0 ? __fdiv_rn(most, kLargest) : 1.f, inverse = 1.f / scale;
    const __nv_fp8x4_e4m3 packed(make_float4(x.x * inverse, x.y * inverse, x.z * inverse, x.w * inverse));
    outbox[n].codes[lane] = packed.__x;
    if (lane == 0) outbox[n].scale = scale;
    __syncwarp();
    const int peer = n / kGroups, group = n % kGroups;
    const size_t inbox = sizeof(Message) * (size_t)kGroups * (comm.nRanks + comm.rank);
    gin.put(ncclTeamWorld(comm), peer, window, inbox + group * sizeof(Message), window, n * sizeof(Message), sizeof(Message),
            ncclGin_SignalAdd{0, 1}, ncclGin_CounterInc{0}, ncclCoopWarp());
  }
}

__global__ void receiveAndExpand(ncclDevComm comm, ncclWindow_t window, float* out, uint64_t messages) {
  ncclGin gin(comm, 0);
  gin.waitSignal(ncclCoopCta(), 0, messages);
  gin.waitCounter(ncclCoopCta(), 0, messages);
  const Message* inbox = (const Message*)ncclGetLocalPointer(window, sizeof(Message) * (size_t)kGroups * comm.nRanks);
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < kGroups * comm.nRanks * (kGroup / 4); i += gridDim.x * blockDim.x) {
    const Message& message = inbox[i / (kGroup / 4)];
    __nv_fp8x4_e4m3 packed;
    packed.__x = message.codes[i % (kGroup / 4)];
    const float4 x = static_cast<float4>(packed);
    reinterpret_cast<float4*>(out)[i] = make_float4(x.x * message.scale, x.y * message.scale, x.z * message.scale, x.w * message.scale);
  }
}

static float activation(int from, int to, int i) { return ((i * 37 + from * 11 + to * 3) % 255 - 127) * (1 + i / kGroup % 5) * 0.125f; }

int main(int argc, char** argv) {
  const char *rankText = getenv("RANK"), *sizeText = getenv("WORLD_SIZE"), *local = getenv("LOCAL_RANK");
  const int rank = rankText ? atoi(rankText) : 0, ranks = sizeText ? atoi(sizeText) : 1;
  ncclUniqueId id;
  const std::string name = std::string(argc > 1 ? argv[1] : "/tmp") + "/fp8_exchange.id";
  if (rank == 0) {
    NCCL_OK(ncclGetUniqueId(&id));
    const std::string fresh = name + ".new";
    FILE* f = fopen(fresh.c_str(), "wb");
    if (!f || fwrite(&id, sizeof id, 1, f) != 1 || fclose(f) || rename(fresh.c_str(), name.c_str())) DIE("%s cannot be written\n", name.c_str());
  } else {
    FILE* f = nullptr;
    for (int tries = 0; !f && tries < 3000; tries++, usleep(10000)) f = fopen(name.c_str(), "rb");
    if (!f || fread(&id, sizeof id, 1, f) != 1) DIE("%s cannot be read\n", name.c_str());
    fclose(f);
  }
  CUDA_OK(cudaSetDevice(local ? atoi(local) : 0));
  ncclComm_t comm;
  NCCL_OK(ncclCommInitRank(&comm, ranks, id, rank));
  if (rank == 0) unlink(name.c_str());

  const size_t windowBytes = sizeof(Message) * (size_t)kGroups * ranks * 2;
  void* memory;
  ncclWindow_t window;
  NCCL_OK(ncclMemAlloc(&memory, windowBytes));
  NCCL_OK(ncclCommWindowRegister(comm, memory, windowBytes, &window, NCCL_WIN_COLL_SYMMETRIC));
  ncclDevCommRequirements needs = {};
  needs.ginForceEnable = true;
  needs.ginSignalCount = needs.ginCounterCount = 1;
  ncclDevComm device;
  NCCL_OK(ncclDevCommCreate(comm, &needs, &device));

  const int values = kGroup * kGroups * ranks;
  float *in, *out;
  CUDA_OK(cudaMallocManaged(&in, values * sizeof(float)));
  CUDA_OK(cudaMallocManaged(&out, values * sizeof(float)));
  int wrong = 0;
  for (int round = 1; round <= 2; round++) {
    for (int i = 0; i < values; i++) in[i] = round * activation(rank, i / (kGroup * kGroups), i % (kGroup * kGroups));
    quantiseAndSend<<<3, kWarps * 32>>>(device, window, reinterpret_cast<const float4*>(in));
    receiveAndExpand<<<2, 96>>>(device, window, out, (uint64_t)round * kGroups * ranks);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaDeviceSynchronize());
#ifdef PLANT
    out[5] += 40;
#endif
    for (int i = 0; i < values; i++) {
      const int from = i / (kGroup * kGroups), at = i % (kGroup * kGroups);
      const float expected = round * activation(from, rank, at);
      // Half a step of three bits of mantissa, and half of the smallest step.
      wrong += !(fabsf(out[i] - expected) <= fabsf(expected) / 16 + 0.01f * round);
    }
    int all = wrong; // the next round overwrites the inbox: all must have read theirs
    int* shared;
    CUDA_OK(cudaMalloc(&shared, sizeof(int)));
    CUDA_OK(cudaMemcpy(shared, &all, sizeof all, cudaMemcpyHostToDevice));
    NCCL_OK(ncclAllReduce(shared, shared, 1, ncclInt, ncclSum, comm, cudaStreamPerThread));
    CUDA_OK(cudaStreamSynchronize(cudaStreamPerThread));
    CUDA_OK(cudaMemcpy(&all, shared, sizeof all, cudaMemcpyDeviceToHost));
    CUDA_OK(cudaFree(shared));
    wrong = all;
  }
  NCCL_OK(ncclDevCommDestroy(comm, &device));
  NCCL_OK(ncclCommWindowDeregister(comm, window));
  NCCL_OK(ncclMemFree(memory));
  CUDA_OK(cudaFree(in));
  CUDA_OK(cudaFree(out));
  NCCL_OK(ncclCommFinalize(comm));
  NCCL_OK(ncclCommDestroy(comm));
  if (rank == 0) puts(wrong ? "fp8_exchange: WRONG" : "fp8_exchange: ok");
  return wrong != 0;
}
