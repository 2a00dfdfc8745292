#!/usr/bin/env python3
"""Puts the rows of many runs of ginrs-perf side by side: report.py FOLDER [--mode threads].

FOLDER has ARM-RANKS-TURN.json files, as scripts/gpu-bench.sh leaves them. Prints Markdown, also to FOLDER/gpu-bench.md, and writes FOLDER/gpu-bench.json.
Goals are those of the project; every other figure comes from the files.
"""
import argparse, collections, datetime, glob, json, os, re, statistics, subprocess

ARMS = {
    "proxy": "ours, proxy",
    "proxy-alone": "ours, proxy, small payloads too",
    "machines": "ours, two pretended machines",
    "direct": "ours, direct",
    "model-host": "model of a card, rings in host memory, mailbox",
    "model-gpu": "model of a card, rings in GPU memory, mailbox",
    "model-host-record": "model of a card, rings in host memory, record",
    "model-gpu-record": "model of a card, rings in GPU memory, record",
    "nvidia-headers": "NVIDIA's headers on libginrs",
    "nvidia-library": "our headers on NVIDIA's library",
    "nvidia": "NVIDIA's headers and library",
}


class Results:
    def __init__(self, folder):
        self.samples = collections.defaultdict(lambda: collections.defaultdict(list))
        self.missing, self.about = {}, {}
        for path in sorted(glob.glob(os.path.join(folder, "*-*-*.json"))):
            arm, ranks, _ = re.fullmatch(r"(.+)-(\d+)-(\d+)\.json", os.path.basename(path)).groups()
            run = json.load(open(path))
            self.about.setdefault(arm, run)
            for bench, why in run["not_available"].items():
                self.missing[arm, bench] = why
            for row in run["rows"]:
                # The set-up rows name their size; it differs only on the CPU device.
                key = (arm, int(ranks), row["bench"], re.sub(r" of \d+ MB$", "", row["what"]), row["bytes"])
                for field in ("us", "floor_us", "busbw", "wrong"):
                    if field in row:
                        self.samples[key][field].append(row[field])
        self.ranks = sorted({key[1] for key in self.samples})

    def get(self, arm, ranks, bench, what, size=None, field="us"):
        """The median, or None. Without a size: the row's only one."""
        for key, fields in self.samples.items():
            if key[:4] == (arm, ranks, bench, what) and (size is None or key[4] == size) and fields[field]:
                return statistics.median(fields[field])
        return None

    def sizes(self, arm, ranks, bench, what):
        return sorted(key[4] for key in self.samples if key[:4] == (arm, ranks, bench, what))


def show(us):
    if us is None:
        return "-"
    return f"{us / 1000:.3g} ms" if us >= 1000 else f"{us:.3g} us" if us < 100 else f"{us:.0f} us"


def size_name(size):
    for unit in ("B", "KB", "MB"):
        if size < 1024:
            return f"{size} {unit}"
        size //= 1024
    return f"{size} GB"


def goals(r, n):
    """(what, arm, measured, beside it, to reach, reached) for n ranks. A ratio counts with two digits."""
    rows = []

    def at_most(what, arm, us, limit, beside=""):
        rows.append((what, ARMS[arm], show(us), beside, f"at most {limit:g} us", None if us is None else us <= limit))

    def ratio(what, arm, us, base, limit, base_name="NVIDIA's headers and library"):
        value = us / base if us and base else None
        measured = show(us) + (f", {value:.2f}x" if value else "")
        rows.append((what, ARMS[arm], measured, f"{base_name}: {show(base)}", f"at most {limit:g}x", None if value is None else round(value, 2) <= limit))

    for bench, what, title in (("lsa_barrier", "acq_rel, one warp", "LSA barrier acq_rel, one warp"), ("lla2a", "round of 8 B, one warp", "LLA2A round, 8 B")):
        base = r.get("nvidia", n, bench, what)
        for arm in ("proxy", "nvidia-library"):
            ratio(title, arm, r.get(arm, n, bench, what), base, 1.0)

    cost = lambda arm, what: r.get(arm, n, "put_cost", what)
    released, plain = "put, already released to the system", "put"
    beside = "NVIDIA's headers on libginrs: "
    floor = r.get("proxy", n, "put_cost", released, field="floor_us")
    at_most("cost of a put, already released to the system", "proxy", cost("proxy", released), 0.35,
            f"{beside}{show(cost('nvidia-headers', released))}; bare claim and post: {show(floor)}")
    floor = r.get("proxy", n, "put_cost", plain, field="floor_us")
    at_most("cost of a put, default", "proxy", cost("proxy", plain), 0.6,
            f"{beside}{show(cost('nvidia-headers', plain))}; bare, after a GPU fence: {show(floor)}")
    ratio("cost of a put + signal, default", "proxy", cost("proxy", "put + signal"), cost("nvidia-headers", "put + signal"), 1.0, "NVIDIA's headers on libginrs")

    flag = lambda arm: f"flag between GPUs: {show(r.get(arm, n, 'put_latency', 'signal only', field='floor_us'))}"
    trip = lambda arm, what, size: r.get(arm, n, "put_latency", what, size)
    at_most("8 B put + signal, round trip", "direct", trip("direct", "put + signal", 8), 4, flag("direct"))
    at_most("signal only, round trip", "proxy", trip("proxy", "signal only", 0), 6, flag("proxy"))
    at_most("8 B put + signal, round trip", "proxy", trip("proxy", "put + signal", 8), 16, flag("proxy"))
    barrier = r.get("proxy", n, "gin_barrier", "acq_rel, one warp")
    at_most("GIN barrier", "proxy", barrier, 8, f"direct: {show(r.get('direct', n, 'gin_barrier', 'acq_rel, one warp'))}")

    for arm in ("proxy", "direct"):
        sizes = r.sizes(arm, n, "put_bandwidth", "put + signal")
        size = 64 << 20 if 64 << 20 in sizes else (sizes or [0])[-1]
        us = r.get(arm, n, "put_bandwidth", "put + signal", size)
        copy = r.get(arm, n, "put_bandwidth", "put + signal", size, "floor_us")
        value = copy / us if us and copy else None
        rows.append((f"put bandwidth, {size_name(size)}", ARMS[arm], f"{size / us / 1000:.0f} GB/s, {value:.3f}x" if value else "-",
                     f"cudaMemcpyAsync to the peer: {size / copy / 1000:.0f} GB/s" if copy else "-", "at least 0.95x", None if value is None else value >= 0.95))

    rates = [1 / us for s in r.sizes("proxy", n, "put_rate", "puts") if 8 <= s <= 2048 and (us := r.get("proxy", n, "put_rate", "puts", s))]
    rows.append(("puts per second, 8 B to 2 KB, slowest size", ARMS["proxy"], f"{min(rates):.2f} M/s" if rates else "-",
                 f"fastest size: {max(rates):.2f} M/s" if rates else "-", "at least 1 M/s", min(rates) >= 1 if rates else None))
    us = r.get("proxy", n, "put_rate", "signals")
    rows.append(("signals per second", ARMS["proxy"], f"{1 / us:.2f} M/s" if us else "-", "", "at least 3 M/s", 1 / us >= 3 if us else None))

    what = "kernel of examples-c/05"
    pairs = [(r.get("proxy", n, "lsa_allreduce", what, s), r.get("nvidia", n, "lsa_allreduce", what, s), s)
             for s in r.sizes("proxy", n, "lsa_allreduce", what)]
    pairs = [p for p in pairs if p[0] and p[1]]
    if pairs:
        worst = max(pairs, key=lambda p: p[0] / p[1])
        ratio(f"LSA all-reduce kernel, worst size: {size_name(worst[2])}", "proxy", worst[0], worst[1], 1.0)
    else:
        rows.append(("LSA all-reduce kernel", ARMS["proxy"], "-", "-", "at most 1x", None))

    for what in ("communicator init", "first window", "next window", "device communicator, LSA only"):
        ratio(what, "proxy", r.get("proxy", n, "setup", what), r.get("nvidia", n, "setup", what), 0.3)
    return rows


def details(r, n):
    """All rows of all arms: one line per benchmark, kind and size."""
    columns = [arm for arm in ARMS if any(key[0] == arm and key[1] == n for key in r.samples)]
    lines = [f"| benchmark | what | size | {' | '.join(ARMS[arm] for arm in columns)} | floor |", "|---|---|---|" + "---|" * (len(columns) + 1)]
    rows = dict.fromkeys(key[2:] for key in r.samples if key[1] == n)
    order = {bench: i for i, bench in enumerate(dict.fromkeys(row[0] for row in rows))}
    for bench, what, size in sorted(rows, key=lambda row: (order[row[0]], row[1], row[2])):
        cells = []
        for arm in columns:
            us, bw = r.get(arm, n, bench, what, size), r.get(arm, n, bench, what, size, "busbw")
            cells.append("" if us is None else show(us) + (f", {bw:.0f} GB/s" if bw and bw >= 1 else ""))
        floors = [f for arm in columns if (f := r.get(arm, n, bench, what, size, "floor_us"))]
        lines.append(f"| {bench} | {what} | {size_name(size) if size else ''} | {' | '.join(cells)} | {show(statistics.median(floors)) if floors else ''} |")
    return lines


def between_machines(r, folder):
    """Beside raw TCP of the same runs."""
    floors = [json.load(open(path)) for path in glob.glob(os.path.join(folder, "tcp-floor-*"))]
    if not floors:
        return []
    lines = ["## Two pretended machines (GINRS_FAKE_MACHINES, libfabric over TCP on loopback)", "", "| what | measured | raw TCP | |", "|---|---|---|---|"]

    def row(what, us, floor):
        if us:
            lines.append(f"| {what} | {show(us)} | {show(floor)} | {us / floor:.2f}x |")

    trip = statistics.median(floor["round_trip_us"] for floor in floors)
    row("signal only, there and back", r.get("machines", 2, "put_latency", "signal only"), trip)
    row("8 B put + signal, there and back", r.get("machines", 2, "put_latency", "put + signal", 8), trip)
    for size in floors[0]["stream_us"]:
        row(f"put + signal of {size_name(int(size))}, one context", r.get("machines", 2, "put_bandwidth", "put + signal", int(size)),
            statistics.median(floor["stream_us"][size] for floor in floors))
    return lines + [""]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--mode", default="threads")
    options = parser.parse_args()
    r = Results(options.folder)
    if not r.samples:
        raise SystemExit(f"report.py: no rows in {options.folder}")
    first = next(iter(r.about.values()))
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.split("\n")[0] if have_smi() else "none"
    lines = [f"{datetime.date.today()}, {first['device']}, CUDA {first['runtime'] // 1000}.{first['runtime'] % 1000 // 10}, driver {driver}, ranks as {options.mode}, NVLS off. "
             "Medians of interleaved runs; times are per operation.", ""]
    all_goals = {}
    for n in r.ranks:
        lines += [f"## {n} ranks", "", "| what | arm | measured | beside it | to reach | |", "|---|---|---|---|---|---|"]
        all_goals[n] = goals(r, n)
        for what, arm, measured, beside, limit, reached in all_goals[n]:
            lines.append(f"| {what} | {arm} | {measured} | {beside} | {limit} | {'not measured' if reached is None else 'reached' if reached else '**not reached**'} |")
        lines += ["", f"All rows, {n} ranks:", ""] + details(r, n) + [""]
    lines += between_machines(r, options.folder)
    wrong = sum(sum(fields["wrong"]) for fields in r.samples.values())
    lines.append(f"Elements compared and found wrong: {int(wrong)}.")
    for (arm, bench), why in sorted(r.missing.items()):
        lines.append(f"- {ARMS.get(arm, arm)}, {bench}: not available: {why}")
    failed = os.path.join(options.folder, "failed")
    if os.path.exists(failed):
        lines += ["", "Failed runs:"] + [f"- {line.strip()}" for line in open(failed)]
    text = "\n".join(lines) + "\n"
    with open(os.path.join(options.folder, "gpu-bench.md"), "w") as f:
        f.write(text)
    with open(os.path.join(options.folder, "gpu-bench.json"), "w") as f:
        rows = [dict(zip(("arm", "ranks", "bench", "what", "bytes"), key), **{k: statistics.median(v) for k, v in fields.items() if v}) for key, fields in r.samples.items()]
        fields = ("what", "arm", "measured", "beside", "to_reach", "reached")
        json.dump({"goals": {n: [dict(zip(fields, row)) for row in rows_] for n, rows_ in all_goals.items()}, "rows": rows}, f, indent=1)
    print(text, end="")
    raise SystemExit(1 if wrong or os.path.exists(failed) else 0)


def have_smi():
    return any(os.access(os.path.join(folder, "nvidia-smi"), os.X_OK) for folder in os.environ.get("PATH", "").split(":"))


if __name__ == "__main__":
    main()
