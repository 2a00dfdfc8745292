#!/usr/bin/env python3
"""gpu-pytorch.py [--ranks N] [--machines]: an unmodified PyTorch on libginrs and on NVIDIA's library, on the GPUs of this machine.

Each program runs on both libraries; the losses must be equal, no more of the GPU's memory taken, and on libginrs nothing may be said on
stderr that NVIDIA's run does not say, down to the end of exit(): PyTorch destroys device communicators from static destructors. Where there are fewer GPUs than ranks they
share the first one, which NVIDIA's library refuses: losses are compared with those of libginrs on one machine then. --machines: on libginrs
each rank is told to be a machine of its own (needs libfabric). Needs PyTorch for the python3 that runs this, and
build/gpu/lib (make gpu-build).
"""

import argparse
import re
import sys

import gpu_jobs


def run(program, library, ranks, options, variables):
    """All ranks of one job: (exit statuses, rank 0's lines, what all said on stderr)."""
    variables = variables | (gpu_jobs.ON_GINRS if library == "ginrs" else {})
    statuses, printed, said = gpu_jobs.run(f"pytorch/{program}", ranks, variables, options)
    return statuses, printed[0].splitlines(), "".join(said).splitlines()


def parted(lines):
    """What is printed, and the MiB of the line `memory MIB`, if there is one."""
    taken = [int(line.split()[1]) for line in lines if line.startswith("memory ")]
    return [line for line in lines if not line.startswith("memory ")], taken[0] if taken else 0


def told(lines):
    """Lines of stderr without what differs from run to run."""
    return {re.sub(r"0x[0-9a-f]+|\d+", "N", line.split("] ", 1)[-1]).strip() for line in lines} - {""}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--machines", action="store_true")
    arguments = parser.parse_args()
    failed, ranks = 0, arguments.ranks
    import torch

    shares = {"GINRS_SHARE_DEVICE": 1} if torch.cuda.device_count() < ranks else {}
    machines = {"GINRS_FAKE_MACHINES": ",".join(map(str, range(ranks))), "NCCL_SOCKET_IFNAME": "lo"} if arguments.machines else {}
    beside = "libginrs’s on one machine" if shares else "NVIDIA’s library"
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {ranks} ranks{' on one GPU' if shares else ''}, beside {beside}"
          + (", each rank a pretended machine" if machines else ""), flush=True)
    train, endings = "train.py", ([], ["destroy"], ["skewed"], ["skewed", "destroy"], ["symmetric"], ["symmetric", "destroy"])
    jobs = [(train, options) for options in endings] + [("start.py", []), ("churn.py", []), ("expandable.py", [])]
    for program, options in jobs:
        theirs = run(program, "ginrs" if shares else "nvidia", ranks, options, shares)
        ours = run(program, "ginrs", ranks, options, shares | machines)
        (printed, taken), (wanted, most) = parted(ours[1]), parted(theirs[1])
        new = sorted(told(ours[2]) - told(theirs[2]))
        wrong = []
        if any(ours[0]):
            wrong.append(f"exit statuses {ours[0]} ({beside}: {theirs[0]})")
        if not any(theirs[0]) and printed != wanted:
            wrong.append(f"other lines than {beside}: {[pair for pair in zip(printed, wanted) if pair[0] != pair[1]][:3]}")
        if taken > most:
            wrong.append(f"{taken} MiB of the GPU ({beside}: {most})")
        if new:
            wrong.append("said on stderr: " + " / ".join(new[:6]))
        failed += bool(wrong)
        name = " ".join([program.removesuffix(".py"), *options])
        last = printed[-1] if printed else "nothing printed"
        memory = f", {taken} MiB of the GPU, {beside} {most}" if taken else ""
        print(f"{name}: {'; '.join(wrong) or f'as {beside}, silent at exit'} ({len(printed)} lines, last \"{last}\"{memory})", flush=True)
    print(f"PyTorch: {len(jobs) - failed} passed, {failed} failed")
    sys.exit(failed != 0)


main()
