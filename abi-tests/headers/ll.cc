/* T099: where the LL all-to-all keeps its lines, and which epochs there are. */
#include <ginrs_device/ll/a2a.cuh>

#include <cstring>

#include "check.h"
using namespace ginrs::ll;

struct Twelve {
  uint32_t x[3];
};

int main() {
  /* S = 32, b = 3: the block begins at line 195, even slots at 196, odd ones at 228. */
  CHECK(slotsOffset(3, 32, 2) == 196 && slotsOffset(3, 32, 3) == 228);
  CHECK(slotsOffset(3, 32, 4) == 196 && slotsOffset(3, 32, 5) == 228);
  CHECK(slotsOffset(0, 32, 2) == 1 && slotsOffset(4, 32, 2) == slotsOffset(3, 32, 3) + 33);
  CHECK(nextEpoch(2) == 3 && nextEpoch(0xfffffffe) == 0xffffffff && nextEpoch(0xffffffff) == 2);

  Line line = packLine(0x8877665544332211, 5);
  uint32_t words[4];
  memcpy(words, &line, 16);
  CHECK(words[0] == 0x44332211 && words[1] == 5 && words[2] == 0x88776655 && words[3] == 5);
  CHECK(dataOf(line) == 0x8877665544332211 && isOf(line, 5) && !isOf(line, 4));
  CHECK(!isOf(Line{line.low, packLine(0, 4).high}, 5) && !isOf(Line{packLine(0, 4).low, line.high}, 5));

  static_assert(Pieces<char>::n == 1 && Pieces<double>::n == 1 && Pieces<Twelve>::n == 2, "8 bytes a piece");
  Twelve in = {{1, 2, 3}}, out = {};
  join(out, cut(in));
  CHECK(memcmp(&in, &out, 12) == 0);
  return failures;
}
