// A library whose static object ends communicators when it goes: at the end of the process, or at dlclose.
#include "calls.h"

static char how[16];

struct Holder {
  Set set;
  ~Holder() {
    if (!set.made) return;
    if (!strcmp(how, "end")) set.end();
    else set.misuse();
    printf("plugin: done\n");
    fflush(stdout);
  }
};

static Holder holder;

extern "C" void make(const char* asked) {
  snprintf(how, sizeof how, "%s", asked);
  holder.set.make();
}
