/* A part of cooperative_groups.h by its own name. */
#include "../cooperative_groups.h"
