// The command line, as nccl-tests has it.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <string>
#include <vector>

struct Options {
  size_t minBytes = 0, maxBytes = 0; // 0: each benchmark's own
  double factor = 0;
  int iterations = 0, warmup = -1;   // likewise
  int repeats = 5;
  int threads = 1, gpus = 0; // ranks of this process: threads * gpus; gpus 0: one under a launcher, else all
  int check = 1;
  int timeout = 300; // seconds for everything
  bool quick = false;
  std::string json;
  std::vector<std::string> names; // benchmarks; empty: all
};

static void usage(FILE* to) {
  fputs("usage: ginrs-perf [options] [benchmark ...]\n"
        "  -b, --minbytes SIZE     smallest size, with K, M or G (default: the benchmark's own)\n"
        "  -e, --maxbytes SIZE     largest size\n"
        "  -f, --stepfactor F      next size = F * size\n"
        "  -n, --iters N           operations in one timing\n"
        "  -w, --warmup N          operations before it\n"
        "  -r, --repeats N         timings of each row; printed is their median (5)\n"
        "  -t, --nthreads N        threads of this process (1)\n"
        "  -g, --ngpus N           GPUs per thread (1 under a launcher, else all); each is a rank\n"
        "  -c, --check 0|1         compare what has arrived (1)\n"
        "  -T, --timeout SECONDS   for the whole run (300); then the status is 124\n"
        "      --quick             fewer sizes and repeats\n"
        "      --json FILE         the rows as JSON too\n"
        "      --list              the benchmarks\n"
        "One process per GPU: under ginrs-run, torchrun, mpirun or srun.\n",
        to);
}

static bool parseSize(const char* text, size_t* bytes) {
  char* end;
  double value = strtod(text, &end);
  const char* units = "KMG";
  if (const char* unit = *end ? strchr(units, *end & ~0x20) : nullptr) {
    value *= ldexp(1, 10 * (int)(unit - units + 1));
    end++;
  }
  if (end == text || *end || value < 1 || value > ldexp(1, 40)) return false;
  *bytes = (size_t)value;
  return true;
}

// False: wrong, and said so.
static bool parseOptions(int argc, char** argv, Options* o, bool* list) {
  auto number = [](const char* text, double least, double* out) {
    char* end;
    *out = strtod(text, &end);
    return end != text && !*end && *out >= least && *out < 1e9;
  };
  for (int i = 1; i < argc; i++) {
    std::string a = argv[i];
    auto is = [&](const char* brief, const char* full) { return a == brief || a == full; };
    if (is("-h", "--help")) {
      usage(stdout);
      exit(0);
    }
    if (a == "--quick") {
      o->quick = true;
      continue;
    }
    if (a == "--list") {
      *list = true;
      continue;
    }
    if (a[0] != '-') {
      o->names.push_back(a);
      continue;
    }
    if (i + 1 == argc) {
      fprintf(stderr, "ginrs-perf: %s is unknown, or its value is missing | fix: ginrs-perf --help\n", a.c_str());
      return false;
    }
    const char* value = argv[++i];
    double v = 0;
    bool ok = true;
    if (is("-b", "--minbytes")) ok = parseSize(value, &o->minBytes);
    else if (is("-e", "--maxbytes")) ok = parseSize(value, &o->maxBytes);
    else if (is("-f", "--stepfactor")) ok = number(value, 1.01, &o->factor);
    else if (a == "--json") o->json = value;
    else {
      struct { const char *brief, *full; int least; int* into; } ints[] = {
          {"-n", "--iters", 1, &o->iterations}, {"-w", "--warmup", 0, &o->warmup}, {"-r", "--repeats", 1, &o->repeats},
          {"-t", "--nthreads", 1, &o->threads}, {"-g", "--ngpus", 1, &o->gpus},    {"-c", "--check", 0, &o->check},
          {"-T", "--timeout", 1, &o->timeout},
      };
      bool known = false;
      for (auto& one : ints) {
        if (!is(one.brief, one.full)) continue;
        known = true;
        if ((ok = number(value, one.least, &v))) *one.into = (int)v;
      }
      if (!known) {
        fprintf(stderr, "ginrs-perf: %s is unknown | fix: ginrs-perf --help\n", a.c_str());
        return false;
      }
    }
    if (!ok) {
      fprintf(stderr, "ginrs-perf: %s %s is no valid value | fix: ginrs-perf --help\n", a.c_str(), value);
      return false;
    }
  }
  return true;
}
