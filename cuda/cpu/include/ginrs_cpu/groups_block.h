/* cooperative_groups: the block, the grid, and thread_group, to which every smaller group converts. */
#ifndef GINRS_CPU_GROUPS_BLOCK_H_
#define GINRS_CPU_GROUPS_BLOCK_H_
#include "arrival.h"
#include "block.h"
#include "warp.h"

namespace cooperative_groups {
namespace details {
inline unsigned count(const dim3& extent) { return extent.x * extent.y * extent.z; }
inline unsigned rank_in_block(const char* file, int line) {
  return ginrs_cpu::self("cooperative group outside a kernel", file, line)->linear;
}
inline unsigned lower_lanes(unsigned mask, unsigned lane) { return mask & ((1u << lane) - 1); }
}  // namespace details

/* A group by what it is at run time: a whole block, or lanes of one warp. */
class thread_group {
 public:
  unsigned long long size() const { return num_threads(); }
  unsigned long long num_threads() const {
    return mask_ ? (unsigned)__popc(mask_) : details::count(blockDim);
  }
  unsigned long long thread_rank(GINRS_CPU_SITE) const {
    return mask_ ? (unsigned)__builtin_popcount(details::lower_lanes(mask_, ginrs_cpu::lane(file, line)))
                 : details::rank_in_block(file, line);
  }
  void sync(GINRS_CPU_SITE) const {
    if (mask_) ginrs_cpu_warp_sync(mask_, "cooperative group sync()", file, line);
    else ginrs_cpu_barrier(0, 0, "thread_block::sync()", file, line);
  }
  unsigned ginrs_mask() const { return mask_; } /* 0: the block */

 protected:
  explicit thread_group(unsigned mask) : mask_(mask) {}
  unsigned mask_;
  friend thread_group group_of_lanes(unsigned mask);
};
inline thread_group group_of_lanes(unsigned mask) { return thread_group(mask); }

class thread_block : public thread_group {
 public:
  struct arrival_token {
    uint32_t phase;
  };
  static unsigned size() { return details::count(blockDim); }
  static unsigned num_threads() { return details::count(blockDim); }
  static unsigned thread_rank(GINRS_CPU_SITE) { return details::rank_in_block(file, line); }
  static dim3 thread_index() { return dim3(threadIdx); }
  static dim3 group_index() { return dim3(blockIdx); }
  static dim3 dim_threads() { return blockDim; }
  static dim3 group_dim() { return blockDim; }
  static void sync(GINRS_CPU_SITE) { ginrs_cpu_barrier(0, 0, "thread_block::sync()", file, line); }
  static arrival_token barrier_arrive() {
    ginrs_cpu::Arrival& all = arrivals();
    if (__atomic_load_n(&all.expected, __ATOMIC_RELAXED) != size()) all.init(size());
    return arrival_token{all.arrive(1, false, [] {})};
  }
  static void barrier_wait(arrival_token&& token) { arrivals().wait(token.phase); }

 private:
  thread_block() : thread_group(0u) {}
  static ginrs_cpu::Arrival& arrivals() { /* one per OS thread, so one per block */
    static thread_local ginrs_cpu::Arrival all;
    return all;
  }
  friend thread_block this_thread_block();
};
inline thread_block this_thread_block() { return thread_block(); }

class grid_group {
 public:
  struct arrival_token {};
  bool is_valid() const { return ginrs_cpu_launch_is_cooperative() != 0; }
  void sync(GINRS_CPU_SITE) const { ginrs_cpu_grid_sync(file, line); }
  unsigned long long size() const { return num_threads(); }
  unsigned long long num_threads() const { return num_blocks() * details::count(blockDim); }
  unsigned long long thread_rank(GINRS_CPU_SITE) const {
    return block_rank() * details::count(blockDim) + details::rank_in_block(file, line);
  }
  static unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
  static unsigned long long block_rank() {
    return ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  }
  static dim3 group_dim() { return gridDim; }
  static dim3 dim_blocks() { return gridDim; }
  static dim3 dim_threads() {
    return dim3(gridDim.x * blockDim.x, gridDim.y * blockDim.y, gridDim.z * blockDim.z);
  }
  static dim3 block_index() { return dim3(blockIdx); }
  static dim3 thread_index() {
    return dim3(blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y * blockDim.y + threadIdx.y,
                blockIdx.z * blockDim.z + threadIdx.z);
  }

 private:
  grid_group() = default;
  friend grid_group this_grid();
};
inline grid_group this_grid() { return grid_group(); }

/* Every block is a cluster of its own; a launch that asks for larger ones may not look at them. */
class cluster_group {
 public:
  struct arrival_token {
    thread_block::arrival_token token;
  };
  static void sync(GINRS_CPU_SITE) { ginrs_cpu_barrier(0, 0, "cluster_group::sync()", file, line); }
  static arrival_token barrier_arrive() { return arrival_token{thread_block::barrier_arrive()}; }
  static void barrier_wait(arrival_token&& arrival) {
    thread_block::barrier_wait(static_cast<thread_block::arrival_token&&>(arrival.token));
  }
  static unsigned size() { return details::count(blockDim); }
  static unsigned num_threads() { return details::count(blockDim); }
  static unsigned thread_rank(GINRS_CPU_SITE) { return details::rank_in_block(file, line); }
  static unsigned num_blocks() { return 1; }
  static unsigned block_rank() { return 0; }
  static dim3 dim_blocks() { return dim3(); }
  static dim3 dim_threads() { return blockDim; }
  static dim3 block_index() { return dim3(0, 0, 0); }
  static dim3 thread_index() { return dim3(threadIdx); }
  static unsigned query_shared_rank(const void*) { return 0; }
  template <class T>
  static T* map_shared_rank(T* address, int) { return address; }
};
inline cluster_group this_cluster(GINRS_CPU_SITE) { return ginrs_cpu::of_cluster(cluster_group(), "this_cluster()", file, line); }
}  // namespace cooperative_groups
#endif
