/* The name of lsa_barrier.h in NCCL 2.28.3. */
#include "lsa_barrier.h"
