#!/usr/bin/env python3
"""Puts the rows of nccltests.cu, on our library and on NVIDIA's, side by side: report_collectives.py FOLDER.

FOLDER has ours-RANKS-TURN.json and nvidia-RANKS-TURN.json, or way_WAY-RANKS-TURN.json beside the latter, as scripts/gpu-bench-collectives.sh leaves them. Prints Markdown, also to FOLDER/collectives.md.
"""
import collections, datetime, glob, json, os, re, statistics, subprocess, sys

from report import size_name

MEMORY = {0: "cudaMalloc", 1: "ncclCommRegister", 2: "symmetric windows"}
GOAL = 1.3  # of NVIDIA's time, for registered buffers


def read(folder):
    """(arm, ranks, collective, memory, graph, in place, bytes) -> its row with the median time."""
    samples, wrong = collections.defaultdict(list), []
    for path in sorted(glob.glob(os.path.join(folder, "*-*-*.json"))):
        arm, ranks, _ = re.fullmatch(r"(ours|nvidia|way_[a-z]+)-(\d+)-(\d+)\.json", os.path.basename(path)).groups()
        for line in open(path):
            row = json.loads(line)
            key = (arm, int(ranks), row["collective"], row["registered"], row["graph"] > 0, row["in_place"], row["bytes"])
            samples[key].append(row)
            wrong += [key] if row["wrong"] else []
    return {key: {"us": statistics.median(r["us"] for r in rows), "busbw": statistics.median(r["busbw"] for r in rows)} for key, rows in samples.items()}, wrong


def cells(figures, ranks, collective, memory, graph, in_place, size):
    ours, theirs = (figures.get((arm, ranks, collective, memory, graph, in_place, size)) for arm in ("ours", "nvidia"))
    show = lambda f: [f"{f['us']:.1f}", f"{f['busbw']:.1f}"] if f else ["-", "-"]
    ratio = f"{ours['us'] / theirs['us']:.2f}" if ours and theirs else "-"
    return show(ours) + show(theirs) + [ratio]


def all_reduce(figures, ranks, graph):
    """Registered and plain memory side by side, out of place."""
    found = {key[6] for key in figures if key[1] == ranks and key[2] == "AllReduce" and key[4] == graph and key[5] == 0}
    if not found:
        return []
    how = "in a graph" if graph else "launched one by one"
    head = "| ours us | GB/s | NVIDIA us | GB/s | ratio "
    lines = [f"### AllReduce, {ranks} ranks, {how}", "", f"| size {head}{head}|", "|---" * 11 + "|",
             "| | **symmetric windows** | | | | | **cudaMalloc** | | | | |"]
    for size in sorted(found):
        row = [size_name(size)]
        for memory in (2, 0):
            row += cells(figures, ranks, "AllReduce", memory, graph, 0, size)
        lines.append("| " + " | ".join(row) + " |")
    return lines + [""]


def others(figures, ranks):
    keys = sorted({(key[2], key[6]) for key in figures if key[1] == ranks and key[2] != "AllReduce"})
    if not keys:
        return []
    head = "| ours us | GB/s | NVIDIA us | GB/s | ratio "
    lines = [f"### The others, {ranks} ranks, in a graph", "", f"| collective | size {head}{head}|", "|---" * 12 + "|",
             "| | | **symmetric windows** | | | | | **cudaMalloc** | | | | |"]
    for collective, size in keys:
        row = [collective, size_name(size)]
        for memory in (2, 0):
            row += cells(figures, ranks, collective, memory, True, 0, size)
        lines.append("| " + " | ".join(row) + " |")
    return lines + [""]


def ways(figures, ranks):
    """Each way that was asked for, as chosen first, and which is the fastest; plain memory in a graph."""
    arms = sorted({key[0] for key in figures if key[1] == ranks and key[0].startswith("way_")}, key=lambda arm: (arm != "way_chosen", arm))
    if not arms:
        return []
    names = [arm.removeprefix("way_") for arm in arms] + ["NVIDIA"]
    lines = [f"### Ways, {ranks} ranks, cudaMalloc, in a graph, us", "", "| collective | size | " + " | ".join(names) + " | fastest of ours |",
             "|---" * (len(names) + 3) + "|"]
    for collective, size in sorted({(key[2], key[6]) for key in figures if key[1] == ranks and key[0] in arms}):
        times = [figures.get((arm, ranks, collective, 0, True, 0, size), {}).get("us") for arm in arms + ["nvidia"]]
        best = min((us, name) for us, name in zip(times[:-1], names) if us is not None)[1]
        lines.append(f"| {collective} | {size_name(size)} | " + " | ".join("-" if us is None else f"{us:.1f}" for us in times) + f" | {best} |")
    return lines + [""]


def misses(figures):
    """Where the goal for registered all-reduce is not reached."""
    lines = []
    for (arm, ranks, collective, memory, graph, in_place, size), ours in sorted(figures.items()):
        theirs = figures.get(("nvidia", ranks, collective, memory, graph, in_place, size))
        if arm == "ours" and collective == "AllReduce" and memory == 2 and theirs and ours["us"] > GOAL * theirs["us"]:
            lines.append(f"- {ranks} ranks, {size_name(size)}, {'graph' if graph else 'launches'}, {'in place' if in_place else 'out of place'}: "
                         f"{ours['us']:.1f} us, {ours['us'] / theirs['us']:.2f}x")
    return lines


def machine():
    try:
        asked = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout
        names = [line.strip() for line in asked.splitlines() if line.strip()]
        return f"{len(names)} x {names[0].replace(', ', ', driver ')}" if names else "unknown machine"
    except OSError:
        return "unknown machine"


def main():
    folder = sys.argv[1]
    figures, wrong = read(folder)
    lines = [f"{datetime.date.today()}, {machine()}, a thread for each rank, NVLS off. Medians of interleaved runs, microseconds of a call by the slowest GPU's events, "
             "bus bandwidth as nccl-tests counts it, float sum, out of place; the ratio is our time over NVIDIA's.", ""]
    for ranks in sorted({key[1] for key in figures}):
        asked = ways(figures, ranks)
        lines += asked or all_reduce(figures, ranks, False) + all_reduce(figures, ranks, True) + others(figures, ranks)
    missed = misses(figures)
    if any(key[0] == "ours" for key in figures):
        lines += [f"AllReduce of registered buffers above {GOAL}x:" if missed else f"AllReduce of registered buffers is within {GOAL}x everywhere.", *missed, ""]
    lines += [f"WRONG RESULTS: {sorted(set(wrong))}", ""] if wrong else []
    if os.path.exists(os.path.join(folder, "failed")):
        lines += ["Failed:", ""] + ["- " + line.strip() for line in open(os.path.join(folder, "failed"))] + [""]
    text = "\n".join(lines)
    print(text)
    open(os.path.join(folder, "collectives.md"), "w").write(text)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
