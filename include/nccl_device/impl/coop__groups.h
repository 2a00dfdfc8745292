/* ncclCoopBcast for the groups of CUDA's cooperative_groups.h. */
#ifndef _NCCL_DEVICE_COOP__GROUPS_H_
#define _NCCL_DEVICE_COOP__GROUPS_H_
#include "../coop.h"
#if NCCL_CHECK_CUDACC
#include <cooperative_groups.h>

/* Groups that can shuffle: tiles and coalesced groups. */
template <typename Group, typename T>
NCCL_DEVICE_INLINE auto ncclCoopBcast(Group group, T value, int root, bool entrySync = true)
    -> decltype(group.shfl(value, root)) {
  (void)entrySync;
  T result = group.shfl(value, root);
  group.sync(); /* shuffles do not order memory */
  return result;
}
template <typename T>
NCCL_DEVICE_INLINE T ncclCoopBcast(cooperative_groups::thread_block, T value, int root, bool entrySync = true) {
  return ncclCoopBcast(ncclCoopCta(), value, root, entrySync);
}
#endif
#endif
