#!/usr/bin/env python3
"""gpu-bench-pytorch.py [--ranks N] [--turns N] [--quick | --steps | --calls] [--out FILE] [--arm NAME=VAR:VALUE,..]: PyTorch's collectives on libginrs and on NVIDIA's library,
and training steps, on the GPUs of this machine, a process for each rank.

The libraries take turns (A B, B A, ..); every figure is a median over the turns, and the ratio is our time over NVIDIA's. An --arm is
libginrs with more variables; --steps: training alone; --calls: what the tables do not have (calls.py); FILE gets all figures as JSON. Losses must agree. Needs PyTorch for the python3 that runs this, and build/gpu/lib/libginrs.so.0
(make gpu-build), which is preloaded. NVLink multicast is off for both.
"""

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.realpath(os.path.join(HERE, "../build/gpu/lib/libginrs.so.0"))
PROGRAMS = os.path.join(HERE, "../abi-tests/pytorch")
LIMIT = 150
SIZES = [1 << shift for shift in range(10, 31, 2)]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run(extra, ranks, program, sizes):
    """One job: its rows and losses."""
    shared = {"WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "NCCL_NVLS_ENABLE": 0, "PYTHONFAULTHANDLER": 1, "TORCH_SYMM_MEM_DISABLE_MULTICAST": 1}
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "rows.json")
        command = [sys.executable, os.path.join(PROGRAMS, program), out, *map(str, sizes)]
        jobs = []
        for rank in range(ranks):
            variables = shared | extra | {"RANK": rank, "LOCAL_RANK": rank}
            environment = os.environ | {name: str(value) for name, value in variables.items()}
            jobs.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
        said = ""
        for job in jobs:
            try:
                said += job.communicate(timeout=LIMIT)[1]
            except subprocess.TimeoutExpired:
                [other.send_signal(signal.SIGABRT) for other in jobs]  # each says where it is
                said += job.communicate()[1] + f"\nno end in {LIMIT} s"
        if any(job.returncode for job in jobs):
            sys.exit(f"{extra}: statuses {[job.returncode for job in jobs]}\n{said[-3000:]}")
        with open(out) as rows:
            return json.load(rows)


def size(bytes_):
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if bytes_ >= 1 << shift:
            return f"{bytes_ >> shift} {unit}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("--out")
    parser.add_argument("--arm", action="append", default=[])
    arguments = parser.parse_args()
    import torch

    ranks = arguments.ranks or torch.cuda.device_count()
    arms = {"ginrs": {"LD_PRELOAD": LIBRARY}}
    for arm in arguments.arm:
        name, _, variables = arm.partition("=")
        arms[name] = arms["ginrs"] | dict(variable.split(":", 1) for variable in variables.split(","))
    arms["NVIDIA"] = {}
    took = {name: {} for name in arms}
    losses = {}
    for turn in range(arguments.turns):
        for name in list(arms)[:: -1 if turn % 2 else 1]:
            sizes = [] if arguments.steps or arguments.calls else SIZES[::2] if arguments.quick else SIZES
            job = run(arms[name], ranks, "calls.py" if arguments.calls else "speed.py", sizes)
            losses[name] = job["losses"]
            print(f"turn {turn}, {name}: " + ", ".join(f"{row[0]} {row[3]:.0f} us" for row in job["rows"] if not row[2]), file=sys.stderr, flush=True)
            for operation, dtype, bytes_, us in job["rows"]:
                took[name].setdefault((operation, dtype, bytes_), []).append(us)
    print(f"{ranks} x {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {arguments.turns} turns; us, ratio to NVIDIA’s in brackets")
    if arguments.out:
        with open(arguments.out, "w") as out:
            json.dump({name: [[*row, us] for row, us in rows.items()] for name, rows in took.items()}, out)
    ours = [name for name in arms if name != "NVIDIA"]
    print("\n| | " + " | ".join(arms) + " |\n|---|" + "---|" * len(arms))
    for row, theirs in took["NVIDIA"].items():
        theirs = statistics.median(theirs)
        figures = [statistics.median(took[name][row]) for name in ours]
        cells = [f"{us:.1f} ({'**' if us > theirs * 1.02 else ''}{us / theirs:.2f}{'**' if us > theirs * 1.02 else ''})" for us in figures]
        print(f"| {row[0]}, {row[1]}{', ' + size(row[2]) if row[2] else ''} | " + " | ".join(cells) + f" | {theirs:.1f} |")
    slower = [row for row, theirs in took["NVIDIA"].items() if statistics.median(took["ginrs"][row]) > 1.02 * statistics.median(theirs)]
    print(f"\n{len(slower)} of {len(took['NVIDIA'])} rows slower than 1.02x (bold); losses {losses}")
    # In 16 bits the order in which ranks are added up shows.
    sys.exit(any(abs(loss[step] / losses["NVIDIA"][step] - 1) > 0.01 for loss in losses.values() for step in loss))


main()
