/* All device tests in one TU: what is compiled for every architecture. */
#include "coop.cu"
#include "gin.cu"
#include "layout.h"
#include "pointers.cu"
#include "sessions.cu"
