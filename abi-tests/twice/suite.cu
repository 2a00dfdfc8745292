// All programs that make up the matrix as one: a GPU's context is made once, each program has a communicator of its own.
// Compiling them together also takes less time than one by one.
//
//   suite [--threads N | --one-thread N] [NAME..]       without names: all that can run in this mode
#define TWICE_SUITE
#include <cuda_bf16.h>
#include <stdint.h>
#include <time.h>
#include "soak_plan.h"
#include "twice.h"

namespace windows {
#include "windows.cu"
}
namespace layout {
#include "layout.cu"
}
namespace barriers {
#include "barriers.cu"
}
namespace ll {
#include "ll.cu"
}
namespace graphs {
#include "graphs.cu"
}
namespace several {
#include "several.cu"
}
namespace gin {
#include "gin.cu"
}
namespace ginbarriers {
#include "ginbarriers.cu"
}
namespace order {
#include "order.cu"
}
namespace soak {
#include "soak.cu"
}

// Programs with a runRank instead of a test: they know nothing of one thread for all ranks, and exit where there is no GIN.
namespace hello {
#include "../../examples-c/01-hello/main.cu"
}
namespace ring {
#include "../../examples-c/02-ring/main.cu"
}
namespace gin_alltoall {
#include "../../examples-c/03-gin-alltoall/main.cu"
}
namespace hybrid_alltoall {
#include "../../examples-c/04-hybrid-alltoall/main.cu"
}
namespace lsa_allreduce {
#include "../../examples-c/05-lsa-allreduce/main.cu"
}
namespace ll_bcast_reduce {
#include "../../examples-c/06-ll-bcast-reduce/main.cu"
}
#ifndef TWICE_NO_API  // NVIDIA's header converts a double that is put by value, where the bits are meant
namespace api {
#include "../programs/api.cu"
}
#endif
namespace moe {
#include "../programs/moe.cu"
}
namespace sizes {
#include "../programs/sizes.cu"
}
namespace torture {
#include "../programs/torture.cu"
}

template <int (*run)(Example&), bool gin>
static int plain(Example& ex) {
  if (oneThread != NULL || (gin && !ginHere(ex))) return kNotHere;
  return run(ex);
}

int runRank(Example& ex) { return twiceNow.test.test(ex); }  // for example.h's own main, which nothing calls

int main(int argc, char** argv) {
  return twiceMain(argc, argv, {
    {"windows", windows::test},
    {"layout", layout::test},
    {"barriers", barriers::test},
    {"ll", ll::test},
    {"graphs", graphs::test},
    {"several", several::test},
    {"gin", gin::test},
    {"ginbarriers", ginbarriers::test},
    {"order", order::test},
    {"lsa-allreduce", plain<lsa_allreduce::runRank, false>},
    {"ll-bcast-reduce", plain<ll_bcast_reduce::runRank, false>},
    {"hello", plain<hello::runRank, true>},
    {"ring", plain<ring::runRank, true>},
    {"gin-alltoall", plain<gin_alltoall::runRank, true>},
    {"hybrid-alltoall", plain<hybrid_alltoall::runRank, true>},
#ifndef TWICE_NO_API
    {"api", plain<api::runRank, true>},
#endif
    {"moe", plain<moe::runRank, true>},
    {"sizes", plain<sizes::runRank, true>},
    {"torture", plain<torture::runRank, true>},
    {"soak", soak::test},
  });
}
