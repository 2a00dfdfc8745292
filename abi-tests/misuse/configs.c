/* Settings of a communicator. */
#include "misuse.h"

/* Settings as programs of any 2.x version pass them: `size` bytes, of a header of `version`. */
static void config(ncclResult_t code, size_t size, unsigned version, ncclConfig_t with) {
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  with.size = size;
  with.version = version;
  WANT(ncclSuccess, ncclGetUniqueId(&id));
  WANT(code, ncclCommInitRankConfig(&comm, 1, id, 0, &with));
  if ((comm != NULL) != (code == ncclSuccess)) wrong = 1;
  WANT(ncclSuccess, ncclCommDestroy(comm));
}

void configs(void) {
  ncclConfig_t good = NCCL_CONFIG_INITIALIZER, bad;
  struct { ncclConfig_t known; char more[64]; } newer;
  config(ncclSuccess, sizeof good, NCCL_VERSION_CODE, good);
  config(ncclInvalidArgument, 15, NCCL_VERSION_CODE, good);
  config(ncclSuccess, 16, 21400, good);
  /* What lies behind the struct of an older header, and fields that its version does not have, are not looked at. */
  bad = good;
  bad.nvlinkCentricSched = 77;
  bad.nChannelsPerNetPeer = 999;
  config(ncclInvalidArgument, sizeof good, NCCL_VERSION_CODE, bad);
  config(ncclSuccess, 72, NCCL_VERSION_CODE, bad);
  config(ncclSuccess, sizeof good, 22705, bad);
  /* Half a pointer is none. */
  bad = good;
  memset(&bad.commName, 0x5a, sizeof bad.commName);
  config(ncclSuccess, 52, NCCL_VERSION_CODE, bad);
  memset(&bad.netName, 0x5a, sizeof bad.netName);
  config(ncclSuccess, 36, NCCL_VERSION_CODE, bad);
  bad = good;
  bad.CTAPolicy = 9;
  bad.nvlsCTAs = 0;
  bad.collnetEnable = bad.shrinkShare = 2;
  config(ncclInvalidArgument, sizeof good, 22700, bad);
  config(ncclSuccess, sizeof good, 22605, bad);
  bad = good;
  bad.cgaClusterSize = bad.minCTAs = -1;
  config(ncclInvalidArgument, sizeof good, 21700, bad);
  config(ncclSuccess, sizeof good, 21600, bad);
  bad = good;
  bad.minCTAs = 8;
  bad.maxCTAs = 4;
  config(ncclInvalidArgument, sizeof good, NCCL_VERSION_CODE, bad);
  bad.maxCTAs = 1000; /* more than there are: less are used */
  bad.splitShare = bad.shrinkShare = 1;
  bad.trafficClass = 5;
  bad.netName = "none";
  bad.commName = "misuse";
  config(ncclSuccess, sizeof good, NCCL_VERSION_CODE, bad);
  memset(&newer, 0x5a, sizeof newer);
  newer.known = good;
  newer.known.size = sizeof newer;
  newer.known.version = 22999;
  {
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    WANT(ncclSuccess, ncclGetUniqueId(&id));
    WANT(ncclSuccess, ncclCommInitRankConfig(&comm, 1, id, 0, &newer.known));
    WANT(ncclSuccess, ncclCommDestroy(comm));
  }
}
