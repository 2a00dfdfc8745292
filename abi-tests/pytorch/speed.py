"""Times PyTorch's collectives on whatever NCCL this process has, memory from PyTorch's allocator, and checks what they gave.

speed.py OUT.json [SIZE ...]: rank 0 writes rows of [operation, type, bytes, us], by the slowest rank's events, the median of five; then
the time of a step of DDP and of FSDP. Started by scripts/gpu-bench-pytorch.py, a process for each rank.
"""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from timing import checked, timed

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
TYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}


def operations(bytes_, dtype):
    """Per name: what to call, and what to check then. `bytes_` are those of the largest buffer of a rank."""
    n = max(bytes_ // dtype.itemsize // world * world, world)
    ones = torch.ones(n, dtype=dtype, device="cuda")
    part, all_, out = (torch.full((n // world,), rank + 1, dtype=dtype, device="cuda"), torch.empty_like(ones), torch.empty_like(ones))
    summed, kept = torch.empty_like(part), torch.full_like(ones, rank + 1)
    sent = torch.arange(world, device="cuda").repeat_interleave(n // world).to(dtype)

    def reduce_all():
        out.copy_(ones)
        dist.all_reduce(out)
        return bool((out == world).all())

    def gather_all():
        dist.all_gather_into_tensor(all_, part)
        return bool((all_.view(world, -1) == torch.arange(1, world + 1, device="cuda").to(dtype)[:, None]).all())

    def scatter_sum():
        dist.reduce_scatter_tensor(summed, ones)
        return bool((summed == world).all())

    def all_to_all():
        dist.all_to_all_single(all_, sent)
        return bool((all_ == rank).all())

    def broadcast():
        kept.fill_(rank + 1)
        dist.broadcast(kept, 0)
        return bool((kept == 1).all())

    def reduce():
        kept.fill_(1)
        dist.reduce(kept, 0)
        return rank != 0 or bool((kept == world).all())

    return {
        "all-reduce": (lambda: dist.all_reduce(out), reduce_all),
        "all-gather": (lambda: dist.all_gather_into_tensor(all_, part), gather_all),
        "reduce-scatter": (lambda: dist.reduce_scatter_tensor(summed, ones), scatter_sum),
        "all-to-all": (lambda: dist.all_to_all_single(all_, sent), all_to_all),
        "broadcast": (lambda: dist.broadcast(kept, 0), broadcast),
        "reduce": (lambda: dist.reduce(kept, 0), reduce),
    }


def collectives(sizes):
    rows = []
    for name, dtype in TYPES.items():
        for bytes_ in sizes:
            for operation, (call, check) in operations(bytes_, dtype).items():
                rows.append(checked(operation, name, bytes_, call, check, 20 if bytes_ <= 16 << 20 else 5))
    return rows


def step(wrap):
    """A training step of a small transformer, us, and the loss behind it."""
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(2048, 16, 8192, dropout=0, batch_first=True, dtype=torch.bfloat16)
    model = wrap(torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    torch.manual_seed(rank)
    batch, loss = torch.randn(4, 256, 2048, device="cuda", dtype=torch.bfloat16), None

    def train():
        nonlocal loss
        optimizer.zero_grad()
        loss = model(batch).float().square().mean()
        loss.backward()
        optimizer.step()

    us = timed(train, 20)
    return us, loss.item()


def sharded(model):
    for layer in model.layers:
        fully_shard(layer)
    return fully_shard(model)


rows = collectives([int(size) for size in sys.argv[2:]])
steps = {"DDP": lambda model: DistributedDataParallel(model, device_ids=[rank]), "FSDP": sharded}
losses = {}
for name, wrap in steps.items():
    us, losses[name] = step(wrap)
    rows.append([f"a step of {name}", "bfloat16", 0, us])
if rank == 0:
    with open(sys.argv[1], "w") as out:
        json.dump({"rows": rows, "losses": losses}, out)
dist.destroy_process_group()
