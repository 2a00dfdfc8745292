// Memory of ncclMemAlloc that is freed while a window stands on it; MENDED: behind the window's end.
#include "../../examples-c/common/example.h"

#include <stdlib.h>

int runRank(Example& ex) {
  ncclWindow_t window;
  void* memory = ex.allocWindow(1 << 20, &window);
  if (getenv("MENDED")) {
    ex.freeWindow(memory, window);
  } else {
    NCCLCHECK(ncclMemFree(memory));
    NCCLCHECK(ncclCommWindowDeregister(ex.comm, window));
  }
  return 0;
}
