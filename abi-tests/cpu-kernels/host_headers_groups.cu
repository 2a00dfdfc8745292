// As host_headers.cu, by <cooperative_groups.h>.
#define BY_GROUPS
#include "host_headers.cu"
