"""One rank of scripts/gpu-pytorch.py: collectives are under way while the program pins memory, frees it, and copies to pageable memory.
All of that holds locks of the driver, some of it until kernels end, so whoever carries the collectives must not need them."""

import os
import threading

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
ROUNDS = 200


def pins(stop):
    size = 1 << 20
    while not stop.is_set():
        torch.empty(size, dtype=torch.uint8, pin_memory=True)
        size = size + 4096 if size < 2 << 20 else 1 << 20
        torch._C._host_emptyCache()  # or the allocator keeps what it has


def main():
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl", device_id=DEVICE)
    ranks = dist.get_world_size()
    stop = threading.Event()
    thread = threading.Thread(target=pins, args=(stop,))
    thread.start()
    try:
        for i in range(ROUNDS):
            n = 1 << i % 18
            total, own = torch.full((n,), RANK + 1.0, device=DEVICE), torch.full((n,), float(RANK), device=DEVICE)
            gathered = torch.zeros(ranks * n, device=DEVICE)
            works = [dist.all_reduce(total, async_op=True), dist.all_gather_into_tensor(gathered, own, async_op=True)]
            torch.empty(64 << 20, dtype=torch.uint8, device=DEVICE)
            torch.cuda.empty_cache()  # cudaFree, which waits for kernels
            for work in works:
                work.wait()
            found = float(total.cpu()[-1]), gathered.cpu()[n - 1 :: n].tolist()
            expected = ranks * (ranks + 1) / 2, [float(rank) for rank in range(ranks)]
            assert found == expected, f"round {i}: {found}, not {expected}"
    finally:
        stop.set()
        thread.join()
    dist.destroy_process_group()
    if RANK == 0:
        print(f"churn: {ROUNDS} rounds right", flush=True)


main()
