/* What GINRS_GIN_DIRECT does to ncclDevCommCreate, in C and in C++, with a library that has ginrsDevCommCreate and with
 * one that does not: LIBRARY 1 and 2 are those libraries, 0 the program. Prints who was called. */
#ifndef LIBRARY
#define LIBRARY 0
#endif
#if LIBRARY == 0
#define GINRS_GIN_DIRECT 1
#endif
#include <nccl_device/core.h>
#include <stdio.h>

#if LIBRARY == 0
typedef ncclResult_t (*Create)(ncclComm_t, ncclDevCommRequirements_t const*, ncclDevComm_t*);
int main(void) {
  Create create = ncclDevCommCreate; /* also by its address */
  if (ncclDevCommCreate(NULL, NULL, NULL) != ncclSuccess) return 1;
  return create(NULL, NULL, NULL) != ncclSuccess;
}
#else
ncclResult_t ncclDevCommCreate(ncclComm_t comm, ncclDevCommRequirements_t const* requirements, ncclDevComm_t* out) {
  (void)comm, (void)requirements, (void)out;
  puts("plain");
  return ncclSuccess;
}
#if LIBRARY == 1
NCCL_EXTERN_C ncclResult_t ginrsDevCommCreate(ncclComm_t comm, ncclDevCommRequirements_t const* requirements,
                                              ncclDevComm_t* out, unsigned flags);
ncclResult_t ginrsDevCommCreate(ncclComm_t comm, ncclDevCommRequirements_t const* requirements, ncclDevComm_t* out,
                                unsigned flags) {
  (void)comm, (void)requirements, (void)out;
  printf("ginrs %u\n", flags);
  return ncclSuccess;
}
#endif
#endif
