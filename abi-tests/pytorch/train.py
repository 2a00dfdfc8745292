"""One rank of scripts/gpu-pytorch.py: trains by DDP and by FSDP, replays a captured all-reduce, shares symmetric memory, and ends as
programs do, with destroy_process_group or without. Prints the losses that both libraries must agree on."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel

RANK = int(os.environ["RANK"])
DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"]))


def say(line):
    if RANK == 0:
        print(line, flush=True)


def model():
    torch.manual_seed(7)
    layers = [torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)]
    return torch.nn.Sequential(*layers).to(DEVICE)


def train(name, net, steps=20):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    data = torch.Generator(device=DEVICE).manual_seed(100 + RANK)
    for step in range(steps):
        inputs = torch.randn(64, 256, device=DEVICE, generator=data)
        labels = torch.randint(0, 10, (64,), device=DEVICE, generator=data)
        loss = torch.nn.functional.cross_entropy(net(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        say(f"{name} step {step}: {mean.item() / dist.get_world_size():.5f}")


def replay():
    buffer = torch.ones(4096, device=DEVICE)
    dist.all_reduce(buffer)  # the communicator is made outside of the capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    buffer.fill_(1)
    with torch.cuda.graph(graph):
        dist.all_reduce(buffer)
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    say(f"graph: {buffer[17].item():.1f}")


def symmetric():
    """Windows and a device communicator of PyTorch's own, which it destroys from a static destructor."""
    import torch.distributed._symmetric_memory as symm_mem

    symm_mem.set_backend("NCCL")
    buffer = symm_mem.empty(1 << 20, dtype=torch.float32, device=DEVICE).fill_(RANK)
    symm_mem.rendezvous(buffer, group=dist.group.WORLD)
    torch.cuda.synchronize()
    dist.barrier()
    say("symmetric memory: shared")


def main():
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl", device_id=DEVICE)
    train("ddp", DistributedDataParallel(model(), device_ids=[DEVICE.index]))
    train("fsdp", FullyShardedDataParallel(model(), device_id=DEVICE))
    if "skewed" not in sys.argv:  # a captured collective may be replayed unseen: an abort of a peer is then always told
        replay()
    if "symmetric" in sys.argv:
        symmetric()
    if "destroy" in sys.argv:
        dist.destroy_process_group()
    if "skewed" in sys.argv and RANK != 0:
        time.sleep(4)  # its watchdog goes on asking about the communicator while rank 0 has ended
    say("done")


main()
