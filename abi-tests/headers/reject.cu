/* X tests that no type trait can express: with each CASE the compiler must refuse, in words of the header. */
#include "device.h"

struct Wide {
  char x[32];
};
struct Sixteen {
  char x[16];
};
KERNEL(reject) {
  UNUSED();
  ncclGin g{d, 0};
  ncclTeam W = ncclTeamWorld(d);
#if CASE == 1 /* T021 */
  ncclCoopTile<3>().sync();
#elif CASE == 2
  ncclCoopTile<64>().sync();
#elif CASE == 3 /* T026 */
  *(Wide*)o[0] = ncclCoopBcast(ncclCoopCta(), *(Wide*)o[0], 0);
#elif CASE == 4 /* T070 */
  g.putValue(W, 1, w, 0, *(Sixteen*)o[0]);
#elif CASE == 5 /* T073 */
  g.signal(W, 1, ncclGin_None{});
#elif CASE == 6 /* T066 */
  g.put(W, 1, p, ncclSymPtr<int>(w), 4);
#else
  (void)g, (void)W;
#endif
}
