// expect: ginrs-cc: error: <mma.h> is not available on the CPU device: there are no tensor cores
#include <mma.h>
int main() {}
