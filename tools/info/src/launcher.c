/* ginrs-info is a rank as users' programs are: it asks the same header who it is, and gets the unique id by it. */

/* Of nccl.h, without the CUDA headers that it needs. */
typedef struct {
  char internal[128];
} ncclUniqueId;
typedef int ncclResult_t;
enum { ncclSuccess };
ncclResult_t pncclGetUniqueId(ncclUniqueId* id);
const char* pncclGetLastError(void* comm);
/* Their names with a p are all that the library has when it is linked as Rust's. */
#define ncclGetUniqueId pncclGetUniqueId
#define ncclGetLastError pncclGetLastError

#include "ginrs_bootstrap.h"

static ginrsBootstrap boot;

int ginrs_info_rank(int* rank, int* ranks, int* local) {
  if (ginrsBootstrapInit(&boot) != 0) return -1;
  *rank = boot.rank;
  *ranks = boot.nRanks;
  *local = boot.localRank;
  return 0;
}

int ginrs_info_id(ncclUniqueId* id) { return ginrsBootstrapUniqueId(&boot, id); }
