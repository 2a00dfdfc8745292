/* The device API's foundation: teams of ranks, what a device communicator must provide (requirements), its creation, and
 * pointers into windows. Usable from C, from C++ without CUDA, and from device code.
 *
 * Zero-initialise every requirements struct: they carry no size and no version. */
#ifndef _NCCL_DEVICE_CORE_H_
#define _NCCL_DEVICE_CORE_H_
#include <nccl.h>

/* Before 2.28.7 and since 2.29 the structs have other sizes; nothing at run time could tell (docs/user/abi-policy.md). */
#if !defined(NCCL_VERSION_CODE) || NCCL_VERSION_CODE < 22807 || NCCL_VERSION_CODE > 22809
#error "nccl_device/core.h of ginrs speaks NCCL 2.28.7 to 2.28.9; the nccl.h in front of it is of another version (NCCL_VERSION_CODE) | fix: put ginrs' include folder first, or use that NCCL's own nccl_device.h and library"
#endif

#include "coop.h"
#include "utility.h"
#include "../ginrs_device/call.cuh"

#define NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER {}

/* Everything a kernel needs to know of a communicator; impl/comm__types.h has the fields. */
struct ncclDevComm;
typedef struct ncclDevComm ncclDevComm_t;

/* A strided subset of the world as the caller sees it: its size, the caller's rank in it, and the distance in world
 * ranks from one member to the next. */
struct ncclTeam;
typedef struct ncclTeam ncclTeam_t;

/* Where a team's multicast memory begins; null if there is none. */
struct ncclMultimemHandle;
typedef struct ncclMultimemHandle ncclMultimemHandle_t;

/* A place in the communicator's resource buffer, in units of 128 bytes. */
typedef uint32_t ncclDevResourceHandle;
typedef ncclDevResourceHandle ncclDevResourceHandle_t;

/* Numbers of signals and counters within one devcomm, from 0. */
typedef uint32_t ncclGinSignal_t;
typedef uint32_t ncclGinCounter_t;

struct ncclLsaBarrierHandle;
typedef struct ncclLsaBarrierHandle ncclLsaBarrierHandle_t;
struct ncclGinBarrierHandle;
typedef struct ncclGinBarrierHandle ncclGinBarrierHandle_t;
struct ncclLLA2AHandle;
typedef struct ncclLLA2AHandle ncclLLA2AHandle_t;

struct ncclDevCommRequirements;
typedef struct ncclDevCommRequirements ncclDevCommRequirements_t;
struct ncclDevResourceRequirements;
typedef struct ncclDevResourceRequirements ncclDevResourceRequirements_t;
struct ncclTeamRequirements;
typedef struct ncclTeamRequirements ncclTeamRequirements_t;

struct ncclTeam {
  int nRanks, rank, stride;
};

#ifdef __cplusplus
struct ncclTeamTagWorld {};
struct ncclTeamTagLsa {};
struct ncclTeamTagRail {};
#endif

struct ncclDevCommRequirements {
  ncclDevResourceRequirements_t* resourceRequirementsList; /* same order on all ranks */
  ncclTeamRequirements_t* teamRequirementsList;
  bool lsaMultimem;         /* multicast over the LSA team */
  int barrierCount;         /* barriers of the hybrid kind: that many LSA and that many rail barriers */
  int lsaBarrierCount;      /* the larger of this and barrierCount is what ncclDevComm::lsaBarrier has */
  int railGinBarrierCount;  /* likewise for railGinBarrier */
  int lsaLLA2ABlockCount, lsaLLA2ASlotCount; /* not used: see ncclLLA2ACreateRequirement */
  bool ginForceEnable;      /* GIN also where all ranks share one node */
  int ginContextCount;      /* a hint */
  int ginSignalCount;       /* signals 0 .. ginSignalCount-1 are the caller's */
  int ginCounterCount;      /* counters likewise */
};

/* One piece of the resource buffer, and signals and counters that go with it. The out pointers may be null; they are
 * written by ncclDevCommCreate. */
struct ncclDevResourceRequirements {
  ncclDevResourceRequirements_t* next;
  size_t bufferSize, bufferAlign; /* bytes, on each rank */
  ncclDevResourceHandle_t* outBufferHandle;
  int ginSignalCount, ginCounterCount;
  ncclGinSignal_t* outGinSignalStart;
  ncclGinCounter_t* outGinCounterStart;
};

struct ncclTeamRequirements {
  ncclTeamRequirements_t* next;
  ncclTeam_t team;
  bool multimem;
  ncclMultimemHandle_t* outMultimemHandle;
};

/* ---- Host functions. Each has a pnccl twin, for profilers that interpose. ---- */

#define GINRS_API(result, name, parameters)        \
  NCCL_EXTERN_C __host__ result name parameters; \
  NCCL_EXTERN_C __host__ result p##name parameters

/* Collective over comm, and allowed in a group. Writes sizeof(ncclDevComm) bytes on success only.
 *
 * A TU that defines GINRS_GIN_DIRECT as 1 before it includes NCCL's device headers asks for direct GIN contexts: kernels
 * carry out puts themselves, by stores to the peers' memory (ginrs_device/gin/direct.cuh). All ranks must ask alike, all
 * must share one LSA team, and all kernels that use the devcomm's GIN must be compiled with these headers: that is the
 * statement which the macro makes. With NVIDIA's library the macro changes nothing. */
#if defined(GINRS_GIN_DIRECT) && GINRS_GIN_DIRECT
NCCL_EXTERN_C __host__ ncclResult_t pncclDevCommCreate(ncclComm_t comm, ncclDevCommRequirements_t const* requirements,
                                                       ncclDevComm_t* outDevComm);
NCCL_EXTERN_C __host__ ncclResult_t ginrsPlainDevCommCreate(ncclComm_t comm,
                                                            ncclDevCommRequirements_t const* requirements,
                                                            ncclDevComm_t* outDevComm) __asm__("ncclDevCommCreate");
/* flags: 1 asks for direct contexts. Weak, for NVIDIA's library has no such thing. */
NCCL_EXTERN_C __attribute__((weak)) __host__ ncclResult_t ginrsDevCommCreate(
    ncclComm_t comm, ncclDevCommRequirements_t const* requirements, ncclDevComm_t* outDevComm, unsigned flags);
/* Named apart for the assembler: in C the two would be one symbol. */
static inline ncclResult_t ncclDevCommCreate(ncclComm_t comm, ncclDevCommRequirements_t const* requirements,
                                             ncclDevComm_t* outDevComm) __asm__("ginrsDirectDevCommCreate");
static inline ncclResult_t ncclDevCommCreate(ncclComm_t comm, ncclDevCommRequirements_t const* requirements,
                                             ncclDevComm_t* outDevComm) {
  if (ginrsDevCommCreate != NULL) return ginrsDevCommCreate(comm, requirements, outDevComm, 1u);
  return ginrsPlainDevCommCreate(comm, requirements, outDevComm);
}
#else
GINRS_API(ncclResult_t, ncclDevCommCreate,
          (ncclComm_t comm, ncclDevCommRequirements_t const* requirements, ncclDevComm_t* outDevComm));
#endif
/* No kernel may use the devcomm any more. */
GINRS_API(ncclResult_t, ncclDevCommDestroy, (ncclComm_t comm, ncclDevComm_t const* devComm));

/* All ranks; the ranks whose memory this rank can load and store; the ranks with this one's place in their LSA team. */
GINRS_API(ncclTeam_t, ncclTeamWorld, (ncclComm_t comm));
GINRS_API(ncclTeam_t, ncclTeamLsa, (ncclComm_t comm));
GINRS_API(ncclTeam_t, ncclTeamRail, (ncclComm_t comm));
/* The world rank, or the rank in the LSA team, of a team's member. Membership is not checked. */
GINRS_API(int, ncclTeamRankToWorld, (ncclComm_t comm, ncclTeam_t team, int rank));
GINRS_API(int, ncclTeamRankToLsa, (ncclComm_t comm, ncclTeam_t team, int rank));

/* Requirement helpers: each fills *outRequirement so that ncclDevCommCreate provides *outHandle. Both structs, and the
 * list they are linked into, must live until then. */
GINRS_API(ncclResult_t, ncclLsaBarrierCreateRequirement,
          (ncclTeam_t team, int nBarriers, ncclLsaBarrierHandle_t* outHandle,
           ncclDevResourceRequirements_t* outRequirement));
GINRS_API(ncclResult_t, ncclGinBarrierCreateRequirement,
          (ncclComm_t comm, ncclTeam_t team, int nBarriers, ncclGinBarrierHandle_t* outHandle,
           ncclDevResourceRequirements_t* outRequirement));
/* Slots that one block needs to have maxElts elements of up to maxEltSize bytes in flight. */
GINRS_API(int, ncclLLA2ACalcSlots, (int maxElts, int maxEltSize));
GINRS_API(ncclResult_t, ncclLLA2ACreateRequirement,
          (int nBlocks, int nSlots, ncclLLA2AHandle_t* outHandle, ncclDevResourceRequirements_t* outRequirement));
#undef GINRS_API

#ifdef __cplusplus
/* ---- Teams, on host and device. A team that is passed in is a view of the calling rank. ---- */

/* Does b's rank bPeer belong to a? */
NCCL_EXTERN_C NCCL_HOST_DEVICE_INLINE bool ncclTeamRankIsMember(ncclTeam_t a, ncclTeam_t b, int bPeer);
/* b's rank bPeer as a rank of a. It must belong to a. */
NCCL_EXTERN_C NCCL_HOST_DEVICE_INLINE int ncclTeamRankToTeam(ncclTeam_t a, ncclTeam_t b, int bPeer);
/* Cut parent into runs of innerSize neighbours: the caller's run ... */
NCCL_EXTERN_C NCCL_HOST_DEVICE_INLINE ncclTeam_t ncclTeamInnerFactor(ncclTeam_t parent, int innerSize);
/* ... and the members that have the caller's place in their runs. innerSize divides the parent's size. */
NCCL_EXTERN_C NCCL_HOST_DEVICE_INLINE ncclTeam_t ncclTeamOuterFactor(ncclTeam_t parent, int innerSize);
/* The index-th rank of parent, counted from 0 upwards, that is not in subset. subset is contained in parent. */
NCCL_EXTERN_C NCCL_HOST_DEVICE_INLINE int ncclTeamRankInDifference(ncclTeam_t parent, ncclTeam_t subset, int index);
/* Bytes from the start of the resource buffer. */
NCCL_EXTERN_C NCCL_HOST_DEVICE_INLINE size_t ncclGetResourceBufferOffset(ncclDevResourceHandle_t handle);

NCCL_HOST_DEVICE_INLINE ncclTeam ncclTeamWorld(ncclDevComm const& comm);
NCCL_HOST_DEVICE_INLINE ncclTeam ncclTeamLsa(ncclDevComm const& comm);
NCCL_HOST_DEVICE_INLINE ncclTeam ncclTeamRail(ncclDevComm const& comm);
NCCL_HOST_DEVICE_INLINE int ncclTeamRankToWorld(ncclDevComm const& comm, ncclTeam team, int rank);
NCCL_HOST_DEVICE_INLINE int ncclTeamRankToLsa(ncclDevComm const& comm, ncclTeam team, int rank);

#if NCCL_CHECK_CUDACC
/* ---- Pointers into windows. `offset` is in bytes from the window's start. The peer must be within the
 * LSA team (for the multimem forms, the handle's team), and the offset within the window, which nobody checks: on the CPU
 * device an offset beyond the end is told, and a peer beyond the team where the pointer is used. ---- */

NCCL_DEVICE_INLINE void* ncclGetLocalPointer(ncclWindow_t window, size_t offset GINRS_CALLER_DEFAULT);
NCCL_DEVICE_INLINE void* ncclGetLsaPointer(ncclWindow_t window, size_t offset, int lsaPeer GINRS_CALLER_DEFAULT);
NCCL_DEVICE_INLINE void* ncclGetPeerPointer(ncclWindow_t window, size_t offset, int worldPeer GINRS_CALLER_DEFAULT);
NCCL_DEVICE_INLINE void* ncclGetPeerPointer(ncclWindow_t window, size_t offset, ncclTeam team, int peer GINRS_CALLER_DEFAULT);
NCCL_DEVICE_INLINE void* ncclGetMultimemPointer(ncclWindow_t window, size_t offset, ncclMultimemHandle multimem);
NCCL_DEVICE_INLINE void* ncclGetLsaMultimemPointer(ncclWindow_t window, size_t offset, ncclDevComm const& comm);

/* The registered window that holds this address of the calling rank's memory, or null. Every thread of coop calls it
 * with the same pointer. */
template <typename Coop>
NCCL_DEVICE_INLINE ncclWindow_t ncclFindWindow(Coop coop, ncclDevComm const& comm, void const* ptr);

/* The same for a place in the resource buffer. These read no global memory: the devcomm has a copy of that window. */
NCCL_DEVICE_INLINE void* ncclGetResourceBufferLocalPointer(ncclDevComm const& comm, ncclDevResourceHandle handle);
NCCL_DEVICE_INLINE void* ncclGetResourceBufferLsaPointer(ncclDevComm const& comm, ncclDevResourceHandle handle,
                                                         int lsaPeer);
NCCL_DEVICE_INLINE void* ncclGetResourceBufferPeerPointer(ncclDevComm const& comm, ncclDevResourceHandle handle,
                                                          ncclTeam team, int peer);
NCCL_DEVICE_INLINE void* ncclGetResourceBufferMultimemPointer(ncclDevComm const& comm, ncclDevResourceHandle handle,
                                                              ncclMultimemHandle multimem);
NCCL_DEVICE_INLINE void* ncclGetResourceBufferLsaMultimemPointer(ncclDevComm const& comm, ncclDevResourceHandle handle);

template <typename T>
struct ncclSymPtr;
NCCL_DEVICE_INLINE ncclSymPtr<char> ncclGetResourceBuffer(ncclDevComm const& comm, ncclDevResourceHandle handle);
#endif
#endif
#endif
