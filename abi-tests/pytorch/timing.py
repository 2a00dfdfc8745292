"""How the programs of scripts/gpu-bench-pytorch.py time a call."""

import torch
import torch.distributed as dist


def slowest(us):
    """The median over rounds of what the slowest rank took."""
    times = torch.tensor(us, device="cuda")
    dist.all_reduce(times, dist.ReduceOp.MAX)
    return times.median().item()


def timed(call, calls, rounds=5):
    for _ in range(5):
        call()
    us = []
    for _ in range(rounds):
        dist.barrier()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        us.append(start.elapsed_time(end) * 1000 / calls)
    return slowest(us)


def checked(operation, dtype, bytes_, call, right, calls):
    """A row of [operation, type, bytes, us]; it ends the job where `right` says that what came out is wrong."""

    def check(when):
        if not right():
            raise SystemExit(f"rank {dist.get_rank()}: {operation} of {bytes_} bytes of {dtype} gave wrong values{when}")

    check("")
    row = [operation, dtype, bytes_, timed(call, calls)]
    check(" after its timing")
    return row
