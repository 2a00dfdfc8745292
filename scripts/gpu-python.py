#!/usr/bin/env python3
"""gpu-python.py [--ranks N] [PROGRAM ..]: CuPy, JAX and nccl4py as they are installed, on libginrs, on the GPUs of this machine.

The programs of abi-tests/python check all that they receive against numpy. Each process must have been served by libginrs alone, whatever libnccl.so.2
the packages bring. Where there are fewer GPUs than ranks they share the first one. What is not installed for the python3 that runs this is skipped, with a
line. Needs build/gpu/lib (make gpu-build).
"""

import argparse
import importlib.util
import subprocess
import sys

import gpu_jobs

# Each XLA flag makes other calls of NCCL.
FLAGS = [
    "--xla_gpu_enable_nccl_user_buffers=true",
    "--xla_gpu_experimental_enable_nccl_symmetric_buffers=true",
    "--xla_gpu_nccl_async_execution=true --xla_gpu_nccl_blocking_communicators=false",
    "--xla_gpu_enable_command_buffer=COLLECTIVES,FUSION,CUBLAS --xla_gpu_graph_min_graph_size=1",
]
JOBS = [("cupy", {}), ("nccl4py", {}), ("jax", {})] + [("jax", {"XLA_FLAGS": flags}) for flags in FLAGS]
MODULES = {"nccl4py": ["nccl", "cupy"]}


def gpus():
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    return len(listed.stdout.splitlines()), listed.stdout.split(" (")[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("programs", nargs="*")
    arguments = parser.parse_args()
    ranks, (count, name) = arguments.ranks, gpus()
    shares = {"GINRS_SHARE_DEVICE": 1, "CUDA_DEVICE_MAX_CONNECTIONS": 32} if count < ranks else {}
    print(f"{name}, {ranks} ranks{' on one GPU' if shares else ''}", flush=True)
    failed = done = 0
    for program, variables in JOBS:
        if arguments.programs and program not in arguments.programs:
            continue
        named = " ".join([program, *variables.values()])
        missing = [module for module in MODULES.get(program, [program]) if not importlib.util.find_spec(module)]
        if missing:
            print(f"{named}: skipped, {' and '.join(missing)} is not installed", flush=True)
            continue
        statuses, printed, said = gpu_jobs.run(f"python/with_{program}.py", ranks, gpu_jobs.ON_GINRS | shares | {"NCCL_DEBUG": "VERSION"} | variables)
        wrong = []
        if any(statuses):
            wrong.append(f"exit statuses {statuses}: {''.join(said)[-3000:]}")
        if not all("(ginrs " in out + err for out, err in zip(printed, said)):
            wrong.append("a rank was not served by libginrs")
        if any("+cuda" in out + err for out, err in zip(printed, said)):
            wrong.append("a rank was served by another NCCL")
        done, failed = done + 1, failed + bool(wrong)
        print(f"{named}: {'; '.join(wrong) or f'{len(printed[0].splitlines())} lines as they should be'}", flush=True)
    print(f"Python: {done - failed} passed, {failed} failed")
    sys.exit(failed != 0 or done == 0)


main()
