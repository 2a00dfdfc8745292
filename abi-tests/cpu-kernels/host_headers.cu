// What NVIDIA's <cuda/atomic> and <cooperative_groups.h> bring along of the host's library: programs that include nothing else
// throw std::runtime_error, ask for INT_MAX and FLT_MAX and take the time. A header of the two alone comes before all others.
#ifdef BY_GROUPS
#include <cooperative_groups.h>
#define NAME "host_headers_groups"
#else
#include <cuda/atomic>
#define NAME "host_headers"
#endif

static int thrown() {
  try {
    throw std::runtime_error("thrown");
  } catch (const std::exception& e) {
    return e.what()[0] == 't' ? INT_MAX : 0;
  }
}
static bool told() {
  const auto since = std::chrono::steady_clock::now();
  const std::time_t now = std::time(nullptr);
  int numbers[3] = {3, 1, 2};
  assert(now > 0);
  return std::end(numbers) - std::begin(numbers) == 3 && FLT_MAX > 1e38f && std::chrono::steady_clock::now() >= since &&
         std::kilo::num == 1000 && std::error_code(2, std::generic_category()).value() == 2;
}

#include "check.h"

int main() {
  CHECK(thrown() == INT_MAX);
  CHECK(told());
  return finish(NAME);
}
