/* ginrs-info is a rank as users' programs are: it asks the same header who it is, and shares the unique id by it. */
#include "ginrs_bootstrap.h"

static ginrsBootstrap boot;

int ginrs_info_rank(int* rank, int* ranks) {
  if (ginrsBootstrapInit(&boot) != 0) return -1;
  *rank = boot.rank;
  *ranks = boot.nRanks;
  return 0;
}

int ginrs_info_share(void* bytes, size_t count) { return ginrsBootstrapBroadcast(&boot, bytes, count); }
