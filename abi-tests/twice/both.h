// Both halves of both.cu: what the one with main asks of the other.
#pragma once
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>
#include "found.h"

static const int kBothCount = 1000;  // elements of a put

struct BothArea {
  ncclWindow_t window;  // in: kBothCount elements from each rank, then one value from each, for each of two halves; out
  ncclLLA2AHandle ll;
  int gin, part;  // part: which third of the window, barriers, signals: kernels that run side by side have their own
  unsigned round;
};

// One round on this half's headers.
void bothOurs(const ncclDevComm& devComm, const BothArea& area, Found* found, cudaStream_t stream);
void bothTheirs(const ncclDevComm& devComm, const BothArea& area, Found* found, cudaStream_t stream);
