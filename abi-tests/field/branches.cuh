// A graph of two branches, of which one sends what the other one fills; with the mistake both run at a time.
#pragma once
#include <cuda_runtime.h>

template <class Job>
static void launchBranches(Job const& job, void (*fill)(Job), void (*send)(Job)) {
  cudaStream_t first, second;
  cudaEvent_t forks, joins;
  cudaGraph_t captured;
  cudaGraphExec_t graph;
  for (auto* stream : {&first, &second}) CHECK(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
  for (auto* event : {&forks, &joins}) CHECK(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
  CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal));
  CHECK(cudaEventRecord(forks, first));
  CHECK(cudaStreamWaitEvent(second, forks, 0));
  fill<<<1, kThreads, 0, second>>>(job);
  CHECK(cudaEventRecord(joins, second));
  if (!job.bug) CHECK(cudaStreamWaitEvent(first, joins, 0));
  send<<<1, kThreads, 0, first>>>(job);
  if (job.bug) CHECK(cudaStreamWaitEvent(first, joins, 0));
  CHECK(cudaStreamEndCapture(first, &captured));
  CHECK(cudaGraphInstantiate(&graph, captured, 0));
  CHECK(cudaGraphLaunch(graph, first));
}
