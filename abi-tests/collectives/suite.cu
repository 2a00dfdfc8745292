// The host collectives' tests as one program; see twice.h for its modes.
//
//   suite [--threads N | --one-thread N] [NAME..]
#define TWICE_SUITE
#include <algorithm>
#include "world.h"

namespace collectives {
#include "collectives.cu"
}
namespace streams {
#include "streams.cu"
}
namespace captured {
#include "captured.cu"
}
namespace p2p {
#include "p2p.cu"
}
namespace groups {
#include "groups.cu"
}
namespace mapped {
#include "mapped.cu"
}
namespace mixed {
#include "mixed.cu"
}

int runRank(Example& ex) { return twiceNow.test.test(ex); }  // for example.h's own main, which nothing calls

int main(int argc, char** argv) {
  return twiceMain(argc, argv, {
    {"collectives", collectives::test},
    {"streams", streams::test},
    {"captured", captured::test},
    {"p2p", p2p::test},
    {"groups", groups::test},
    {"mapped", mapped::test},
    {"mixed", mixed::test},
  });
}
