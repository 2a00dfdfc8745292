/* Plugins' structs (spec host, sections 5 and A.5), written from the specification: no wheel installs them. */
#ifndef ABI_TESTS_LAYOUT_PLUGIN_H_
#define ABI_TESTS_LAYOUT_PLUGIN_H_
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_NET_HANDLE_MAXSIZE 128
#define NCCL_PTR_HOST 1
#define NCCL_PTR_CUDA 2
#define NCCL_PTR_DMABUF 4
#define NCCL_NET_MR_FLAG_FORCE_SO 1
#define NCCL_NET_SIGNAL_OP_INC 1
#define NCCL_NET_SIGNAL_OP_ADD 2

typedef struct {
  int ndevs;
  int devs[4];
} ncclNetVDeviceProps_t;

typedef struct {
  char* name;
  char* pciPath;
  uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int forceFlush;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  int netDeviceType;
  int netDeviceVersion;
  ncclNetVDeviceProps_t vProps;
  size_t maxP2pBytes;
  size_t maxCollBytes;
  int maxMultiRequestSize;
} ncclNetProperties_v11_t;

typedef void (*Logger)(int level, unsigned long flags, const char* file, int line, const char* format, ...);
typedef struct {
  const char* name;
  int (*init)(void** context, uint64_t commId, Logger logger);
  int (*devices)(int* count);
  int (*getProperties)(int device, ncclNetProperties_v11_t* properties);
  int (*listen)(void* context, int device, void* handle, void** listenComm);
  int (*connect)(void* context, void* handles[], int nranks, int rank, void* listenComm, void** collComm);
  int (*createContext)(void* collComm, int nSignals, int nCounters, void** ginContext, void** deviceHandle);
  int (*regMrSym)(void* collComm, void* data, size_t size, int type, uint64_t flags, void** memory, void** ginHandle);
  int (*regMrSymDmaBuf)(void* collComm, void* data, size_t size, int type, uint64_t offset, int fd, uint64_t flags,
                        void** memory, void** ginHandle);
  int (*deregMrSym)(void* collComm, void* memory);
  int (*destroyContext)(void* ginContext);
  int (*closeColl)(void* collComm);
  int (*closeListen)(void* listenComm);
  int (*iput)(void* collComm, uint64_t srcOffset, void* source, size_t size, uint64_t dstOffset, void* destination,
              uint32_t rank, void** request);
  int (*iputSignal)(void* collComm, uint64_t srcOffset, void* source, size_t size, uint64_t dstOffset,
                    void* destination, uint32_t rank, uint64_t signalOffset, void* signal, uint64_t value, uint32_t op,
                    void** request);
  int (*test)(void* collComm, void* request, int* done);
  int (*ginProgress)(void* collComm);
  int (*queryLastError)(void* ginContext, bool* failed);
  int (*finalize)(void* context);
} ncclGin_v11_t;
#endif
