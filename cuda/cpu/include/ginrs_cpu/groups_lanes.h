/* cooperative_groups: groups of lanes of one warp, tiles and coalesced threads. */
#ifndef GINRS_CPU_GROUPS_LANES_H_
#define GINRS_CPU_GROUPS_LANES_H_
#include <type_traits>
#include "groups_block.h"

namespace cooperative_groups {
namespace details {
/* The lane of a group's rank-th thread; the lane itself if there is none. */
inline unsigned lane_of_rank(unsigned mask, unsigned rank) {
  unsigned lane = __fns(mask, 0, (int)rank + 1);
  return lane < 32 ? lane : ginrs_cpu::lane();
}
/* Bits of lanes, moved to the ranks of those lanes. */
inline unsigned lanes_to_ranks(unsigned mask, unsigned lanes) {
  unsigned ranks = 0, rank = 0;
  for (unsigned rest = mask; rest != 0; rest &= rest - 1, rank++)
    ranks |= (lanes >> __builtin_ctz(rest) & 1) << rank;
  return ranks;
}
/* The value that another lane of the group passed; any size, 8 bytes at a time. */
template <class T>
inline T from_lane(unsigned mask, const T& value, unsigned lane, const char* what, const char* file, int line) {
  static_assert(std::is_trivially_copyable<T>::value, "a shuffled type must be copied byte by byte");
  T result = value;
  for (size_t at = 0; at < sizeof(T); at += 8) {
    const size_t bytes = sizeof(T) - at < 8 ? sizeof(T) - at : 8;
    uint64_t word = 0, shown[32];
    __builtin_memcpy(&word, (const char*)&value + at, bytes);
    ginrs_cpu_warp_exchange(mask, word, shown, what, file, line);
    __builtin_memcpy((char*)&result + at, &shown[lane & 31], bytes);
  }
  return result;
}

/* What tiles and coalesced groups share, by their mask. */
class lanes : public thread_group {
 public:
  unsigned long long size() const { return (unsigned)__popc(mask_); }
  unsigned long long num_threads() const { return (unsigned)__popc(mask_); }
  void sync(GINRS_CPU_SITE) const { ginrs_cpu_warp_sync(mask_, "cooperative group sync()", file, line); }
  int any(int predicate, GINRS_CPU_SITE) const { return __any_sync(mask_, predicate, file, line); }
  int all(int predicate, GINRS_CPU_SITE) const { return __all_sync(mask_, predicate, file, line); }
  unsigned ballot(int predicate, GINRS_CPU_SITE) const {
    return lanes_to_ranks(mask_, __ballot_sync(mask_, predicate, file, line));
  }
  template <class T>
  unsigned match_any(T value, GINRS_CPU_SITE) const {
    return lanes_to_ranks(mask_, __match_any_sync(mask_, value, file, line));
  }
  template <class T>
  unsigned match_all(T value, int& all, GINRS_CPU_SITE) const {
    return lanes_to_ranks(mask_, __match_all_sync(mask_, value, &all, file, line));
  }
  template <class T>
  T shfl(T value, int rank, GINRS_CPU_SITE) const {
    unsigned source = lane_of_rank(mask_, (unsigned)rank % (unsigned)__popc(mask_));
    return from_lane(mask_, value, source, "cooperative group shfl()", file, line);
  }
  template <class T>
  T shfl_up(T value, unsigned delta, GINRS_CPU_SITE) const {
    unsigned own = rank();
    return from_lane(mask_, value, lane_of_rank(mask_, delta > own ? own : own - delta), "cooperative group shfl_up()",
                     file, line);
  }
  template <class T>
  T shfl_down(T value, unsigned delta, GINRS_CPU_SITE) const {
    return from_lane(mask_, value, lane_of_rank(mask_, rank() + delta), "cooperative group shfl_down()", file, line);
  }

 protected:
  using thread_group::thread_group;
  unsigned rank() const { return (unsigned)__popc(lower_lanes(mask_, ginrs_cpu::lane())); }
};

inline unsigned tile_mask(unsigned size, unsigned lane) {
  return (size == 32 ? ~0u : (1u << (size & 31)) - 1) << (lane & ~(size - 1));
}
}  // namespace details

/* Size threads that follow each other, inside one warp. Parent: what was partitioned. */
template <unsigned Size, class Parent = thread_block>
class thread_block_tile : public details::lanes {
  static_assert(Size > 0 && (Size & (Size - 1)) == 0, "a tile's size is a power of two");
  static_assert(Size <= 32, "tiles of more than one warp are not available on the CPU device");

 public:
  static constexpr unsigned size() { return Size; }
  static constexpr unsigned num_threads() { return Size; }
  static unsigned thread_rank(GINRS_CPU_SITE) { return ginrs_cpu::lane(file, line) & (Size - 1); }
  unsigned meta_group_rank() const { return parent_rank_ / Size; }
  unsigned meta_group_size() const { return (parent_size_ + Size - 1) / Size; }
  template <class T>
  T shfl_xor(T value, unsigned bits, GINRS_CPU_SITE) const {
    return details::from_lane(mask_, value, ginrs_cpu::source_xor(ginrs_cpu::lane(), bits, Size),
                              "cooperative group shfl_xor()", file, line);
  }
  /* A tile of a block and a tile of a tile of it are the same lanes. */
  template <class Other>
  thread_block_tile(const thread_block_tile<Size, Other>& other)
      : lanes(other.ginrs_mask()),
        parent_rank_(other.meta_group_rank() * Size + thread_rank()),
        parent_size_(other.meta_group_size() * Size) {}

 private:
  thread_block_tile(unsigned parentRank, unsigned parentSize)
      : lanes(details::tile_mask(Size, ginrs_cpu::lane())), parent_rank_(parentRank), parent_size_(parentSize) {}
  unsigned parent_rank_, parent_size_;
  template <unsigned N, class P>
  friend thread_block_tile<N, P> tiled_partition(const P&);
};
/* A tile whose parent is forgotten. */
template <unsigned Size>
class thread_block_tile<Size, void> : public thread_block_tile<Size, thread_block> {
 public:
  template <class Other>
  thread_block_tile(const thread_block_tile<Size, Other>& other) : thread_block_tile<Size, thread_block>(other) {}
};

/* The threads of a warp that ran a piece of code together, and parts of them. Ranks go up with lanes. */
class coalesced_group : public details::lanes {
 public:
  unsigned thread_rank() const { return rank(); }
  unsigned meta_group_rank() const { return meta_rank_; }
  unsigned meta_group_size() const { return meta_size_; }

 private:
  explicit coalesced_group(unsigned mask, unsigned metaRank = 0, unsigned metaSize = 1)
      : lanes(mask), meta_rank_(metaRank), meta_size_(metaSize) {}
  unsigned meta_rank_, meta_size_;
  friend coalesced_group coalesced_of(unsigned mask, unsigned metaRank, unsigned metaSize);
};
inline coalesced_group coalesced_of(unsigned mask, unsigned metaRank = 0, unsigned metaSize = 1) {
  return coalesced_group(mask, metaRank, metaSize);
}
inline coalesced_group coalesced_threads(GINRS_CPU_SITE) { return coalesced_of(ginrs_cpu_active_mask(file, line)); }

template <unsigned Size, class Parent>
inline thread_block_tile<Size, Parent> tiled_partition(const Parent& parent) {
  return thread_block_tile<Size, Parent>((unsigned)parent.thread_rank(), (unsigned)parent.num_threads());
}
/* By a size known at run time: consecutive ranks of the parent. */
inline coalesced_group tiled_partition(const coalesced_group& parent, unsigned size) {
  unsigned first = parent.thread_rank() / size * size, mask = 0;
  const unsigned all = parent.ginrs_mask(), threads = (unsigned)parent.num_threads();
  for (unsigned rank = first; rank < first + size && rank < threads; rank++) mask |= 1u << details::lane_of_rank(all, rank);
  return coalesced_of(mask, first / size, (threads + size - 1) / size);
}
inline thread_group tiled_partition(const thread_group& parent, unsigned size) {
  unsigned all = parent.ginrs_mask();
  if (all == 0) return group_of_lanes(details::tile_mask(size, ginrs_cpu::lane()));
  return tiled_partition(coalesced_of(all), size);
}
inline thread_block_tile<1> this_thread() { return tiled_partition<1>(this_thread_block()); }

/* The threads for which the predicate is equal. */
template <class Group>
inline coalesced_group binary_partition(const Group& group, bool predicate, GINRS_CPU_SITE) {
  const unsigned all = group.ginrs_mask(), yes = __ballot_sync(all, predicate, file, line);
  return predicate ? coalesced_of(yes, 0, 2) : coalesced_of(all & ~yes, 1, 2);
}
/* The threads with an equal label. Groups are numbered by their first lane. */
template <class Group, class Label>
inline coalesced_group labeled_partition(const Group& group, Label label, GINRS_CPU_SITE) {
  static_assert(std::is_integral<Label>::value, "a label is an integer");
  ginrs_cpu::Shown shown = ginrs_cpu::show(group.ginrs_mask(), label, "labeled_partition()", file, line);
  unsigned number = 0, own = 0, mask = 0;
  for (unsigned rest = shown.lanes, same; rest != 0; rest &= ~same, number++) {
    const Label first = ginrs_cpu::taken<Label>(shown, (unsigned)__builtin_ctz(rest));
    same = 0;
    for (unsigned i = 0; i < 32; i++)
      if ((rest >> i & 1) && ginrs_cpu::taken<Label>(shown, i) == first) same |= 1u << i;
    if (first == label) mask = same, own = number;
  }
  return coalesced_of(mask, own, number);
}
}  // namespace cooperative_groups
#endif
