// What soak.cu does in a round, as a pure function of seed, round, rank and worker: the senders carry it out, the receivers
// work out from it what they must find.
#pragma once
#include <stddef.h>

struct Soak {
  unsigned long long seed;
  int blocks, threads, gin;  // gin: is there GIN?
  size_t strip;              // bytes of a worker in the send window; in a receive window each sender has blocks * strip
};

static const int kSoakSignals = 4;  // user signals of a context that pieces add to; the next one closes a round

__host__ __device__ static inline unsigned long long soakMix(unsigned long long x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// The byte at `at` of rank's send window in a round: cheap, and different in every byte, round and rank.
__host__ __device__ static inline unsigned char soakByte(const Soak& soak, int rank, unsigned round, size_t at) {
  unsigned long long word = soakMix(soak.seed + rank * 0x1000193ull + round * 0x100000001b3ull + (at >> 3));
  return (unsigned char)(word >> (at & 7) * 8);
}

enum SoakKind { SOAK_PUT, SOAK_VALUE, SOAK_STORE, SOAK_SIGNAL };

struct SoakPiece {
  int kind, peer, signal;  // signal: -1 for none
  bool counted;
  size_t offset, bytes;
  unsigned long long add;
};

// One worker (a block) walks its strip from front to back.
struct SoakWalk {
  const Soak& soak;
  unsigned long long state;
  size_t at = 0, largest;
  int nRanks, lsaFirst, lsaSize;

  __host__ __device__ SoakWalk(const Soak& soak, unsigned round, int rank, int worker, int nRanks, int lsaSize)
      : soak(soak), nRanks(nRanks), lsaFirst(rank / lsaSize * lsaSize), lsaSize(lsaSize) {
    state = soakMix(soak.seed ^ soakMix(round * 4096ull + rank * 64ull + worker));
    const size_t limits[] = {24, 256, 3000, 20000, soak.strip};
    largest = limits[soakMix(soak.seed + round) % 5];
  }

  __host__ __device__ bool next(SoakPiece* piece) {
    if (at >= soak.strip) return false;
    state = soakMix(state);
    int kind = state % 16;
    piece->peer = (int)((state >> 8) % nRanks);
    piece->signal = (int)((state >> 24) % (kSoakSignals + 1)) - 1;
    piece->add = 1 + (state >> 40) % 100000;
    piece->counted = state >> 20 & 1;
    bool near = piece->peer >= lsaFirst && piece->peer < lsaFirst + lsaSize;
    bool store = near && (kind < 4 || !soak.gin);
    piece->kind = store ? SOAK_STORE : kind < 7 ? SOAK_VALUE : kind == 7 ? SOAK_SIGNAL : SOAK_PUT;
    state = soakMix(state);
    size_t bytes = state % (largest + 1);
    if (piece->kind == SOAK_VALUE) bytes = size_t(1) << state % 4;
    if (piece->kind == SOAK_SIGNAL) {
      bytes = 0;
      if (piece->signal < 0) piece->signal = 0;
    }
    // A value is naturally aligned.
    if (piece->kind == SOAK_VALUE) at = (at + bytes - 1) & ~(bytes - 1);
    if (at >= soak.strip) return false;
    piece->offset = at;
    piece->bytes = bytes < soak.strip - at ? bytes : soak.strip - at;
    if (piece->kind == SOAK_STORE) piece->signal = -1;
    if (piece->kind != SOAK_PUT) piece->counted = false;
    at += piece->bytes > 0 ? piece->bytes : 1;
    return true;
  }
};
