// What is printed: nccl-tests' table, and the same rows as JSON.
#pragma once
#include <math.h>
#include <stdio.h>

#include <string>
#include <vector>

struct Row {
  std::string bench, what;
  size_t bytes = 0, count = 0;
  double us = 0;              // of one operation
  double algbw = 0, busbw = 0; // GB/s
  long wrong = -1;            // elements; -1: nothing to compare
  double floorUs = 0;         // 0: no floor
  std::string floor;
};

class Table {
public:
  // Rank 0 of the job prints; to the others this is a sink.
  explicit Table(bool prints) : prints(prints) {}

  void begin(const char* name, const char* title) {
    if (!prints) return;
    printf("#\n# %s: %s\n#\n", name, title);
    printf("# %10s %12s %8s %10s %8s %8s %7s %10s %7s  %s\n", "size", "count", "type", "time", "algbw", "busbw", "#wrong", "floor",
           "ratio", "what; floor");
    printf("# %10s %12s %8s %10s %8s %8s %7s %10s %7s\n", "(B)", "(elements)", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "");
  }
  void note(const char* name, const std::string& text) {
    if (!prints) return;
    printf("# %s: not available: %s\n", name, text.c_str());
    notes.push_back({name, text});
    fflush(stdout);
  }
  // `label` is printed in place of r.what.
  void add(const Row& r, const char* label = nullptr) {
    if (!prints) return;
    char wrong[24] = "N/A", floor[24] = "-", ratio[24] = "-";
    if (r.wrong >= 0) snprintf(wrong, sizeof wrong, "%ld", r.wrong);
    if (r.floorUs > 0) {
      snprintf(floor, sizeof floor, "%.*f", digits(r.floorUs), r.floorUs);
      snprintf(ratio, sizeof ratio, "%.2f", r.us / r.floorUs);
    }
    printf("%12zu %12zu %8s %10.*f %8.2f %8.2f %7s %10s %7s  %s%s%s\n", r.bytes, r.count, r.count * 4 == r.bytes && r.count ? "float" : "byte",
           digits(r.us), r.us, r.algbw, r.busbw, wrong, floor, ratio, label ? label : r.what.c_str(), r.floor.empty() ? "" : "; ", r.floor.c_str());
    fflush(stdout);
    rows.push_back(r);
  }
  long wrong() const {
    long all = 0;
    for (auto& r : rows) all += r.wrong > 0 ? r.wrong : 0;
    return all;
  }
  void end() {
    if (!prints) return;
    printf("# Out of bounds values : %ld %s\n#\n", wrong(), wrong() ? "FAILED" : "OK");
    fflush(stdout);
  }

  // `about` is the inside of an object. False: could not be written.
  bool json(const std::string& path, const std::string& about) const {
    FILE* f = fopen(path.c_str(), "w");
    if (!f) return false;
    fprintf(f, "{%s,\n \"not_available\": {", about.c_str());
    for (size_t i = 0; i < notes.size(); i++)
      fprintf(f, "%s%s: %s", i ? ", " : "", quoted(notes[i].first).c_str(), quoted(notes[i].second).c_str());
    fprintf(f, "},\n \"rows\": [");
    for (size_t i = 0; i < rows.size(); i++) {
      auto& r = rows[i];
      fprintf(f, "%s\n  {\"bench\": %s, \"what\": %s, \"bytes\": %zu, \"us\": %.6g, \"algbw\": %.6g, \"busbw\": %.6g", i ? "," : "",
              quoted(r.bench).c_str(), quoted(r.what).c_str(), r.bytes, r.us, r.algbw, r.busbw);
      if (r.wrong >= 0) fprintf(f, ", \"wrong\": %ld", r.wrong);
      if (r.floorUs > 0) fprintf(f, ", \"floor\": %s, \"floor_us\": %.6g", quoted(r.floor).c_str(), r.floorUs);
      fprintf(f, "}");
    }
    fprintf(f, "\n ]}\n");
    return fclose(f) == 0;
  }

  static std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      out += (unsigned char)c < 0x20 ? ' ' : c;
    }
    return out + "\"";
  }

private:
  static int digits(double us) { return us < 10 ? 3 : us < 1000 ? 2 : 0; }
  bool prints;
  std::vector<Row> rows;
  std::vector<std::pair<std::string, std::string>> notes;
};
