"""One rank of scripts/gpu-pytorch.py: uses its GPU and pins memory before the process group is there, as programs do that load a model
first, and says how much of the GPU the process then has: `memory MIB`."""

import os

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"]))

torch.cuda.set_device(DEVICE)
weight = torch.ones(512, 512, device=DEVICE, dtype=torch.bfloat16)
first = weight.sum().item()  # comes through memory that PyTorch pins
batch = torch.ones(100).pin_memory()
dist.init_process_group("nccl", device_id=DEVICE)
product = weight @ weight
dist.all_reduce(product)
torch.cuda.synchronize()
free, total = torch.cuda.mem_get_info()
if RANK == 0:
    print(f"sums {first:.0f} {product[3, 4].item() / dist.get_world_size():.0f} {batch.to(DEVICE).sum().item():.0f}")
    print(f"memory {total - free >> 20}", flush=True)
dist.barrier()
torch.cuda.synchronize()
dist.destroy_process_group()
