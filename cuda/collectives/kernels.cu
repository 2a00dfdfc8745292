/* The kernels of the host collectives: one for each way to add up, four that only move bytes, one for sends and receives. The host
 * finds them by their names (src/coll). */
#include "kernels.cuh"
