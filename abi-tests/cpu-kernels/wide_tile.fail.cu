// expect: tiles of more than one warp are not available on the CPU device
#include <cooperative_groups.h>
__global__ void k() { cooperative_groups::tiled_partition<64>(cooperative_groups::this_thread_block()).sync(); }
int main() { k<<<1, 64>>>(); }
