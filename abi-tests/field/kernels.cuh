// The kernels of field.cu, and what is wrong in each: `bug` is the case, or -1 in its mended twin. "bug of:" marks the lines of which one has to be
// named.
#pragma once
#include <nccl.h>
#include <nccl_device.h>
#include <cuda_runtime.h>

enum Case {
  // halo: a row of cells, whose ends are the neighbours'
  HALO_EARLY, HALO_ROUNDS, HALO_PRESSURE, HALO_SLOT, HALO_EDGE, HALO_UNITS, HALO_SYNC, HALO_SHARED, HALO_SOURCE,
  // moe: tokens to experts and back
  MOE_FLAG, MOE_CONTEXT, MOE_SLOTS, MOE_ADD, MOE_NONE, MOE_CAPACITY, MOE_RESET, MOE_LANES, MOE_COUNTER, MOE_COMBINE,
  // gather: a ring that hands on what it gets
  GATHER_FORWARD, GATHER_STALE, GATHER_STEPS, GATHER_PEER, GATHER_COUNTER, GATHER_END,
  // reduce: all-reduce by loads from peers
  REDUCE_BARRIER, REDUCE_RELAXED, REDUCE_INDEX, REDUCE_REUSE, REDUCE_NODE, REDUCE_BLOCKS, REDUCE_RETURN, REDUCE_OFFSET,
  // pipe: stages with credits
  PIPE_CREDIT, PIPE_DEPTH, PIPE_SOON, PIPE_MODULO, PIPE_DOWN, PIPE_TAIL,
  // scatter: reduce-scatter over nodes
  SCATTER_RAIL, SCATTER_COUNT, SCATTER_FENCE, SCATTER_BARRIER, SCATTER_TEAM, SCATTER_SIGNAL,
  // ll: small messages
  LL_EPOCH, LL_SLOTS, LL_MISSING, LL_BLOCK,
  // order: what the host does around kernels
  HOST_GONE, HOST_DESTROYED, HOST_NEEDS, HOST_GIN, HOST_READ, HOST_STALE,
  // sync: barriers
  SYNC_WARPS, SYNC_GIN, SYNC_NESTED, SYNC_ORDER, SYNC_ONCE, SYNC_HYBRID,
  CASES
};
struct Name { const char* name; int ranks; const char* nodes; };
static const Name names[CASES] = {
  {"halo-early", 3}, {"halo-rounds", 3}, {"halo-pressure", 3}, {"halo-slot", 3}, {"halo-edge", 3}, {"halo-units", 3}, {"halo-sync", 3}, {"halo-shared", 3}, {"halo-source", 3},
  {"moe-flag", 2}, {"moe-context", 2}, {"moe-slots", 3}, {"moe-add", 2}, {"moe-none", 3}, {"moe-capacity", 2}, {"moe-reset", 2}, {"moe-lanes", 2}, {"moe-counter", 2}, {"moe-combine", 2},
  {"gather-forward", 3}, {"gather-stale", 3}, {"gather-steps", 3}, {"gather-peer", 3}, {"gather-counter", 3}, {"gather-end", 3},
  {"reduce-barrier", 2}, {"reduce-relaxed", 2}, {"reduce-index", 2}, {"reduce-reuse", 2}, {"reduce-node", 4, "0,0,1,1"}, {"reduce-blocks", 2}, {"reduce-return", 2}, {"reduce-offset", 2},
  {"pipe-credit", 3}, {"pipe-depth", 3}, {"pipe-soon", 3}, {"pipe-modulo", 3}, {"pipe-down", 3}, {"pipe-tail", 3},
  {"scatter-rail", 4, "0,0,1,1"}, {"scatter-count", 4, "0,0,1,1"}, {"scatter-fence", 4, "0,0,1,1"}, {"scatter-barrier", 4, "0,0,1,1"}, {"scatter-team", 4, "0,0,1,1"}, {"scatter-signal", 4, "0,0,1,1"},
  {"ll-epoch", 2}, {"ll-slots", 2}, {"ll-missing", 2}, {"ll-block", 2},
  {"host-gone", 2}, {"host-destroyed", 2}, {"host-needs", 2}, {"host-gin", 2}, {"host-read", 2}, {"host-stale", 2},
  {"sync-warps", 2}, {"sync-gin", 2}, {"sync-nested", 2}, {"sync-order", 2}, {"sync-once", 2}, {"sync-hybrid", 2},
};

static const int kThreads = 64;
static const size_t kBytes = 1 << 15;

struct Job {
  ncclDevComm comm;
  ncclWindow_t window;
  ncclWindow_t second;
  int* memory;
  ncclLLA2AHandle ll;
  int* wrong;
  int launch, program; // of the case: its twin is the same program
};

__device__ int cell(int rank, int round, int i) { return (rank + 1) << 20 | (round + 1) << 10 | (i + 1); }

__device__ void expect(Job const& job, int got, int wanted) {
  if (got != wanted) atomicAdd(job.wrong, 1);
}

// The interior of a rank, sent from two rows of its own: row 0 goes left, row 1 right. Halos: row 2 is the left neighbour's, row 3 the right one's.
__global__ void halo(Job job, int bug) {
  ncclGin gin(job.comm, 0);
  ncclTeam world = ncclTeamWorld(job.comm);
  ncclCoopCta cta;
  int const rank = job.comm.rank, n = job.comm.nRanks, i = threadIdx.x, row = kThreads * sizeof(int), rounds = 3;
  bool const hasLeft = rank > 0, hasRight = rank < n - 1;
  int* cells = static_cast<int*>(ncclGetLocalPointer(job.window, 0));
  int const neighbours = hasLeft + hasRight;
  bool const hasRows = job.program == HALO_SHARED || job.program == HALO_SOURCE;  // for each round: nobody has to wait for who reads
  for (int round = 0; round < rounds; round++) {
    if (round > 0 && bug != HALO_SOURCE) gin.flush(cta);
    size_t const at = hasRows ? 2 * round * row : 0;
    cells[i] = cells[kThreads + i] = cell(rank, round, i);  // bug of: halo-sync, halo-source
    if (bug != HALO_SYNC) __syncthreads();
    // Signal 0 says that the left halo is there, 1 the right one; 2 and 3 that a neighbour has read.
    int toLeft = bug == HALO_SLOT ? 2 : 3, least = bug == HALO_SHARED ? 0 : 1;
    size_t bytes = bug == HALO_UNITS ? row * kThreads : row;
    if (bug == HALO_SYNC) {
      if (i == 0 && hasLeft) gin.put(world, rank - 1, job.window, 3 * row, job.window, 0, row, ncclGin_SignalInc{1});
      if (i == 0 && hasRight) gin.put(world, rank + 1, job.window, 2 * row, job.window, row, row, ncclGin_SignalInc{0});
    } else {
      if (hasLeft || bug == HALO_EDGE) {
        gin.put(world, rank - 1, job.window, at + toLeft * row, job.window, 0, row, ncclGin_SignalInc{ncclGinSignal_t(least)}, ncclGin_None{}, cta);  // bug of: halo-edge, halo-slot
      }
      if (hasRight) {
        gin.put(world, rank + 1, job.window, at + 2 * row, job.window, row, bytes, ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // bug of: halo-units, halo-pressure
      }
    }
    if (bug == HALO_EARLY) {
      if (hasLeft) expect(job, cells[2 * kThreads + i], cell(rank - 1, round, i));  // bug of: halo-early
    }
    if (bug == HALO_SHARED) {
      gin.waitSignal(cta, 0, neighbours * (round + 1));
    } else {
      if (hasLeft) gin.waitSignal(cta, 0, round + 1 + (bug == HALO_ROUNDS && round == rounds - 1));  // bug of: halo-rounds
      if (hasRight) gin.waitSignal(cta, 1, round + 1);
    }
    if (hasLeft) expect(job, cells[at / sizeof(int) + 2 * kThreads + i], cell(rank - 1, round, i));  // bug of: halo-shared
    if (hasRight) expect(job, cells[at / sizeof(int) + 3 * kThreads + i], cell(rank + 1, round, i));  // bug of: halo-shared
    __syncthreads();
    if (bug == HALO_PRESSURE || hasRows) continue;
    if (hasLeft) gin.signal(world, rank - 1, ncclGin_SignalInc{2}, cta);
    if (hasRight) gin.signal(world, rank + 1, ncclGin_SignalInc{3}, cta);
    if (hasLeft) gin.waitSignal(cta, 3, round + 1);
    if (hasRight) gin.waitSignal(cta, 2, round + 1);
  }
  gin.flush(cta);
}

// Each warp serves one peer. A block of tokens for each pair, the count of them in front, then back.
__global__ void moe(Job job, int bug) {
  ncclTeam world = ncclTeamWorld(job.comm);
  int const rank = job.comm.rank, n = job.comm.nRanks, lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  ncclGin gin(job.comm, 0), tokensGin(job.comm, bug == MOE_CONTEXT ? 1 : 0);
  ncclCoopWarp group;
  int const capacity = 64;
  size_t const block = capacity * sizeof(int), send = 0, recv = 4 * block, back = 8 * block, counts = 12 * block;
  int* all = static_cast<int*>(ncclGetLocalPointer(job.window, 0));
  volatile int* polled = all;
  for (int peer = warp; peer < n; peer += warps) {
    if (peer == rank) continue;
    int tokens = bug == MOE_NONE && peer == 2 ? 0 : 32;
    all[(send + peer * block) / sizeof(int) + lane] = cell(rank, peer, lane);
    __syncwarp();
    size_t to = recv + (bug == MOE_SLOTS ? 0 : rank) * block, bytes = (bug == MOE_CAPACITY ? 8192 : tokens) * sizeof(int);
    if (bug == MOE_FLAG) {
      gin.put(world, peer, job.window, to, job.window, send + peer * block, bytes, ncclGin_None{}, ncclGin_None{}, group);
      gin.putValue(world, peer, job.window, counts + rank * sizeof(int), tokens, ncclGin_None{}, group);
    } else if (bug == MOE_CONTEXT) {
      tokensGin.put(world, peer, job.window, to, job.window, send + peer * block, bytes, ncclGin_None{}, ncclGin_None{}, group);
      gin.signal(world, peer, ncclGin_SignalInc{ncclGinSignal_t(rank)}, group);
    } else if (bug == MOE_ADD) {
      gin.put(world, peer, job.window, to, job.window, send + peer * block, bytes, ncclGin_SignalAdd{ncclGinSignal_t(rank), 1}, ncclGin_None{}, group);
    } else if (bug == MOE_LANES) {
      if (lane < tokens / 2) gin.put(world, peer, job.window, to, job.window, send + peer * block, bytes, ncclGin_SignalInc{ncclGinSignal_t(rank)}, ncclGin_None{}, group);  // bug of: moe-lanes
    } else if (bug == MOE_COUNTER) {
      gin.put(world, peer, job.window, to, job.window, send + peer * block, bytes, ncclGin_SignalInc{ncclGinSignal_t(rank)}, ncclGin_CounterInc{ncclGinCounter_t(rank)}, group);
      gin.waitCounter(group, peer, 1);  // bug of: moe-counter
    } else if (tokens > 0) {
      gin.put(world, peer, job.window, to, job.window, send + peer * block, bytes, ncclGin_SignalInc{ncclGinSignal_t(rank)}, ncclGin_None{}, group);  // bug of: moe-capacity, moe-slots
    }
  }
  for (int peer = warp; peer < n; peer += warps) {
    if (peer == rank) continue;
    if (bug == MOE_FLAG) {
      while (polled[counts / sizeof(int) + peer] == 0) __nanosleep(20);
    } else if (bug == MOE_ADD) {
      gin.waitSignal(group, peer, 32);  // bug of: moe-add
    } else {
      gin.waitSignal(group, peer, 1);  // bug of: moe-none
    }
    if (bug == MOE_COMBINE && lane == 0) gin.signal(world, peer, ncclGin_SignalInc{ncclGinSignal_t(8 + rank)});
    expect(job, all[(recv + peer * block) / sizeof(int) + lane], cell(peer, rank, lane));  // bug of: moe-flag, moe-context, moe-combine
    if (bug == MOE_RESET && lane == 0) gin.resetSignal(peer);  // bug of: moe-reset
    __syncwarp();
    // The results: where the tokens lay, one more each.
    if (bug == MOE_COMBINE) {
      gin.waitSignal(group, 8 + peer, 1);
      gin.put(world, peer, job.window, recv + rank * block, job.window, send + peer * block, block / 2, ncclGin_SignalInc{ncclGinSignal_t(4 + rank)}, ncclGin_None{}, group);
    } else {
      gin.put(world, peer, job.window, back + rank * block, job.window, recv + peer * block, block / 2, ncclGin_SignalInc{ncclGinSignal_t(bug == MOE_RESET ? rank : 4 + rank)}, ncclGin_None{}, group);
    }
  }
  for (int peer = warp; peer < n; peer += warps) {
    if (peer == rank) continue;
    gin.waitSignal(group, bug == MOE_RESET ? peer : 4 + peer, 1);
    if (bug == MOE_COMBINE) continue;
    expect(job, all[(back + peer * block) / sizeof(int) + lane], cell(rank, peer, lane));
  }
  gin.flush(group);
  tokensGin.flush(group);
}

// Step s hands on the chunk that came in step s - 1.
__global__ void gather(Job job, int bug) {
  ncclGin gin(job.comm, 0);
  ncclTeam world = ncclTeamWorld(job.comm);
  ncclCoopCta cta;
  int const rank = job.comm.rank, n = job.comm.nRanks, i = threadIdx.x, next = bug == GATHER_PEER ? rank + 1 : (rank + 1) % n;
  size_t const chunk = bug == GATHER_END ? kBytes / n + 64 : kThreads * sizeof(int), base = bug == GATHER_END ? 0 : job.launch * n * chunk;
  int* all = static_cast<int*>(ncclGetLocalPointer(job.window, base));
  uint64_t const before = bug == GATHER_STALE ? 0 : job.launch * (n - 1);
  all[rank * chunk / sizeof(int) + i] = cell(rank, job.launch, i);
  __syncthreads();
  for (int step = 0; step < n - 1; step++) {
    int mine = (rank - step + n) % n;
    if (bug == GATHER_FORWARD && step > 0) {
      gin.put(world, next, job.window, base + mine * chunk, job.window, base + mine * chunk, chunk, ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // bug of: gather-forward
      gin.waitSignal(cta, 0, before + step + 1);
      continue;
    }
    if (bug == GATHER_COUNTER) {
      gin.put(world, next, job.window, base + mine * chunk, job.window, base + mine * chunk, chunk, ncclGin_SignalInc{0}, ncclGin_None{}, cta);
      gin.waitCounter(cta, 0, step + 1);  // bug of: gather-counter
    } else {
      gin.put(world, next, job.window, base + mine * chunk, job.window, base + mine * chunk, chunk, ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // bug of: gather-peer, gather-end, gather-stale
    }
    if (bug == GATHER_FORWARD) continue;
    gin.waitSignal(cta, 0, before + step + 1 + (bug == GATHER_STEPS ? 1 : 0));  // bug of: gather-steps
  }
  for (int from = 0; from < n; from++) expect(job, all[from * chunk / sizeof(int) + i], cell(from, job.launch, i));  // bug of: gather-stale
  gin.flush(cta);
}

// Each block has its part, and adds what all ranks of the LSA team have of it.
__global__ void reduce(Job job, int bug) {
  ncclTeam team = bug == REDUCE_NODE ? ncclTeamWorld(job.comm) : ncclTeamLsa(job.comm);
  ncclTeam lsa = ncclTeamLsa(job.comm);
  ncclCoopCta cta;
  int const i = blockIdx.x * blockDim.x + threadIdx.x, first = job.comm.rank - lsa.rank;
  if (bug == REDUCE_RETURN && job.comm.rank == 1 && blockIdx.x == 1) return;
  ncclLsaBarrierSession<ncclCoopCta> bar(cta, job.comm, ncclTeamTagLsa(), bug == REDUCE_INDEX ? 0 : blockIdx.x + (bug == REDUCE_BLOCKS ? 3 : 0));  // bug of: reduce-blocks, reduce-index
  int* mine = static_cast<int*>(ncclGetLocalPointer(job.window, 0));
  for (int round = 0; round < 2; round++) {
    mine[i] = cell(job.comm.rank, round, i);  // bug of: reduce-reuse
    if (bug == REDUCE_RELAXED) {
      bar.sync(cta, cuda::memory_order_relaxed);
    } else if (bug != REDUCE_BARRIER) {
      bar.sync(cta, cuda::memory_order_acq_rel);  // bug of: reduce-return
    }
    for (int peer = 0; peer < team.nRanks; peer++) {
      int* theirs = static_cast<int*>(ncclGetLsaPointer(job.window, bug == REDUCE_OFFSET ? kBytes + 64 : 0, peer));  // bug of: reduce-offset
      expect(job, theirs[i], cell((bug == REDUCE_NODE ? 0 : first) + peer, round, i));  // bug of: reduce-node, reduce-barrier, reduce-relaxed
    }
    if (bug != REDUCE_REUSE) bar.sync(cta, cuda::memory_order_acq_rel);
  }
}

// Rank 0 makes, the last one eats, those between hand on. Signal 0: messages; 1: credits.
__global__ void pipe(Job job, int bug) {
  ncclGin gin(job.comm, 0);
  ncclTeam world = ncclTeamWorld(job.comm);
  ncclCoopCta cta;
  int const rank = job.comm.rank, n = job.comm.nRanks, i = threadIdx.x, messages = 8, depth = 2;
  size_t const row = kThreads * sizeof(int), in = 0, out = bug == PIPE_MODULO ? kBytes - 4 * row : 8 * row;
  int* cells = static_cast<int*>(ncclGetLocalPointer(job.window, 0));
  bool const isFirst = rank == 0, isLast = rank == n - 1;
  for (int m = 0; m < messages; m++) {
    int slot = bug == PIPE_MODULO ? m : m % depth, free = bug == PIPE_DEPTH ? depth + 1 : depth;
    if (!isFirst) {
      gin.waitSignal(cta, 0, m + 1);  // bug of: pipe-tail
      if (bug == PIPE_SOON) gin.signal(world, rank - 1, ncclGin_SignalInc{1}, cta);
      expect(job, cells[(in + (m % depth) * row) / sizeof(int) + i], cell(0, m, i));  // bug of: pipe-soon, pipe-depth
    }
    if (!isLast) {
      if (m >= free && bug != PIPE_DOWN) gin.waitSignal(cta, 1, m - free + 1);  // bug of: pipe-credit
      gin.flush(cta);
      cells[(out + slot * row) / sizeof(int) + i] = cell(0, m, i);
      __syncthreads();
      if (bug != PIPE_TAIL || m < messages - 1 || rank > 0) {
        gin.put(world, rank + 1, job.window, in + (m % depth) * row, job.window, out + slot * row, row, ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // bug of: pipe-modulo, pipe-down
      }
    }
    __syncthreads();
    if (!isFirst && bug != PIPE_SOON && !(bug == PIPE_CREDIT && rank == 1)) gin.signal(world, rank - 1, ncclGin_SignalInc{1}, cta);
  }
  gin.flush(cta);
}

// Each rank has a part of the sum; ranks of its node store to it, the others put.
__global__ void scatter(Job job, int bug) {
  ncclGin gin(job.comm, 0);
  ncclTeam world = ncclTeamWorld(job.comm), lsa = ncclTeamLsa(job.comm), rail = ncclTeamRail(job.comm);
  ncclCoopCta cta;
  int const rank = world.rank, n = world.nRanks, i = threadIdx.x, first = rank - lsa.rank;
  size_t const row = kThreads * sizeof(int), in = n * row;
  int* cells = static_cast<int*>(ncclGetLocalPointer(job.window, 0));
  for (int to = 0; to < n; to++) cells[to * kThreads + i] = cell(rank, to, i);
  __syncthreads();
  if (bug == SCATTER_RAIL || bug == SCATTER_TEAM) {  // one partner of another node
    int partner = (rail.rank + 1) % rail.nRanks;
    if (bug == SCATTER_RAIL) {
      gin.put(world, partner, job.window, in + rank * row, job.window, partner * row, row, ncclGin_SignalInc{0}, ncclGin_None{}, cta);
    } else {
      gin.put(rail, (rank + 2) % n, job.window, in + rank * row, job.window, 0, row, ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // bug of: scatter-team
    }
    gin.waitSignal(cta, 0, 1);  // bug of: scatter-rail
    gin.flush(cta);
    return;
  }
  int remote = 0;
  for (int to = 0; to < n; to++) {
    if (to >= first && to < first + lsa.nRanks) {
      int* theirs = static_cast<int*>(ncclGetLsaPointer(job.window, in, to - first));
      theirs[rank * kThreads + i] = cells[to * kThreads + i];  // bug of: scatter-fence
    } else if (bug == SCATTER_BARRIER) {
      gin.put(world, to, job.window, in + rank * row, job.window, to * row, row, ncclGin_None{}, ncclGin_None{}, cta);  // bug of: scatter-barrier
    } else {
      gin.put(world, to, job.window, in + rank * row, job.window, to * row, row, ncclGin_SignalInc{0}, ncclGin_None{}, cta), remote++;
    }
  }
  ncclBarrierSession<ncclCoopCta> bar(cta, ncclTeamTagWorld(), gin, 0);
  if (bug == SCATTER_SIGNAL) {
    gin.waitSignal(cta, 0, 1);
  } else if (bug != SCATTER_BARRIER) {
    gin.waitSignal(cta, 0, bug == SCATTER_COUNT ? n - 1 : remote);  // bug of: scatter-count
  }
  bar.sync(cta, bug == SCATTER_FENCE ? cuda::memory_order_relaxed : cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  for (int from = 0; from < n; from++) expect(job, cells[(n + from) * kThreads + i], cell(from, rank, i));  // bug of: scatter-signal
  gin.flush(cta);
}

__global__ void ll(Job job, int bug) {
  ncclCoopCta cta;
  ncclTeam lsa = ncclTeamLsa(job.comm);
  ncclLLA2ASession<ncclCoopCta> a2a(cta, job.comm, lsa, job.ll, bug == LL_BLOCK ? 0 : blockIdx.x, lsa.nRanks);  // bug of: ll-block
  int const i = threadIdx.x;
  for (int round = 0; round < 3; round++) {
    if (i < lsa.nRanks && !(bug == LL_MISSING && lsa.rank == 0 && round == 1)) a2a.send(i, lsa.rank + (bug == LL_SLOTS ? 2 : 0), cell(lsa.rank, round, blockIdx.x));  // bug of: ll-slots, ll-epoch
    if (i < lsa.nRanks) {
      int got = a2a.template recv<int>(i + (bug == LL_SLOTS ? 2 : 0));  // bug of: ll-missing
      expect(job, got, cell(i, round, blockIdx.x));
    }
    if (bug != LL_EPOCH) a2a.endEpoch(cta);
  }
}

// Rank 0 puts to 1.
__global__ void simple(Job job, int bug) {
  ncclGin gin(job.comm, 0);  // bug of: host-destroyed
  ncclCoopCta cta;
  int const i = threadIdx.x;
  int* cells = static_cast<int*>(ncclGetLocalPointer(job.window, 0));
  if (job.comm.rank == 0) {
    if (job.launch > 0) gin.waitSignal(cta, 1, job.launch);
    cells[i] = cell(0, job.launch, i);
    gin.put(ncclTeamWorld(job.comm), 1, job.window, 4096, bug == HOST_GONE ? job.second : job.window, 0, 256, ncclGin_SignalInc{0}, ncclGin_None{}, cta);  // bug of: host-gone, host-gin
    gin.flush(cta);
  } else {
    gin.waitSignal(cta, 0, bug == HOST_STALE ? 1 : job.launch + 1);  // bug of: host-gin
    expect(job, cells[1024 + i], cell(0, job.launch, i));  // bug of: host-stale
    gin.signal(ncclTeamWorld(job.comm), 0, ncclGin_SignalInc{1}, cta);
  }
}

// Two blocks of two warps.
__global__ void sync(Job job, int bug) {
  ncclGin gin(job.comm, 0);
  ncclCoopCta cta;
  ncclCoopWarp group;
  int const warp = threadIdx.x / 32;
  auto const order = cuda::memory_order_acq_rel;
  if (job.program == SYNC_WARPS) {
    if (blockIdx.x > 0) return;
    ncclLsaBarrierSession<ncclCoopWarp> bar(group, job.comm, ncclTeamTagLsa(), bug == SYNC_WARPS ? 0 : warp);  // bug of: sync-warps
    bar.sync(group, order);
  } else if (job.program == SYNC_GIN) {
    ncclGinBarrierSession<ncclCoopCta> bar(cta, gin, ncclTeamTagWorld(), bug == SYNC_GIN ? 0 : blockIdx.x);  // bug of: sync-gin
    for (int i = 0; i < 3; i++) bar.sync(cta, order, ncclGinFenceLevel::Relaxed);
  } else if (job.program == SYNC_NESTED) {
    ncclLsaBarrierSession<ncclCoopCta> bar(cta, job.comm, ncclTeamTagLsa(), blockIdx.x);
    bar.sync(cta, order);
    if (bug == SYNC_NESTED) {
      ncclLsaBarrierSession<ncclCoopCta> again(cta, job.comm, ncclTeamTagLsa(), blockIdx.x);  // bug of: sync-nested
      again.sync(cta, order);
    }
    bar.sync(cta, order);
  } else if (job.program == SYNC_ORDER) {
    if (blockIdx.x > 0) return;
    ncclLsaBarrierSession<ncclCoopCta> first(cta, job.comm, ncclTeamTagLsa(), 0), second(cta, job.comm, ncclTeamTagLsa(), 1);
    if (bug == SYNC_ORDER && job.comm.rank == 1) {
      second.sync(cta, order);  // bug of: sync-order
      first.sync(cta, order);
    } else {
      first.sync(cta, order);
      second.sync(cta, order);
    }
  } else if (job.program == SYNC_ONCE) {
    ncclGinBarrierSession<ncclCoopCta> bar(cta, gin, ncclTeamTagWorld(), blockIdx.x);
    int rounds = bug == SYNC_ONCE && job.comm.rank == 0 ? 3 : 2;
    for (int i = 0; i < rounds; i++) bar.sync(cta, order, ncclGinFenceLevel::Relaxed);  // bug of: sync-once
  } else {
    ncclBarrierSession<ncclCoopCta> bar(cta, ncclTeamTagWorld(), gin, bug == SYNC_HYBRID ? 0 : blockIdx.x);  // bug of: sync-hybrid
    for (int i = 0; i < 3; i++) bar.sync(cta, order, ncclGinFenceLevel::Relaxed);
  }
}
