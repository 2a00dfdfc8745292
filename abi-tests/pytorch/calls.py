"""Times calls of PyTorch that speed.py's tables do not have: lists, groups, messages, uneven parts, odd counts and addresses, types and operations; and checks what they gave.

calls.py OUT.json: as speed.py, without training. Sizes are those of the largest buffer of a rank.
"""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager

from timing import checked

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
MIB = 1 << 20


def filled(n, value, dtype=torch.float32, ahead=0):
    """`ahead` elements behind an address of PyTorch's."""
    return torch.full((n + ahead,), value, dtype=dtype, device="cuda")[ahead:]


def shares(n):
    """`n` in parts that differ, by rank, the first about three times the last."""
    weights = [2 * world - r for r in range(world)] if world > 1 else [1]
    parts = [n * weight // sum(weights) for weight in weights]
    parts[-1] += n - sum(parts)
    return parts


def all_gather_list(n):
    parts = shares(n)
    outs, own = [filled(part, 0) for part in parts], filled(parts[rank], rank + 1)
    return lambda: dist.all_gather(outs, own), lambda: all(bool((out == r + 1).all()) for r, out in enumerate(outs))


def reduce_scatter_list(n):
    parts = shares(n)
    ins, own = [filled(part, rank + 1) for part in parts], filled(parts[rank], 0)
    return lambda: dist.reduce_scatter(own, ins), lambda: bool((own == world * (world + 1) // 2).all())


def all_to_all_uneven(n):
    """Rank r sends rank q what both agree on: MoE's dispatch."""
    size = lambda source, target: n // world + (source - target) * (n // (4 * world * world))
    sends, receives = [size(rank, q) for q in range(world)], [size(q, rank) for q in range(world)]
    sent, got = filled(sum(sends), rank), filled(sum(receives), -1)

    def right():
        return all(bool((part == q).all()) for q, part in enumerate(got.split(receives)))

    return lambda: dist.all_to_all_single(got, sent, receives, sends), right


def ring(n):
    sent, got = filled(n, rank), filled(n, -1)
    operations = [dist.P2POp(dist.isend, sent, (rank + 1) % world), dist.P2POp(dist.irecv, got, (rank - 1) % world)]

    def call():
        for work in dist.batch_isend_irecv(operations):
            work.wait()

    return call, lambda: bool((got == (rank - 1) % world).all())


def coalesced_gathers(n, calls):
    """What distributed optimizers do with their buckets."""
    owns = [filled(n // world // calls, rank + 1 + i) for i in range(calls)]
    outs = [filled(n // world // calls * world, 0) for _ in range(calls)]

    def call():
        with _coalescing_manager(async_ops=False):
            for out, own in zip(outs, owns):
                dist.all_gather_into_tensor(out, own)

    def right():
        wanted = torch.arange(1, world + 1, device="cuda")[:, None]
        return all(bool((out.view(world, -1) == wanted + i).all()) for i, out in enumerate(outs))

    return call, right


def coalesced_reduces(n, calls):
    ins = [filled(n // calls // world * world, rank + 1) for i in range(calls)]
    outs = [filled(n // calls // world, 0) for _ in range(calls)]

    def call():
        with _coalescing_manager(async_ops=False):
            for out, own in zip(outs, ins):
                dist.reduce_scatter_tensor(out, own)

    return call, lambda: all(bool((out == world * (world + 1) // 2).all()) for out in outs)


def small_reduces(calls):
    values = [filled(100 + i, 0) for i in range(calls)]

    def call():
        with _coalescing_manager(async_ops=False):
            for value in values:
                dist.all_reduce(value, dist.ReduceOp.MAX)

    return call, lambda: not any(bool(value.any()) for value in values)


def reduce_all(n, dtype, op, wanted, ahead=0):
    value = filled(n, 0, dtype, ahead)

    def right():
        value.fill_(1)
        dist.all_reduce(value, op)
        is_right = bool((value == wanted).all())
        value.zero_()
        return is_right

    return lambda: dist.all_reduce(value, op), right


def scaled_scatter(n, factor):
    """FSDP's reduce-scatter with a divisor of its own."""
    ins, own = filled(n // world * world, 1), filled(n // world, 0)
    op = dist._make_nccl_premul_sum(factor)
    return lambda: dist.reduce_scatter_tensor(own, ins, op), lambda: bool((own == world * factor).all())


def gather_all(n, dtype, ahead):
    own, out = filled(n // world, rank + 1, dtype, ahead), filled(n // world * world, 0, dtype, ahead)
    right = lambda: bool((out.view(world, -1) == torch.arange(1, world + 1, device="cuda").to(dtype)[:, None]).all())
    return lambda: dist.all_gather_into_tensor(out, own), right


def scatter_odd(n):
    ins, own = filled(n * world, rank + 1), filled(n, 0)
    return lambda: dist.reduce_scatter_tensor(own, ins), lambda: bool((own == world * (world + 1) // 2).all())


def gather(n):
    own = filled(n // world, rank + 1)
    outs = [filled(n // world, 0) for _ in range(world)] if rank == 0 else None
    right = lambda: rank != 0 or all(bool((out == r + 1).all()) for r, out in enumerate(outs))
    return lambda: dist.gather(own, outs, 0), right


half = dist._make_nccl_premul_sum(0.5)
ROWS = [
    *(("all-gather of a list of uneven parts", "float32", m * MIB, lambda m=m: all_gather_list(m * MIB // 4)) for m in (2, 32, 128)),
    *(("reduce-scatter of a list of uneven parts", "float32", m * MIB, lambda m=m: reduce_scatter_list(m * MIB // 4)) for m in (2, 32, 128)),
    *(("all-to-all of uneven parts", "float32", m * MIB, lambda m=m: all_to_all_uneven(m * MIB // 4)) for m in (2, 32, 128)),
    *(("ring of messages", "float32", m * MIB, lambda m=m: ring(m * MIB // 4)) for m in (1, 64)),
    *(("8 all-gathers in a group", "float32", m * MIB, lambda m=m: coalesced_gathers(m * MIB // 4, 8)) for m in (1, 16, 256)),
    *(("8 reduce-scatters in a group", "float32", m * MIB, lambda m=m: coalesced_reduces(m * MIB // 4, 8)) for m in (1, 16, 256)),
    ("60 small all-reduces in a group", "float32", 640, lambda: small_reduces(60)),
    ("all-reduce, premul-sum", "float32", 64 << 10, lambda: reduce_all(16 << 10, torch.float32, half, world / 2)),
    ("all-reduce, premul-sum", "float32", 16 * MIB, lambda: reduce_all(4 * MIB, torch.float32, half, world / 2)),
    ("reduce-scatter, premul-sum", "float32", 128 * MIB, lambda: scaled_scatter(32 * MIB, 0.25)),
    ("all-reduce", "int8", 16 * MIB, lambda: reduce_all(16 * MIB, torch.int8, dist.ReduceOp.SUM, world)),
    ("all-reduce, max", "int64", 16 * MIB, lambda: reduce_all(2 * MIB, torch.int64, dist.ReduceOp.MAX, 1)),
    ("all-reduce, average", "bfloat16", 16 * MIB, lambda: reduce_all(8 * MIB, torch.bfloat16, dist.ReduceOp.AVG, 1)),
    ("all-reduce, odd address", "bfloat16", 16 * MIB, lambda: reduce_all(8 * MIB, torch.bfloat16, dist.ReduceOp.SUM, world, 1)),
    ("all-gather, odd address", "bfloat16", 32 * MIB, lambda: gather_all(16 * MIB, torch.bfloat16, 1)),
    ("all-gather, odd address", "uint8", 32 * MIB, lambda: gather_all(32 * MIB, torch.uint8, 3)),
    ("reduce-scatter, odd count", "float32", 4 * 1000003, lambda: scatter_odd(1000003)),
    ("gather", "float32", 128 * MIB, lambda: gather(32 * MIB)),
]

rows = []
for name, dtype, bytes_, make in ROWS:
    call, right = make()
    call()
    rows.append(checked(name, dtype, bytes_, call, right, 10))
if rank == 0:
    with open(sys.argv[1], "w") as out:
        json.dump({"rows": rows, "losses": {}}, out)
dist.destroy_process_group()
