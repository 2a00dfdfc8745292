// Multicast teams as the host sees them: the LSA team and its halves, made once, with windows before, between and after.
// MULTICAST=refused: there are none, and the communicator goes on. Needs two ranks or more on each node.
#include "../../examples-c/common/example.h"

static int check(Example& ex, bool holds, const char* what) {
  if (!holds) fprintf(stderr, "rank %d: %s\n", ex.rank, what);
  return !holds;
}

int runRank(Example& ex) {
  const char* how = getenv("MULTICAST");
  const bool refused = how != NULL && strcmp(how, "refused") == 0;
  const ncclTeam_t lsa = ncclTeamLsa(ex.comm);
  if (lsa.nRanks < 2) {
    fprintf(stderr, "%d ranks, each on a node of its own: this program needs two or more on one\n", ex.nRanks);
    return 1;
  }
  int wrong = 0;
  ncclWindow_t windows[3];
  void* memory[3];
  memory[0] = ex.allocWindow(1 << 20, &windows[0]);
  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.lsaMultimem = true;
  reqs.lsaBarrierCount = 1;
  ncclMultimemHandle_t half = {}, whole = {}, none = {(void*)7};
  int const parts = lsa.nRanks % 2 == 0 && lsa.nRanks > 2 ? 2 : 1;
  // Even ranks and odd ranks: teams that do not touch each other.
  ncclTeam_t mine = {lsa.nRanks / parts, lsa.rank / parts, parts};
  ncclTeamRequirements_t third = {NULL, lsa, false, &none};
  ncclTeamRequirements_t second = {&third, lsa, true, &whole};
  ncclTeamRequirements_t first = {&second, mine, true, &half};
  reqs.teamRequirementsList = &first;
  ncclDevComm devComms[2];
  if (refused) {
    wrong += check(ex, ncclDevCommCreate(ex.comm, &reqs, &devComms[0]) == ncclInvalidArgument, "lsaMultimem is refused");
    reqs.lsaMultimem = false;
    wrong += check(ex, ncclDevCommCreate(ex.comm, &reqs, &devComms[0]) == ncclInvalidArgument, "a multimem team is refused");
    reqs.teamRequirementsList = NULL;
    NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &devComms[0]));
    wrong += check(ex, devComms[0].lsaMultimem.mcBasePtr == NULL, "no base");
    NCCLCHECK(ncclDevCommDestroy(ex.comm, &devComms[0]));
  } else {
    // A team that leaves the LSA team: an error on this rank is an error on all, and all go on.
    ncclTeamRequirements_t outside = {NULL, {lsa.nRanks + 1, lsa.rank, 1}, true, &whole};
    reqs.teamRequirementsList = &outside;
    wrong += check(ex, ncclDevCommCreate(ex.comm, &reqs, &devComms[0]) == ncclInvalidArgument, "a team outside is refused");
    reqs.teamRequirementsList = &first;
    NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &devComms[0]));
    memory[1] = ex.allocWindow(3 << 20, &windows[1]);
    reqs.lsaMultimem = false;
    reqs.teamRequirementsList = NULL;
    NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &devComms[1]));
    memory[2] = ex.allocWindow(1 << 20, &windows[2]);
    void* base = devComms[0].lsaMultimem.mcBasePtr;
    wrong += check(ex, base != NULL && base == devComms[1].lsaMultimem.mcBasePtr, "the LSA team is made once");
    wrong += check(ex, whole.mcBasePtr == base && none.mcBasePtr == (void*)7, "handles of the list");
    wrong += check(ex, half.mcBasePtr != NULL && (half.mcBasePtr == base) == (parts == 1), "the half has its own");
    for (int i = 2; i >= 1; i--) ex.freeWindow(memory[i], windows[i]);
    for (int i = 0; i < 2; i++) NCCLCHECK(ncclDevCommDestroy(ex.comm, &devComms[i]));
  }
  ex.freeWindow(memory[0], windows[0]);
  ex.elementsChecked += 1;
  return wrong;
}
