// Host threads that speak through descriptors of all kinds, and wait in the calls themselves: the same under one seed, something else under another.
//   ginrs-run --seed 1 ./files                     prints the order in which things came
// tests/explore.rs runs it.
#include <cuda_runtime.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

constexpr int kThreads = 3, kRounds = 10;

static std::mutex lock;
static std::string order;
static void say(char what) {
  std::lock_guard<std::mutex> guard(lock);
  order += what;
}

// A listener, and where it is. An abstract name holds whatever the seed says of it: the process's number tells two runs apart.
static int listenAt(int family, sockaddr_storage* at, socklen_t* length) {
  memset(at, 0, sizeof *at);
  at->ss_family = family;
  if (family == AF_INET) {
    ((sockaddr_in*)at)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *length = sizeof(sockaddr_in);
  } else {
    char* name = ((sockaddr_un*)at)->sun_path + 1;
    *length = offsetof(sockaddr_un, sun_path) + 1 + sprintf(name, "ginrs-explore-%d", getpid());
  }
  int fd = socket(family, SOCK_STREAM, 0);
  if (bind(fd, (sockaddr*)at, *length) != 0 || listen(fd, kThreads) != 0 || getsockname(fd, (sockaddr*)at, length) != 0) perror("listen");
  return fd;
}

// Each message is answered before the next one.
static void answer(int in, int out, char name) {
  char byte;
  while (read(in, &byte, 1) == 1) say(name), (void)!write(out, &byte, 1);
}
static void ask(int in, int out, char name) {
  for (int i = 0; i < kRounds; i++) {
    char byte = char(i), back = -1;
    iovec part = {&byte, 1};
    msghdr message = {};
    message.msg_iov = &part, message.msg_iovlen = 1;
    if (i % 3 == 0) (void)!write(out, &byte, 1);
    if (i % 3 == 1) (void)!writev(out, &part, 1);
    if (i % 3 == 2 && sendmsg(out, &message, MSG_NOSIGNAL) < 0) (void)!write(out, &byte, 1);
    if (i % 2) {
      pollfd wait = {in, POLLIN, 0};
      poll(&wait, 1, -1);
    }
    if (read(in, &back, 1) != 1 || back != byte) say('?');
    say(name);
  }
}

int main() {
  std::vector<std::thread> threads;
  for (int family : {AF_INET, AF_UNIX}) {
    auto at = new sockaddr_storage;
    auto length = new socklen_t;
    int listener = listenAt(family, at, length);
    char name = family == AF_INET ? 'a' : 'k';
    threads.emplace_back([=] {
      for (int t = 0; t < kThreads; t++) {
        int fd = accept(listener, NULL, NULL);
        say(name), answer(fd, fd, name), close(fd);
      }
      close(listener);
    });
    for (int t = 0; t < kThreads; t++) {
      threads.emplace_back([=] {
        int fd = socket(family, SOCK_STREAM, 0);
        if (connect(fd, (const sockaddr*)at, *length) != 0) say('?');
        ask(fd, fd, char(name + 1 + t)), close(fd);
      });
    }
  }
  int pair[2], there[2], back[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || pipe(there) != 0 || pipe(back) != 0) return 1;
  threads.emplace_back([=] { answer(pair[0], pair[0], 'u'), close(pair[0]); });
  threads.emplace_back([=] { ask(pair[1], pair[1], 'v'), close(pair[1]); });
  threads.emplace_back([=] { answer(there[0], back[1], 'w'), close(back[1]); });
  threads.emplace_back([=] { ask(back[0], there[1], 'x'), close(there[1]); });
  for (auto& thread : threads) thread.join();
  // A write that finds no room waits for who reads.
  int full[2];
  if (pipe(full) != 0) return 1;
  std::thread writer([=] {
    std::vector<char> much(1 << 18, 'm');
    size_t sent = 0;
    while (sent < much.size()) sent += write(full[1], much.data() + sent, 4096);
    say('F'), close(full[1]);
  });
  std::thread reader([=] {
    std::vector<char> some(10000);
    size_t had = 0;
    for (ssize_t n; (n = read(full[0], some.data(), some.size())) > 0;) had += n;
    say(had == 1 << 18 ? 'R' : '?');
  });
  writer.join(), reader.join();
  int devices = 0;
  cudaGetDeviceCount(&devices);
  printf("%s\n", order.c_str());
  return order.find('?') != std::string::npos || order.size() != 8 * kRounds * 2 + 2 * kThreads + 2;
}
