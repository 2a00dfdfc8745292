"""with_cupy.py: CuPy on NCCL as its users write it: cupy.cuda.nccl by hand, then cupyx.distributed. RANK, WORLD_SIZE and LOCAL_RANK as torchrun sets them."""

import os
import sys

import cupy
import numpy as np
from cupy.cuda import nccl
from cupyx.distributed import NCCLBackend

import jobs

rank, size = jobs.rank, jobs.size
cupy.cuda.Device(jobs.device).use()
N = 100_003


def mine(of, dtype=np.float32, n=N):
    """What rank `of` begins with: small whole numbers, so that sums are exact."""
    return ((np.arange(n) * 7 + of * 13) % 17).astype(dtype)


def same(name, got, wanted):
    cupy.cuda.Device().synchronize()
    np.testing.assert_array_equal(cupy.asnumpy(got), wanted, err_msg=name)
    print(name, flush=True)


def by_hand():
    identity = jobs.broadcast(lambda: nccl.get_unique_id())
    comm = nccl.NcclCommunicator(size, identity, rank)
    assert (comm.size(), comm.rank_id()) == (size, rank)
    comm.check_async_error()  # raises
    stream = cupy.cuda.Stream(non_blocking=True)
    for dtype, kind in ((np.float32, nccl.NCCL_FLOAT32), (np.float64, nccl.NCCL_FLOAT64), (np.float16, nccl.NCCL_FLOAT16), (np.int64, nccl.NCCL_INT64), (np.uint8, nccl.NCCL_UINT8)):
        all_of = np.stack([mine(of, dtype) for of in range(size)])
        with stream:
            source, target = cupy.asarray(mine(rank, dtype)), cupy.zeros(N, dtype)
            comm.allReduce(source.data.ptr, target.data.ptr, N, kind, nccl.NCCL_SUM, stream.ptr)
        stream.synchronize()
        same(f"allReduce {source.dtype}", target, all_of.sum(0).astype(dtype))
        with stream:
            comm.allReduce(source.data.ptr, source.data.ptr, N, kind, nccl.NCCL_MAX, stream.ptr)
        stream.synchronize()
        same(f"allReduce in place, max, {source.dtype}", source, all_of.max(0))
    all_of = np.stack([mine(of) for of in range(size)])
    with stream:
        source, gathered = cupy.asarray(mine(rank)), cupy.zeros((size, N), np.float32)
        comm.allGather(source.data.ptr, gathered.data.ptr, N, nccl.NCCL_FLOAT32, stream.ptr)
        whole, part = cupy.asarray(np.concatenate([mine(rank)] * size)), cupy.zeros(N, np.float32)
        comm.reduceScatter(whole.data.ptr, part.data.ptr, N, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, stream.ptr)
        sent = cupy.asarray(mine(rank))
        comm.broadcast(sent.data.ptr, sent.data.ptr, N, nccl.NCCL_FLOAT32, size - 1, stream.ptr)
        reduced = cupy.zeros(N, np.float32)
        comm.reduce(source.data.ptr, reduced.data.ptr, N, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, 0, stream.ptr)
        came = cupy.zeros(N, np.float32)
        nccl.groupStart()
        comm.send(source.data.ptr, N, nccl.NCCL_FLOAT32, (rank + 1) % size, stream.ptr)
        comm.recv(came.data.ptr, N, nccl.NCCL_FLOAT32, (rank - 1) % size, stream.ptr)
        nccl.groupEnd()
    stream.synchronize()
    same("allGather", gathered, all_of)
    same("reduceScatter", part, all_of.sum(0))
    same("broadcast", sent, mine(size - 1))
    same("reduce", reduced, all_of.sum(0) if rank == 0 else np.zeros(N))
    same("send and recv", came, mine((rank - 1) % size))
    comm.destroy()
    other = nccl.NcclCommunicator(size, jobs.broadcast(lambda: nccl.get_unique_id()), rank)
    other.abort()
    print("destroyed, and another one aborted")


def by_backend():
    group = NCCLBackend(size, rank, host="127.0.0.1", port=jobs.port(1))
    all_of = np.stack([mine(of) for of in range(size)])
    source, target = cupy.asarray(mine(rank)), cupy.zeros(N, np.float32)
    group.all_reduce(source, target)
    same("all_reduce", target, all_of.sum(0))
    group.broadcast(source, 0)
    same("broadcast by the backend", source, mine(0))
    whole, came = cupy.asarray(np.stack([mine(rank, n=1000)] * size)), cupy.zeros((size, 1000), np.float32)
    group.all_to_all(whole, came)
    same("all_to_all", came, np.stack([mine(of, n=1000) for of in range(size)]))
    group.gather(whole[0], came, 0)
    if rank == 0:
        same("gather", came, np.stack([mine(of, n=1000) for of in range(size)]))
    part = cupy.zeros(1000, np.float32)
    group.scatter(whole, part, 0)
    same("scatter", part, mine(0, n=1000))
    group.send_recv(cupy.full(10, rank, np.float32), part[:10], (rank + 1) % size) if size == 2 else None
    group.barrier()
    group.stop()


by_hand()
by_backend()
sys.stdout.flush()
