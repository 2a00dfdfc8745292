/* The kernels of the host collectives: one for each way to add up, some that only move bytes, those through the switch, one for sends and receives. The host
 * finds them by their names (src/coll). */
#include "kernels.cuh"
