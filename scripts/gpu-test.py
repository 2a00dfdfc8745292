#!/usr/bin/env python3
"""The four combinations of {our, NVIDIA's headers} x {libginrs, NVIDIA's libnccl} on the GPUs of this machine.

Runs what scripts/gpu-build.sh left in build/gpu; needs a driver, libcudart and Python, no compiler and no network. Every program
has a time limit: a hang is a failure. Writes the table as Markdown and every run as a line of JSON into --out.

  gpu-test.py [--ranks 2,3,4] [--only NAME,..] [--columns PART;..] [--modes MODE,..] [--ways 1,2,machines] [--out FOLDER] [--seconds N]
  gpu-test.py --from FILE.jsonl,..   the table again, from the lines that runs wrote; later files win
  gpu-test.py --sanitize         compute-sanitizer over the kernels, with our headers and library
  gpu-test.py --soak SECONDS     randomised puts, values, signals, stores and barriers over all GPUs, every byte verified
"""
import argparse, concurrent.futures, datetime, glob, json, os, platform, random, re, shutil, subprocess, sys, tempfile, threading, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILT = os.path.join(ROOT, "build/gpu")
LIMIT = 15  # seconds for a program that takes less than two

LSA = ["windows", "barriers", "ll", "lsa-allreduce", "ll-bcast-reduce"]
PARTLY = ["layout", "graphs", "several", "soak"]  # an LSA part, and a GIN part where there is GIN
EXAMPLES = ["hello", "ring", "gin-alltoall", "hybrid-alltoall", "lsa-allreduce", "ll-bcast-reduce"]
GIN = ["gin", "ginbarriers", "order", "hello", "ring", "gin-alltoall", "hybrid-alltoall", "api", "moe", "sizes", "torture"]
SUITE = LSA + PARTLY + GIN  # in one binary; `both`, `group` and `documentation` are binaries of their own
COLL = ["collectives", "streams", "captured", "p2p", "mixed", "groups"]  # in one binary
SINGLE = {"group": "group of {}: ok", "documentation": "documentation of {}: ok"}  # one process that takes the number of ranks
# refused.cu: what leaves its windows or ids, what kernels of other headers start in direct contexts, and what is all right
REFUSED = {"ours x ginrs": ["bounds", "fine"], "ours x ginrs, direct": ["bounds", "fine"], "NVIDIA's x ginrs": ["bounds", "fine"],
           "NVIDIA's x ginrs, direct": ["foreign"]}
FOREIGN = ["gin", "ginbarriers", "order", "ring", "gin-alltoall", "moe", "torture", "soak"]  # there each of these has to end in GINRS-E081
RUN_RANK = EXAMPLES + ["api", "moe", "sizes", "torture"]  # written for a process or a thread per rank
MACHINES = "machines"  # in place of a number of nodes: GINRS_FAKE_MACHINES, so all between the halves goes over libfabric's tcp
FAR = ["layout", "ginbarriers", "gin", "order", "hello", "ring", "gin-alltoall", "hybrid-alltoall", "api", "moe", "sizes", "torture", "soak"]  # the others pass ids or payloads by LSA from every rank to every other
NODES = ["layout", "ginbarriers", "gin", "hybrid-alltoall", "api", "moe", "torture", "soak"]  # also on two simulated nodes
NOT_SHARED = ["api", "torture"]  # count launches on a device, or wait for all of its kernels: not where ranks share one
OUT = {"api": "NVIDIA's header converts a double that is put by value; its bits are meant"}
# column: headers of even ranks, headers of odd ranks, library, GIN backend
COLUMNS = {
    "ours x ginrs": ("ours", "ours", "ginrs", "proxy"),
    "ours x ginrs, direct": ("ours", "ours", "ginrs", "direct"),
    "NVIDIA's x ginrs": ("nvidia", "nvidia", "ginrs", "proxy"),
    "NVIDIA's x ginrs, direct": ("nvidia", "nvidia", "ginrs", "direct"),
    "mixed x ginrs": ("ours", "nvidia", "ginrs", "proxy"),
    "ours x NVIDIA": ("ours", "ours", "nvidia", "proxy"),
    "NVIDIA's x NVIDIA": ("nvidia", "nvidia", "nvidia", "proxy"),
    "mixed x NVIDIA": ("ours", "nvidia", "nvidia", "proxy"),
}
MODES = {"processes": "p", "threads": "t", "one thread": "o"}


def first(paths):
    return next((path for path in paths if path and os.path.exists(path)), None)


def libraries():
    """Folders of libcudart, and of NVIDIA's libnccl.so.2 (None if it is not here)."""
    import site
    sites = [p for p in sys.path + site.getsitepackages() if p.endswith("-packages")]
    sites += glob.glob("/opt/*/.venv/lib/python3*/site-packages") + glob.glob(ROOT + "/build/venv/lib/python3*/site-packages")
    cudart = first([os.environ.get("CUDART_LIB"), *(f"{s}/nvidia/cu13/lib" for s in sites), "/usr/local/cuda/lib64"])
    # The last one is of NVIDIA's Debian and Ubuntu packages. The folders may be there for other libraries.
    places = [os.environ.get("NCCL_LIB"), *(f"{s}/nvidia/nccl/lib" for s in sites), f"/usr/lib/{platform.machine()}-linux-gnu"]
    nccl = first([place for place in places if place and os.path.exists(place + "/libnccl.so.2")])
    return cudart or "", nccl


def query(field):
    asked = subprocess.run(["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader"], capture_output=True, text=True)
    return [line.strip() for line in asked.stdout.splitlines()]


class Pool:
    """GPUs that runs take and give back: two runs never share one. Where there is only one, the ranks of a run share it."""

    def __init__(self, count):
        self.free, self.changed, self.alone = list(range(count)), threading.Condition(), count == 1

    def take(self, n):
        n = 1 if self.alone else n
        with self.changed:
            self.changed.wait_for(lambda: len(self.free) >= n)
            taken, self.free = self.free[:n], self.free[n:]
            return taken

    def give(self, taken):
        with self.changed:
            self.free = sorted(self.free + taken)
            self.changed.notify_all()


def command(job, names, prefix):
    even, odd, _, _ = COLUMNS[job["column"]]
    if job["binary"] in SINGLE:
        return [*prefix, f"{BUILT}/{even}/{job['binary']}", str(job["ranks"])]
    path = lambda headers: f"{BUILT}/both" if job["binary"] == "both" else f"{BUILT}/{headers}/{job['binary']}"
    named = [] if job["binary"] in ("both", "refused") else names
    if job["mode"] != "processes":
        return [*prefix, path(even), "--threads" if job["mode"] == "threads" else "--one-thread", str(job["ranks"]), *named]
    run = [f"{BUILT}/bin/ginrs-run", "-n", str(job["ranks"]), "--timeout", "590", *prefix]
    if path(even) == path(odd):
        return [*run, path(even), *named]
    return [*run, "sh", "-c", f"[ $((RANK % 2)) = 0 ] && exec {path(even)} {' '.join(named)} || exec {path(odd)} {' '.join(named)}"]


def environment(job, taken):
    _, _, library, backend = COLUMNS[job["column"]]
    env = dict(os.environ, NCCL_NVLS_ENABLE="0", CUDA_MODULE_LOADING="EAGER", NCCL_DEBUG="WARN")
    cudart, nccl = libraries()
    env["LD_LIBRARY_PATH"] = ":".join([f"{BUILT}/lib" if library == "ginrs" else nccl, cudart, env.get("LD_LIBRARY_PATH", "")])
    env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, taken))
    env.setdefault("SOAK", "seconds=1")
    # One case of 60 did not end on NVIDIA's library in 50 s; ours takes one.
    env.setdefault("COLL", f"sample={60 if library == 'ginrs' else 2000} big=300007 largest=16777216")
    if len(taken) < job["ranks"]:
        # Streams must not share a hardware queue: kernels of one rank would stand behind those of another that wait for them.
        env.update(GINRS_SHARE_DEVICE="1", CUDA_DEVICE_MAX_CONNECTIONS="32")
    if job["binary"] == "refused":
        env["NCCL_DEBUG"] = "NONE"  # what these programs provoke
    if library == "ginrs":
        env["NCCL_GIN_BACKEND"] = backend
        halves = ",".join(str(rank * 2 // job["ranks"]) for rank in range(job["ranks"]))
        if job["nodes"] == 2:
            env["GINRS_FAKE_NODES"] = halves
        if job["nodes"] == MACHINES:
            env["GINRS_FAKE_MACHINES"] = halves
            env["COLL"] = os.environ.get("COLL", "sample=600 big=300007 largest=1048576")
    return env


def execute(arguments, env, limit):
    """Output and exit status of a run, None if nothing new started for `limit` seconds."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(arguments, env=env, stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
        seen, since = 0, time.time()
        read = lambda: os.pread(said.fileno(), 1 << 24, 0).decode(errors="replace")
        while process.poll() is None:
            time.sleep(0.03)
            started = read().count(" starts\n")
            if started != seen:
                seen, since = started, time.time()
            if time.time() - since > limit:
                break
        code = process.poll()
        if code is None:
            os.killpg(process.pid, 9)
            process.wait()
        return read(), code


def last_words(text, code):
    said = [line for line in text.splitlines() if line.strip() and "NCCL INFO" not in line and "NCCL WARN" not in line]
    return ("hung: " if code is None else f"exit {code}: ") + (said[-1][:200] if said else "no output")


def judge(job, names, text, code):
    """(name, result, text) of each program that ran to its end or failed; what is missing was not reached."""
    if job["binary"] in SINGLE:
        right = code == 0 and SINGLE[job["binary"]].format(job["ranks"]) in text
        no_gin = COLUMNS[job["column"]][2] == "nvidia" and "GIN not supported" in text
        return [(job["binary"], "ok" if right else "no GIN" if no_gin else last_words(text, code), text)]
    if job["binary"] == "refused":
        right = code == 0 and all(f"rank {rank} of {job['ranks']}: ok," in text for rank in range(job["ranks"]))
        return [(names[0], "ok" if right else last_words(text, code), text)]
    if job["column"] == "NVIDIA's x ginrs, direct":
        told = code not in (None, 0) and "GINRS-E081" in text
        return [(names[0], "ok, told" if told else last_words(text, code), text)]
    judged = []
    starts = list(re.finditer(r"^(?:\[0\] )?([a-z0-9-]+) starts$", text, re.M))
    for at, start in enumerate(starts):
        name, said = start[1], text[start.start():]
        # In processes a rank may still talk about the last program when rank 0 has started the next one.
        states = re.findall(rf"^(?:\[\d+\] )?{name} rank \d+ of {job['ranks']}: (ok|WRONG|not here)", text, re.M)
        fell_here = at + 1 == len(starts) and code not in (0, 77)
        if len(states) == job["ranks"] and "WRONG" not in states and not fell_here:
            result = "no GIN" if "not here" in states else "ok, LSA part" if re.search(rf"^(?:\[0\] )?{name} without GIN", text, re.M) else "ok"
        else:
            wrong = [line for line in said.splitlines() if "differences" in line or ", expected " in line]
            result = f"wrong: {wrong[0][:200]}" if wrong and (code is not None or "WRONG" in states) else last_words(said, code)
        judged.append((name, result, said))
    return judged or [(names[0], last_words(text, code), text)]


def run_job(pool, job, prefix=(), extra=None, limit=LIMIT, end=float("inf")):
    """A line for each program; one that dies or hangs is left out of the next attempt, which goes on behind it until `end`."""
    results, names = [], list(job["names"])
    taken = pool.take(job["ranks"])
    try:
        while names and time.time() < end:
            began = time.time()
            own = {"REFUSED": names[0]} if job["binary"] == "refused" else {}
            ran = names[:1] if job["column"] == "NVIDIA's x ginrs, direct" else names  # the first ends the process
            text, code = execute(command(job, ran, prefix), {**environment(job, taken), **own, **(extra or {})},
                                 60 if own else 4 * limit if job["nodes"] == MACHINES else limit)
            for name, result, said in judge(job, names, text, code):
                results.append(dict(job, name=name, result=result, text=said, seconds=round(time.time() - began, 2)))
                names.remove(name)
    finally:
        pool.give(taken)
    return results


def suite_names(column, mode, nodes):
    even, odd, library, backend = COLUMNS[column]
    for name in SUITE:
        if "nvidia" in (even, odd) and name in OUT:
            continue
        if column == "NVIDIA's x ginrs, direct" and (name not in FOREIGN or mode != "processes"):
            continue
        if backend == "direct" and name in LSA or mode == "one thread" and name in RUN_RANK or nodes == 2 and name not in NODES:
            continue
        if nodes == MACHINES and name not in FAR:
            continue
        yield name


def jobs(counts, only, columns, wanted, alone):
    """All modes for the smallest number of ranks; for the others processes, and the other modes in turn. On a GPU alone what can share it."""
    def job(binary, column, ranks, mode, names, nodes=1):
        names = [name for name in names if (not only or name in only) and not (alone and name in NOT_SHARED)]
        if wanted and mode not in wanted or alone and (binary in (*SINGLE, "coll") or mode == "processes"):
            return []
        return [dict(binary=binary, column=column, ranks=ranks, mode=mode, nodes=nodes, names=names)] if names else []

    for ranks in counts:
        for turn, (column, (even, odd, library, backend)) in enumerate(COLUMNS.items()):
            if library == "nvidia" and (alone or libraries()[1] is None) or columns and column not in columns:
                continue
            turning = ["threads", "one thread"][(turn + ranks) % 2]
            modes = list(MODES) if ranks == counts[0] else ["processes", turning]
            for mode in modes if even == odd else ["processes"]:
                yield from job("suite", column, ranks, mode, suite_names(column, mode, 1))
                if library == "ginrs" and backend == "proxy" and ranks % 2 == 0:
                    yield from job("suite", column, ranks, mode, suite_names(column, mode, 2), 2)
                    yield from job("suite", column, ranks, mode, suite_names(column, mode, MACHINES), MACHINES)
                if mode != "one thread":
                    yield from job("refused", column, ranks, mode, REFUSED.get(column, []))
                if backend == "proxy":
                    yield from job("coll", column, ranks, mode, COLL)
                    if library == "ginrs" and ranks % 2 == 0:
                        yield from job("coll", column, ranks, mode, COLL, 2)
                        yield from job("coll", column, ranks, mode, COLL, MACHINES)
            if even != odd:
                for mode in modes:
                    yield from job("both", column, ranks, mode, ["both"])
            else:
                for binary in SINGLE if backend == "proxy" else ["group"] if even == "ours" else []:
                    yield from job(binary, column, ranks, "one thread", [binary])


def excuse(results):
    """What fails with our headers on NVIDIA's library fails by the library where NVIDIA's own headers fail there too."""
    key = lambda r: (r["name"], r["ranks"], r["mode"])
    reference = {key(r) for r in results if r["column"] == "NVIDIA's x NVIDIA" and not worth(r["result"])}
    for r in results:
        if COLUMNS[r["column"]][2] == "nvidia" and key(r) in reference:
            r["result"] = "NVIDIA's library: " + r["result"]


def worth(result):
    return result.startswith(("ok", "no GIN", "NVIDIA's library: "))


def where(nodes):
    return {1: "", 2: ", 2 nodes", MACHINES: ", 2 machines"}[nodes]


def table(results):
    """A row for each program, a column for each combination: numbers of ranks and modes."""
    columns = [column for column in COLUMNS if any(r["column"] == column for r in results)]
    lines = ["| program | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    listed = lambda runs: " ".join(f"{n}{''.join(l for m, l in MODES.items() if (n, m) in {(r['ranks'], r['mode']) for r in runs})}"
                                   for n in sorted({r["ranks"] for r in runs}))
    for name, nodes in [(name, 1) for name in SUITE + ["bounds", "fine", "foreign", "both"] + COLL + list(SINGLE)] + [(name, 2) for name in NODES + COLL] \
            + [(name, MACHINES) for name in FAR + COLL]:
        cells = []
        for column in columns:
            runs = [r for r in results if (r["name"], r["column"], r["nodes"]) == (name, column, nodes)]
            ok = [r for r in runs if r["result"].startswith("ok")]
            bad = [r for r in runs if not worth(r["result"])]
            library = [r for r in runs if r["result"].startswith("NVIDIA")]
            cell = [listed(ok) + (" (LSA)" if any("LSA" in r["result"] for r in ok) else "")] if ok else []
            cell += ["no GIN"] if any(r["result"] == "no GIN" for r in runs) else []
            cell += [f"FAIL {listed(bad)}"] if bad else []
            cell += [f"(2) {listed(library)}"] if library else []
            cells.append("; ".join(cell) or ("(1)" if name in OUT and "nvidia" in COLUMNS[column][:2] else "-"))
        if any(cell not in ("-", "(1)") for cell in cells):
            lines.append(f"| {name}{where(nodes)} | " + " | ".join(cells) + " |")
    return lines


def report(results, about, out):
    ranks = sorted({r["ranks"] for r in results})
    lines = [
        "# The four combinations on GPUs", "",
        f"`make gpu-test` on {about['date']}: {about['machine']}, {len(results)} runs of programs on {', '.join(map(str, ranks))} ranks in "
        f"{about['seconds']} s. NVLink multicast off, no network card.", "", *table(results), "",
        "`4pt`: 4 ranks as processes and as threads, `o`: one thread drives all of them; each program checks itself. `mixed`: even ranks run the "
        "binary with our headers, odd ranks the one with NVIDIA's; `both` has kernels of both in one program. `(LSA)`: without its GIN part, `no GIN`: "
        "NVIDIA's library says \"GIN not supported\", as it must without a network card. `2 nodes`: GINRS_FAKE_NODES; `2 machines`: GINRS_FAKE_MACHINES, over libfabric; -: makes no sense there "
        "(direct without GIN; nodes that are not there; examples by one thread), or not run.", "",
        *[f"(1) {name} with NVIDIA's headers: {why}." for name, why in OUT.items()],
    ]
    for r in results:
        if r["result"].startswith("NVIDIA"):
            lines.append(f"(2) {r['name']}, {r['column']}, {r['ranks']} {r['mode']}: {r['result']}")
    fails = [f"- FAIL {r['name']}, {r['column']}, {r['ranks']} {r['mode']}{where(r['nodes'])}: {r['result']}" for r in results if not worth(r["result"])]
    lines += ["", *fails] if fails else []
    lines += ["", f"Not run, {about['not run']} programs: out of time."] if about["not run"] else []
    lines += [] if any(COLUMNS[r["column"]][2] == "nvidia" for r in results) else ["", "NVIDIA's libnccl.so.2 was not there: its columns are missing (NCCL_LIB names its folder)."]
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "abi-matrix.md"), "w") as file:
        file.write("\n".join(lines) + "\n")
    with open(os.path.join(out, "abi-matrix.jsonl"), "w") as file:
        for line in [about, *results]:
            file.write(json.dumps({k: v for k, v in line.items() if k not in ("text", "names")}) + "\n")
    print("\n".join(lines))


def failures(results, out):
    with open(os.path.join(out, "failures.log"), "w") as file:
        for r in results:
            if not r["result"].startswith(("ok", "no GIN")):
                file.write(f"== {r['name']}, {r['column']}, {r['ranks']} {r['mode']}{where(r['nodes'])}: {r['result']}\n{r['text'][-4000:]}\n")


def from_files(args):
    about, results = None, {}
    for path in args.from_files:
        with open(path) as file:
            for line in map(json.loads, file):
                if "machine" in line:
                    about = line if about is None else dict(line, seconds=line["seconds"] + about["seconds"])
                else:
                    results[line["name"], line["column"], line["ranks"], line["mode"], line["nodes"]] = line
    report(list(results.values()), about, args.out)
    return 0


def matrix(args, pool, found):
    counts = [n for n in args.ranks if n <= max(2, found)]
    if not counts:
        sys.exit(f"{found} GPUs, but {min(args.ranks)} ranks or more were asked for")
    end, results, not_run, began = time.time() + args.seconds, [], 0, time.time()
    for ranks in counts:  # runs of one size side by side, so that large ones are not starved
        todo = [job for job in jobs(counts, args.only, args.columns, args.modes, found == 1) if job["ranks"] == ranks]
        todo = [job for job in todo if not args.ways or job["nodes"] in args.ways]
        with concurrent.futures.ThreadPoolExecutor(max(1, found // ranks)) as lanes:
            done = list(lanes.map(lambda job: run_job(pool, job, end=end), todo))
        results += [r for ran in done for r in ran]
        not_run += sum(len(job["names"]) - len(ran) for job, ran in zip(todo, done))
    excuse(results)
    machine = f"{found} x {query('name')[0]}, driver {query('driver_version')[0]}"
    report(results, {"date": str(datetime.date.today()), "machine": machine, "seconds": round(time.time() - began), "not run": not_run}, args.out)
    failures(results, args.out)
    bad = sum(not worth(r["result"]) for r in results)
    print(f"{len(results) - bad} passed, {bad} failed")
    return bad != 0


def sanitize(args, pool):
    tool = shutil.which("compute-sanitizer") or first(["/usr/local/cuda/bin/compute-sanitizer"])
    if tool is None:
        sys.exit("compute-sanitizer is not here | fix: it comes with the CUDA toolkit")
    small = {"TORTURE": "blocks=2 threads=32 coop=cta strip=4096 largest=500 rounds=1 seed=1", "SOAK": "seconds=0 blocks=2 threads=64 strip=4096",
             "COLL": "sample=2000 big=4100 largest=65536"}
    wanted = args.only or ["windows", "layout", "barriers", "ll", "graphs", "gin", "ginbarriers", "order", "lsa-allreduce", "gin-alltoall", "moe", "torture", "soak"]
    todo = []
    for check in ["memcheck", "racecheck", "synccheck"]:
        for column in ["ours x ginrs", "ours x ginrs, direct"]:
            # gin launches a second kernel while the first waits for the proxy: memcheck and racecheck keep the driver locked until the
            # first ends, and the proxy needs the driver. Direct, it is checked.
            left_out = (["gin"] if column == "ours x ginrs" and check != "synccheck" else []) + (NOT_SHARED if pool.alone else [])
            names = [name for name in suite_names(column, "processes", 1) if name in wanted and name not in left_out]
            todo.append((check, dict(binary="suite", column=column, ranks=2, mode="threads" if pool.alone else "processes", nodes=1, names=names)))
        names = [name for name in COLL if not args.only or name in args.only]
        if names and not pool.alone:
            todo.append((check, dict(binary="coll", column="ours x ginrs", ranks=2, mode="processes", nodes=1, names=names)))

    end = time.time() + args.seconds

    def one(case):
        check, job = case
        return check, job, run_job(pool, job, [tool, "--tool", check, "--error-exitcode", "9"], small, 60, end)

    bad = count = 0
    with concurrent.futures.ThreadPoolExecutor(max(1, len(pool.free) // 2)) as lanes:
        for check, job, results in lanes.map(one, todo):
            # A text goes on to the end of its run: the last one has the summary of each process. What was found also fails its program, by the exit status.
            text = results[-1]["text"] if results else ""
            clean = text.count("ERROR SUMMARY: 0 errors") + text.count("0 hazards displayed (0 errors")
            fine = len(results) == len(job["names"]) and all(r["result"] == "ok" for r in results) and clean == (1 if pool.alone else 2)
            bad, count = bad + (not fine), count + 1
            print(f"{check:10} {job['column']:22} {job['binary']:5} {'clean' if fine else 'FAIL'}: {', '.join(r['name'] for r in results)} ({sum(r['seconds'] for r in results[-1:])} s)", flush=True)
            if not fine:
                print(f"  {len(job['names']) - len(results)} programs not run; " + "; ".join(f"{r['name']}: {r['result']}" for r in results if r["result"] != "ok"))
                print("\n".join([line for line in text.splitlines() if "=========" in line][:60]))
    print(f"{count - bad} passed, {bad} failed")
    return bad != 0


def soak(args, pool, found):
    """Random shapes of soak.cu over all GPUs, every byte, signal and counter compared."""
    end, runs, pieces, bad = time.time() + args.soak, 0, 0, 0
    while time.time() < end:
        column = ["ours x ginrs", "ours x ginrs, direct", "NVIDIA's x ginrs", "mixed x ginrs"][runs % 4]
        if found == 1 and column == "mixed x ginrs":
            column = "ours x ginrs"
        mode = "processes" if column == "mixed x ginrs" else random.choice(["threads", "one thread"] if found == 1 else list(MODES))
        shape = (f"seconds={min(15, max(1, int(end - time.time())))} blocks={random.choice([1, 2, 4, 8, 16, 32])} threads={random.choice([32, 64, 128, 256, 512])} "
                 f"strip={random.choice([4096, 16384, 65536, 1048576])} seed={random.randrange(1 << 30)}")
        job = dict(binary="suite", column=column, ranks=max(2, found), mode=mode, nodes=1, names=["soak"])
        r = run_job(pool, job, extra={"SOAK": shape}, limit=60)[0]
        here = sum(int(n) for n in re.findall(r"rank \d+: (\d+) pieces", r["text"]))
        runs, pieces = runs + 1, pieces + here
        print(f"{column}, {mode}, SOAK=\"{shape}\": {r['result']}, {here} pieces", flush=True)
        if r["result"] != "ok":
            bad += 1
            print(r["text"][-2000:], flush=True)
    print(f"soak: {runs} shapes over {found} GPUs in {args.soak} s, {pieces} pieces verified byte by byte\n{runs - bad} passed, {bad} failed")
    return bad != 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=lambda text: [int(n) for n in text.split(",")], default=[2, 3, 4, 8])
    parser.add_argument("--only", type=lambda text: text.split(","))
    parser.add_argument("--columns", type=lambda text: [c for c in COLUMNS if any(part in c for part in text.split(";"))], help="parts of column names, with ; between")
    parser.add_argument("--ways", type=lambda text: [int(way) if way.isdigit() else way for way in text.split(",")], help="of 1, 2 (nodes) and machines")
    parser.add_argument("--modes", type=lambda text: text.split(","), help="of processes, threads, one thread")
    parser.add_argument("--out", default=os.path.join(ROOT, "build/gpu-test"))
    parser.add_argument("--seconds", type=int, default=int(os.environ.get("GPU_TEST_SECONDS", 900)))
    parser.add_argument("--from", dest="from_files", type=lambda text: text.split(","))
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("--soak", type=int)
    args = parser.parse_args()
    if args.from_files:
        sys.exit(from_files(args))
    found = len(query("name"))
    if found < 1:
        sys.exit("no GPU | fix: run it where nvidia-smi -L lists some")
    if not os.path.isdir(os.path.join(BUILT, "ours")):
        sys.exit("build/gpu is empty | fix: make gpu-build, on any machine with nvcc")
    pool = Pool(found)
    sys.exit(sanitize(args, pool) if args.sanitize else soak(args, pool, found) if args.soak else matrix(args, pool, found))


if __name__ == "__main__":
    main()
