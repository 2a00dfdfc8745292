#include <cstdio>

#include "../host.h"

int main() {
  printf("driver %d\n", driver());
  return devices() > 0 ? 0 : 1;
}
