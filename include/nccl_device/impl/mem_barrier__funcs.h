/* The name of lsa_barrier__funcs.h in NCCL 2.28.3. */
#include "lsa_barrier__funcs.h"
