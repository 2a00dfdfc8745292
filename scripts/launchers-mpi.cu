// The unique id over MPI_Bcast, then a sum over all ranks: what a program with MPI does. scripts/launchers.sh starts it.
#include <mpi.h>
#include <nccl.h>
#include <cuda_runtime.h>
#include <stdio.h>

#define CHECK(call) do { if ((call) != 0) { fprintf(stderr, "%s failed: %s\n", #call, ncclGetLastError(NULL)); MPI_Abort(MPI_COMM_WORLD, 1); } } while (0)

__global__ void fill(int* data, int value) { data[threadIdx.x] = value; }

int main(int argc, char** argv) {
  int rank, nRanks, local, sum[4];
  MPI_Comm machine;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &nRanks);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
  MPI_Comm_rank(machine, &local);
  int devices;
  CHECK(cudaGetDeviceCount(&devices));
  CHECK(cudaSetDevice(local % devices));
  ncclUniqueId id;
  if (rank == 0) CHECK(ncclGetUniqueId(&id));
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  ncclComm_t comm;
  CHECK(ncclCommInitRank(&comm, nRanks, id, rank));
  int* data;
  CHECK(cudaMalloc(&data, sizeof sum));
  fill<<<1, 4>>>(data, rank + 1);
  CHECK(ncclAllReduce(data, data, 4, ncclInt, ncclSum, comm, 0));
  CHECK(cudaMemcpy(sum, data, sizeof sum, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(data));
  CHECK(ncclCommDestroy(comm));
  int right = sum[0] == nRanks * (nRanks + 1) / 2 && sum[3] == sum[0];
  printf("rank %d of %d: the sum is %s\n", rank, nRanks, right ? "right" : "WRONG");
  MPI_Finalize();
  return right ? 0 : 1;
}
