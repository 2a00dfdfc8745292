"""One rank of scripts/gpu-pytorch.py: memory of PyTorch's expandable segments, which it maps in pieces, gives back, and maps anew at the same
addresses, in collectives; every element is checked, and what was given back is the GPU's again in the end."""

import os
import random
import time

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

RANK = int(os.environ["RANK"])
DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
ROUNDS, CALLS = 24, 12


def free():
    return torch.cuda.mem_get_info()[0]


def main():
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl", device_id=DEVICE)
    ranks = dist.get_world_size()
    choice = random.Random(7)  # the same on all ranks
    kept, before = [], 0
    for turn in range(ROUNDS):
        n = choice.choice([1000, 300_000, 3_000_000, 12_000_000, 40_000_000]) + choice.randrange(1000)
        wrong = torch.zeros((), dtype=torch.int64, device=DEVICE)
        own, gathered = torch.empty(n, device=DEVICE), torch.empty(ranks * n, device=DEVICE)
        for call in range(CALLS):
            own.fill_(RANK + 10 * call + 1000 * turn)
            dist.all_gather_into_tensor(gathered, own)
            wanted = torch.arange(ranks, device=DEVICE)[:, None] + 10.0 * call + 1000 * turn
            wrong += (gathered.view(ranks, n) != wanted).sum()
            dist.all_reduce(own)
            wrong += (own != ranks * (10 * call + 1000 * turn) + ranks * (ranks - 1) // 2).sum()
            dist.reduce_scatter_tensor(own, gathered)
            wrong += (own != ranks * (RANK + 10 * call + 1000 * turn)).sum()
        print(f"round {turn}: {n} elements, {wrong.item()} wrong", flush=True)
        # Some stay, others make room within the segment.
        kept.append(own)
        if len(kept) > 2:
            kept.pop(choice.randrange(3))
        del own, gathered, wanted, wrong
        torch.cuda.empty_cache()
        if turn == 0:
            dist.barrier()
            before = free()
    kept.clear()
    torch.cuda.empty_cache()
    until = time.monotonic() + 5
    while free() < before and time.monotonic() < until:
        time.sleep(0.02)
    print("free again" if free() >= before else f"{(before - free()) >> 20} MiB are not free again")
    # By the host: what another lends is closed while no kernel runs, such as a barrier's that waits for this rank.
    store = dist.distributed_c10d._get_default_store()
    store.set(f"done {RANK}", "")
    store.wait([f"done {rank}" for rank in range(ranks)])
    dist.destroy_process_group()


main()
