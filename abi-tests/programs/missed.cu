// 16 ranks, threads of one process, miss a 17th: one line says so, and ncclGetLastError tells each. MISSED=root: it is the first, at NCCL_COMM_ID.
#include <nccl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <thread>
#include <vector>

int main() {
  char const* whom = getenv("MISSED");
  bool const root = whom != NULL && strcmp(whom, "root") == 0;
  char const* words = root ? "the first rank has not come" : "missing rank 16";
  ncclUniqueId id;
  std::atomic<int> told{0};
  std::vector<std::thread> ranks;
  if (ncclGetUniqueId(&id) != ncclSuccess) return 1;
  for (int rank = 0; rank < 16; rank++) {
    ranks.emplace_back([&, rank] {
      ncclComm_t comm;
      ncclResult_t result = ncclCommInitRank(&comm, 17, id, rank + root);
      told += result == ncclRemoteError && strstr(ncclGetLastError(NULL), words) != NULL;
    });
  }
  for (auto& rank : ranks) rank.join();
  printf("%d of 16 are told\n", told.load());
  return 0;
}
