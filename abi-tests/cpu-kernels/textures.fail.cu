// expect: `tex2D`: textures are not available on the CPU device
__global__ void k(float* out, unsigned long long t) { *out = tex2D<float>(t, 0.f, 0.f); }
int main() {}
