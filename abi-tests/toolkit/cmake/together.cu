// Both files in one, so that no device linking is needed.
#include "../device.cu"
#define main run
#include "../main.cu"
