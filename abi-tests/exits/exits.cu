// exits HOW WHEN: ends with communicators in the hands of destructors.
//   HOW   end: they do what is right; misuse: what is wrong
//   WHEN  static: of objects made before main; local: of function statics, made after the communicators; plugin LIB: of a library
//         opened and never closed; closed LIB: of one that is closed; thread: of thread_local objects and pthread keys of a thread;
//         midway: a static one closes the group that main left open
#include "calls.h"
#include <dlfcn.h>
#include <pthread.h>

static const char *how, *when;

struct Holder {
  const char* mine;
  Set set;
  explicit Holder(const char* mine) : mine(mine) {}
  ~Holder() {
    if (!set.made) return;
    if (!strcmp(when, "midway")) WANT(ncclSuccess, ncclGroupEnd());
    if (!strcmp(how, "end")) set.end();
    else set.misuse();
    printf("%s: done\n", mine);
    fflush(stdout);
  }
};

static Holder early("static");

static void keyEnds(void* holder) { delete (Holder*)holder; }

static void* thread(void* key) {
  static thread_local Holder* made = nullptr; // keeps the compiler from merging the two below
  (void)made;
  Holder* last = new Holder("key");
  pthread_setspecific(*(pthread_key_t*)key, last);
  // Made before the library has touched the thread: goes after all that the library may keep there.
  static thread_local Holder first("thread_local");
  first.set.make();
  last->set.make();
  ncclGroupStart();
  ncclGroupEnd();
  cudaStreamSynchronize(cudaStreamPerThread);
  return nullptr;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  how = argv[1], when = argv[2];
  if (!strcmp(when, "static") || !strcmp(when, "midway")) early.set.make();
  if (!strcmp(when, "midway")) WANT(ncclSuccess, ncclGroupStart());
  if (!strcmp(when, "local")) {
    ncclGroupStart();
    ncclGroupEnd();
    static Holder local("local");
    local.set.make();
    early.set.make();
  }
  if (!strcmp(when, "thread")) {
    pthread_key_t key;
    pthread_t id;
    pthread_key_create(&key, keyEnds);
    pthread_create(&id, nullptr, thread, &key);
    pthread_join(id, nullptr);
  }
  if (!strcmp(when, "plugin") || !strcmp(when, "closed")) {
    void* library = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      fprintf(stderr, "%s\n", dlerror());
      return 2;
    }
    ((void (*)(const char*))dlsym(library, "make"))(how);
    if (!strcmp(when, "closed")) {
      dlclose(library);
      printf("main: done\n");
    }
  }
  return 0;
}
