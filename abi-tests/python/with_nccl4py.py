"""with_nccl4py.py: nccl4py, NVIDIA's own binding, on CuPy's arrays: all that its communicators do."""

import sys

import cupy
import nccl.core as nccl
import numpy as np

import jobs

rank, size = jobs.rank, jobs.size
cupy.cuda.Device(jobs.device).use()
N = 50_001


def mine(of, n=N):
    return ((np.arange(n) * 5 + of * 11) % 19).astype(np.float32)


def same(name, got, wanted):
    cupy.cuda.Device().synchronize()
    np.testing.assert_array_equal(cupy.asnumpy(got), wanted, err_msg=name)
    print(name, flush=True)


def collectives(comm, name, stream):
    rank, size = comm.rank, comm.nranks
    all_of = np.stack([mine(of) for of in range(size)])
    parts = np.stack([mine(of, size * 1000).reshape(size, 1000) for of in range(size)])
    source, target = cupy.asarray(mine(rank)), cupy.zeros(N, np.float32)
    comm.allreduce(source, target, nccl.SUM, stream=stream)
    same(f"{name}: allreduce", target, all_of.sum(0))
    half = comm.create_pre_mul_sum(0.5, nccl.FLOAT32)
    comm.allreduce(source, target, half, stream=stream)
    same(f"{name}: allreduce of halves", target, (all_of / 2).sum(0))
    gathered = cupy.zeros((size, N), np.float32)
    comm.allgather(source, gathered, stream=stream)
    same(f"{name}: allgather", gathered, all_of)
    own, part, came = cupy.asarray(parts[rank]), cupy.zeros(1000, np.float32), cupy.zeros((size, 1000), np.float32)
    comm.reduce_scatter(own, part, nccl.SUM, stream=stream)
    same(f"{name}: reduce_scatter", part, parts.sum(0)[rank])
    comm.alltoall(own, came, stream=stream)
    same(f"{name}: alltoall", came, parts[:, rank])
    comm.gather(part, came if rank == 0 else None, 0, stream=stream)
    if rank == 0:
        same(f"{name}: gather", came, parts.sum(0))
    comm.scatter(own if rank == 0 else None, part, 0, stream=stream)
    same(f"{name}: scatter", part, parts[0][rank])
    sent = cupy.asarray(mine(rank))
    comm.broadcast(sent if rank == size - 1 else None, target, size - 1, stream=stream)
    same(f"{name}: broadcast", target, mine(size - 1))
    comm.reduce(source, target if rank == 0 else None, nccl.MAX, 0, stream=stream)
    if rank == 0:
        same(f"{name}: reduce", target, all_of.max(0))
    with nccl.group():
        comm.send(source, (rank + 1) % size, stream=stream)
        comm.recv(target, (rank - 1) % size, stream=stream)
    same(f"{name}: send and recv", target, mine((rank - 1) % size))


comm = nccl.Communicator.init(size, rank, jobs.broadcast(nccl.get_unique_id))
assert (comm.nranks, comm.rank, comm.device.device_id) == (size, rank, jobs.device)
stream = cupy.cuda.Stream(non_blocking=True)
with stream:
    collectives(comm, "world", stream)
    collectives(comm.split(0, size - rank), "backwards", stream)
    collectives(comm.split(rank, 0), "alone", stream)
    named = nccl.NCCLConfig(comm_name="named", min_ctas=1, max_ctas=4)
    collectives(nccl.Communicator.init(size, rank, jobs.broadcast(nccl.get_unique_id), named), "four CTAs", stream)
    memory = nccl.mem_alloc(4 << 20)
    window = comm.register_window(memory)
    ours = cupy.ndarray((1 << 20,), np.float32, memptr=cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(int(memory.handle), 4 << 20, memory), 0))
    ours[...] = rank + 1
    comm.allreduce(ours, ours, nccl.SUM, stream=stream)
    same("in a window", ours, np.full(1 << 20, size * (size + 1) / 2, np.float32))
    lent = cupy.full(1 << 20, rank, np.float32)
    handle = comm.register_buffer(lent)
    comm.allreduce(lent, lent, nccl.MAX, stream=stream)
    same("in a registered buffer", lent, np.full(1 << 20, size - 1, np.float32))
    handle.close()
    if window is not None:
        window.close()
fewer = comm.shrink([size - 1]) if rank < size - 1 else None
if fewer is not None:
    with stream:
        collectives(fewer, "shrunk", stream)
    fewer.destroy()
try:
    comm.allreduce(cupy.zeros(3, np.float32), cupy.zeros(2, np.float32), nccl.SUM)
except Exception as error:
    print("refused:", type(error).__name__)
comm.finalize()
comm.destroy()
print("destroyed")
sys.stdout.flush()
