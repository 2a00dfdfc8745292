// The options of nccltests.cu, which are described there.
#pragma once
#include <stdlib.h>
#include <string.h>
#include <string>
#include <vector>
#include "case.h"

static struct {
  int threads = 1, gpus = 1, iterations = 20, warmups = 5, repeats = 1, check = 1, together = 1, nonBlocking = 0;
  size_t from = 32 << 20, to = 32 << 20, factor = 2;
  std::vector<int> kinds = {kAllReduce}, types = {ncclFloat32}, ops = {kSum}, registrations = {0}, graphs = {0};
  int root = 0;  // -1: all
  FILE* json = NULL;
} args;

static size_t parseSize(const char* text) {
  char* end;
  double value = strtod(text, &end);
  switch (*end) {
    case 'G': case 'g': return (size_t)(value * (1 << 30));
    case 'M': case 'm': return (size_t)(value * (1 << 20));
    case 'K': case 'k': return (size_t)(value * (1 << 10));
    default: return (size_t)value;
  }
}

template <typename Name>
static std::vector<int> parseNames(const char* option, const char* text, int n, Name name) {
  std::vector<int> found;
  std::string rest = std::string(text) + ",";
  for (size_t at; (at = rest.find(',')) != std::string::npos; rest = rest.substr(at + 1)) {
    std::string one = rest.substr(0, at);
    if (one == "half") one = "float16";
    if (one == "float") one = "float32";
    if (one == "double") one = "float64";
    size_t before = found.size();
    for (int i = 0; i < n; i++) {
      if (one == "all" || strcasecmp(one.c_str(), name(i)) == 0) found.push_back(i);
    }
    if (found.size() == before) fprintf(stderr, "%s %s: unknown name\n", option, one.c_str()), exit(2);
  }
  return found;
}

static std::vector<int> parseNumbers(const char* text) {
  std::vector<int> found = {atoi(text)};
  while ((text = strchr(text, ','))) found.push_back(atoi(++text));
  return found;
}

static void parse(int argc, char** argv) {
  for (int i = 1; i < argc; i += 2) {
    const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (!value) fprintf(stderr, "%s wants a value; the options are at the head of nccltests.cu\n", option), exit(2);
    char letter = strcmp(option, "--json") == 0 ? 'J' : option[0] == '-' && option[1] && !option[2] ? option[1] : '?';
    switch (letter) {
      case 't': args.threads = atoi(value); break;
      case 'g': args.gpus = atoi(value); break;
      case 'b': args.from = parseSize(value); break;
      case 'e': args.to = parseSize(value); break;
      case 'f': args.factor = strtoul(value, NULL, 0); break;
      case 'n': args.iterations = atoi(value); break;
      case 'w': args.warmups = atoi(value); break;
      case 'a': args.repeats = atoi(value); break;
      case 'c': args.check = atoi(value); break;
      case 'R': args.registrations = parseNumbers(value); break;
      case 'G': args.graphs = parseNumbers(value); break;
      case 'm': args.together = atoi(value); break;
      case 'N': args.nonBlocking = atoi(value); break;
      case 'C': args.kinds = parseNames(option, value, kKinds, kindName); break;
      case 'd': args.types = parseNames(option, value, kTypes, [](int type) { return typeFacts(type).name; }); break;
      case 'o': args.ops = parseNames(option, value, kAvg + 1, opName); break;
      case 'r': args.root = strcmp(value, "all") == 0 ? -1 : atoi(value); break;
      case 'J': args.json = fopen(value, "a"); break;
      default: fprintf(stderr, "%s is unknown; the options are at the head of nccltests.cu\n", option), exit(2);
    }
  }
  if (args.to < args.from) args.to = args.from;
  if (args.threads < 1 || args.gpus < 1 || args.factor < 2 || args.iterations < 1 || args.repeats < 1 || args.together < 1) {
    fprintf(stderr, "-t, -g, -n, -a and -m want 1 or more, -f 2 or more\n"), exit(2);
  }
}
