// expect: `wmma`: tensor core (wmma) operations are not available on the CPU device
namespace wmma = nvcuda::wmma;
int main() {}
