// What both files of device code share, so that -rdc=true has something to link.
#pragma once
__device__ int doubled(int value);
