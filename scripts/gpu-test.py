#!/usr/bin/env python3
"""The four combinations of {our, NVIDIA's headers} x {libginrs, NVIDIA's libnccl} on the GPUs of this machine.

Runs what scripts/gpu-build.sh left in build/gpu; needs a driver, libcudart and Python, no compiler and no network. Every run has
a timeout: a hang is a failure. Writes the table as Markdown and every run as a line of JSON into --out.

  gpu-test.py [--ranks 2,3,4] [--only NAME,..] [--out FOLDER] [--seconds N]
  gpu-test.py --sanitize         compute-sanitizer over the kernels, with our headers and library
  gpu-test.py --soak SECONDS     randomised puts, signals and barriers over all GPUs, every byte verified
"""
import argparse, concurrent.futures, datetime, glob, json, os, random, re, shutil, subprocess, sys, threading, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILT = os.path.join(ROOT, "build/gpu")
TIMEOUT = 25  # seconds for a run that takes one or two

LSA = ["windows", "layout", "barriers", "ll", "graphs", "several", "lsa-allreduce", "ll-bcast-reduce"]
GIN = ["order", "hello", "ring", "gin-alltoall", "hybrid-alltoall", "api", "moe", "torture", "group"]
# What is left out, and why. The reference's defects are numbered as in docs/abi-policy.md.
OUT = {
    ("api", "nvidia"): "NVIDIA's header converts a double that is put by value (its putValue does not copy bits)",
}
# column: headers of even ranks, headers of odd ranks, library, GIN backend
COLUMNS = {
    "ours x ginrs": ("ours", "ours", "ginrs", "proxy"),
    "ours x ginrs, direct": ("ours", "ours", "ginrs", "direct"),
    "NVIDIA's x ginrs": ("nvidia", "nvidia", "ginrs", "proxy"),
    "mixed x ginrs": ("ours", "nvidia", "ginrs", "proxy"),
    "ours x NVIDIA": ("ours", "ours", "nvidia", "proxy"),
    "NVIDIA's x NVIDIA": ("nvidia", "nvidia", "nvidia", "proxy"),
}


def first(paths):
    return next((path for path in paths if path and os.path.exists(path)), None)


def site_packages():
    import site
    roots = [p for p in sys.path + site.getsitepackages() if p.endswith("-packages")]
    return roots + glob.glob("/opt/*/.venv/lib/python3*/site-packages") + glob.glob(ROOT + "/build/venv/lib/python3*/site-packages")


def libraries():
    """Folders of libcudart, and of NVIDIA's libnccl.so.2 (None if it is not here)."""
    sites = site_packages()
    cudart = first([os.environ.get("CUDART_LIB"), *(f"{s}/nvidia/cu13/lib" for s in sites), "/usr/local/cuda/lib64"])
    nccl = first([os.environ.get("NCCL_LIB"), *(f"{s}/nvidia/nccl/lib" for s in sites)])
    return cudart or "", nccl


def gpus():
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout
    return re.findall(r"GPU \d+: (.+?) \(UUID", listed)


class Pool:
    """GPUs that runs take and give back: two runs never share one."""

    def __init__(self, count):
        self.free, self.changed = list(range(count)), threading.Condition()

    def take(self, n):
        with self.changed:
            self.changed.wait_for(lambda: len(self.free) >= n)
            taken, self.free = self.free[:n], self.free[n:]
            return taken

    def give(self, taken):
        with self.changed:
            self.free = sorted(self.free + taken)
            self.changed.notify_all()


def binary(headers, program):
    return os.path.join(BUILT, headers, program)


def command(program, even, odd, ranks, mode, prefix=()):
    """The command line of one run."""
    if program == "group":
        return [*prefix, binary(even, "group"), str(ranks)]
    if mode == "threads":
        return [*prefix, binary(even, program), "--threads", str(ranks)]
    run = [os.path.join(BUILT, "bin/ginrs-run"), "-n", str(ranks), "--timeout", str(TIMEOUT - 3), *prefix]
    if even == odd:
        return [*run, binary(even, program)]
    return [*run, "sh", "-c", f"[ $((RANK % 2)) = 0 ] && exec {binary(even, program)} || exec {binary(odd, program)}"]


def environment(library, backend, program, ranks, taken):
    env = dict(os.environ, NCCL_NVLS_ENABLE="0", CUDA_MODULE_LOADING="EAGER", NCCL_DEBUG="WARN")
    folder = os.path.join(BUILT, "lib") if library == "ginrs" else libraries()[1]
    env["LD_LIBRARY_PATH"] = ":".join([folder, libraries()[0], env.get("LD_LIBRARY_PATH", "")])
    env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, taken))
    if library == "ginrs":
        env["NCCL_GIN_BACKEND"] = backend
        if program == "hybrid-alltoall":
            env["GINRS_FAKE_NODES"] = ",".join(str(rank * 2 // ranks) for rank in range(ranks))
    return env


def judge(program, library, ranks, code, text):
    """ok, no GIN, not here, or why not."""
    if program == "group":
        right = f"group of {ranks}: ok" in text
    else:
        right = all(f"rank {rank} of {ranks}: ok," in text for rank in range(ranks))
    if code == 0 and right:
        return "ok"
    if library == "nvidia" and "GIN not supported" in text:
        return "no GIN"
    said = [line for line in text.splitlines() if line.strip() and "NCCL INFO" not in line]
    last = said[-1][:160] if said else "no output"
    return ("hung: " if code is None else f"exit {code}: ") + last


def run_one(pool, column, program, ranks, mode, prefix=(), timeout=TIMEOUT, extra=None):
    even, odd, library, backend = COLUMNS[column]
    taken = pool.take(ranks)
    began = time.time()
    try:
        env = environment(library, backend, program, ranks, taken)
        env.update(extra or {})
        process = subprocess.Popen(command(program, even, odd, ranks, mode, prefix), env=env, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            text, code = process.communicate(timeout=timeout)[0].decode(errors="replace"), process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            text, code = process.communicate()[0].decode(errors="replace"), None
    finally:
        pool.give(taken)
    result = judge(program, library, ranks, code, text)
    return dict(column=column, program=program, ranks=ranks, mode=mode, result=result, seconds=round(time.time() - began, 2), text=text)


def cases(rank_counts, only, columns):
    """Every run of the matrix; both modes for the smallest number of ranks, in turn for the others."""
    for ranks in rank_counts:
        for program in LSA + GIN:
            if only and program not in only:
                continue
            for turn, (column, (even, odd, library, backend)) in enumerate(COLUMNS.items()):
                if (program, even) in OUT or (program, odd) in OUT or (columns and column not in columns):
                    continue
                if backend == "direct" and (program not in GIN or program == "hybrid-alltoall"):
                    continue  # nothing of GIN in it, or ranks out of direct's reach
                if library == "nvidia" and libraries()[1] is None:
                    continue
                modes = ["processes", "threads"] if ranks == rank_counts[0] else [["processes", "threads"][turn % 2]]
                if program == "group":
                    modes = ["one thread"]
                if even != odd:
                    modes = ["processes"] if program != "group" else []
                for mode in modes:
                    yield column, program, ranks, mode


def excuse(results):
    """What fails with our headers on NVIDIA's library fails by the library where NVIDIA's own headers fail there too."""
    reference = {(r["program"], r["ranks"], r["mode"]) for r in results if r["column"] == "NVIDIA's x NVIDIA" and not worth(r["result"])}
    for r in results:
        if COLUMNS[r["column"]][2] == "nvidia" and (r["program"], r["ranks"], r["mode"]) in reference:
            r["result"] = "NVIDIA's library: " + r["result"]


def worth(result):
    return result in ("ok", "no GIN") or result.startswith("NVIDIA's library: ")


def table(results):
    """A row for each program, a column for each combination: n/m right, or the first failure."""
    columns = [column for column in COLUMNS if any(r["column"] == column for r in results)]
    lines = ["| program | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for program in LSA + GIN:
        row = []
        for column in columns:
            runs = [r for r in results if (r["program"], r["column"]) == (program, column)]
            headers = COLUMNS[column][:2]
            bad = [r for r in runs if not worth(r["result"])]
            if not runs:
                row.append("left out (1)" if any((program, h) in OUT for h in headers) else "-")
            elif bad:
                row.append(f"FAIL {len(bad)}/{len(runs)}")
            elif all(r["result"] == "no GIN" for r in runs):
                row.append("no GIN")
            elif any(r["result"] != "ok" for r in runs):
                row.append(f"ok {sum(r['result'] == 'ok' for r in runs)}/{len(runs)} (2)")
            else:
                row.append(f"ok {len(runs)}/{len(runs)}")
        if any(cell != "-" for cell in row):
            lines.append(f"| {program} | " + " | ".join(row) + " |")
    return lines


def report(results, names, seconds, out):
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.split()
    ranks = sorted({r["ranks"] for r in results})
    lines = [
        f"Measured {datetime.date.today()} on {len(names)} x {names[0]}, driver {driver[0] if driver else '?'}, "
        f"{len(results)} runs on {', '.join(map(str, ranks))} ranks in {seconds:.0f} s; NVLink multicast off.",
        "", *table(results), "",
        "`ok n/n`: that many runs over rank counts and modes (processes, threads, one thread for all), each checked by the program itself. "
        "`no GIN`: NVIDIA's library says \"GIN not supported\", as it must without a network card. `mixed`: even ranks run the binary with our headers, odd ranks the one with NVIDIA's.", "",
        *[f"(1) {program} with {headers} headers: {why}." for (program, headers), why in OUT.items()],
    ]
    for r in results:
        if r["result"].startswith("NVIDIA"):
            lines.append(f"(2) {r['program']}, {r['column']}, {r['ranks']} {r['mode']}: {r['result']}; with NVIDIA's headers too.")
        elif not worth(r["result"]):
            lines.append(f"- FAIL {r['program']}, {r['column']}, {r['ranks']} {r['mode']}: {r['result']}")
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "abi-matrix.md"), "w") as file:
        file.write("\n".join(lines) + "\n")
    with open(os.path.join(out, "abi-matrix.jsonl"), "w") as file:
        for r in results:
            file.write(json.dumps({k: v for k, v in r.items() if k != "text"}) + "\n")
    with open(os.path.join(out, "failures.log"), "w") as file:
        for r in results:
            if not worth(r["result"]):
                file.write(f"== {r['program']}, {r['column']}, {r['ranks']} {r['mode']}, {r['seconds']} s: {r['result']}\n{r['text'][-4000:]}\n")
    print("\n".join(lines))


def matrix(args, pool, names):
    counts = [n for n in args.ranks if n <= len(names)]
    if not counts:
        sys.exit(f"{len(names)} GPUs, but {min(args.ranks)} ranks or more were asked for")
    end, results, began = time.time() + args.seconds, [], time.time()

    def one(case):
        return run_one(pool, *case) if time.time() < end else None

    for ranks in counts:  # runs of one size side by side, so that large ones are not starved
        todo = [case for case in cases(counts, args.only, args.columns) if case[2] == ranks]
        with concurrent.futures.ThreadPoolExecutor(max(1, len(names) // ranks)) as lanes:
            done = list(lanes.map(one, todo))
        results += [r for r in done if r]
        late = len(done) - sum(r is not None for r in done)
        if late:
            print(f"{late} runs on {ranks} ranks were not started: --seconds {args.seconds} were over", file=sys.stderr)
    excuse(results)
    report(results, names, time.time() - began, args.out)
    bad = sum(not worth(r["result"]) for r in results)
    print(f"{len(results) - bad} passed, {bad} failed")
    return bad != 0


def sanitize(args, pool, names):
    tool = shutil.which("compute-sanitizer") or first(["/usr/local/cuda/bin/compute-sanitizer"])
    if tool is None:
        sys.exit("compute-sanitizer is not here | fix: it comes with the CUDA toolkit")
    small = {"TORTURE": "blocks=2 threads=32 coop=cta strip=4096 largest=500 rounds=1 seed=1"}
    bad = count = 0
    for check in ["memcheck", "racecheck", "synccheck"]:
        for program in args.only or ["barriers", "ll", "windows", "lsa-allreduce", "gin-alltoall", "moe", "torture"]:
            prefix = [tool, "--tool", check, "--error-exitcode", "9", "--launch-timeout", "60"]
            backends = ["ours x ginrs"] + (["ours x ginrs, direct"] if program in GIN else [])
            for column in backends:
                r = run_one(pool, column, program, 2, "processes", prefix, 60, {**small, "GINRS_RUN_TIMEOUT": "55"})
                clean = r["text"].count("ERROR SUMMARY: 0 errors") + r["text"].count("0 hazards displayed (0 errors")
                fine = r["result"] == "ok" and clean >= 2
                bad, count = bad + (not fine), count + 1
                print(f"{check:10} {program:16} {column:22} {'clean' if fine else r['result']} ({r['seconds']} s)", flush=True)
                if not fine:
                    print("\n".join(r["text"].splitlines()[-25:]))
    print(f"{count - bad} passed, {bad} failed")
    return bad != 0


def soak(args, pool, names):
    """Random shapes of the torture program over all GPUs; each run verifies every byte, signal and counter."""
    end, runs, puts, bad = time.time() + args.soak, 0, 0, 0
    seed = int(time.time())
    random.seed(seed)
    while time.time() < end:
        column = random.choice(["ours x ginrs", "ours x ginrs, direct", "NVIDIA's x ginrs", "mixed x ginrs"])
        plan = (f"blocks={random.choice([1, 2, 4, 16, 64])} threads={random.choice([32, 64, 96, 256])} coop={random.choice(['cta', 'warp', 'thread'])} "
                f"strip={random.choice([4096, 16384, 262144])} largest={random.choice([64, 900, 4000])} rounds={random.choice([2, 20, 60])} seed={random.randrange(1 << 20)}")
        mode = random.choice(["processes", "threads"]) if column != "mixed x ginrs" else "processes"
        r = run_one(pool, column, "torture", len(names), mode, timeout=60, extra={"TORTURE": plan})
        runs += 1
        puts += sum(int(n) for n in re.findall(r"rank \d+: (\d+) puts", r["text"]))
        if not worth(r["result"]):
            bad += 1
            print(f"FAIL {column} {mode} TORTURE=\"{plan}\": {r['result']}\n{r['text'][-1500:]}", flush=True)
    print(f"soak: {runs} shapes over {len(names)} GPUs in {args.soak} s, {puts} puts verified, seed {seed}\n{runs - bad} passed, {bad} failed")
    return bad != 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=lambda text: [int(n) for n in text.split(",")], default=[2, 3, 4, 8])
    parser.add_argument("--only", type=lambda text: text.split(","))
    parser.add_argument("--columns", type=lambda text: [c for c in COLUMNS if any(part in c for part in text.split(";"))], help="parts of column names, with ; between")
    parser.add_argument("--out", default=os.path.join(ROOT, "build/gpu-test"))
    parser.add_argument("--seconds", type=int, default=int(os.environ.get("GPU_TEST_SECONDS", 900)))
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("--soak", type=int)
    args = parser.parse_args()
    names = gpus()
    if len(names) < 2:
        sys.exit(f"{len(names)} GPUs found, this needs two | fix: run it where nvidia-smi -L lists them")
    if not os.path.isdir(os.path.join(BUILT, "ours")):
        sys.exit("build/gpu is empty | fix: make gpu-build, on any machine with nvcc")
    pool = Pool(len(names))
    sys.exit(sanitize(args, pool, names) if args.sanitize else soak(args, pool, names) if args.soak else matrix(args, pool, names))


if __name__ == "__main__":
    main()
