"""with_jax.py [killed]: JAX on NCCL as its users write it: several processes, one device each, collectives that XLA compiles, meshes of two dimensions, and
steps of training. killed: the last rank dies between two steps.
"""

import os
import signal
import sys

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import jobs

rank, size = jobs.rank, jobs.size
jax.distributed.initialize(f"127.0.0.1:{jobs.port(1)}", size, rank, local_device_ids=[jobs.device])
mesh = Mesh(np.array(jax.devices()), "ranks")
over = NamedSharding(mesh, P("ranks"))
assert len(jax.devices()) == size and len(jax.local_devices()) == 1
shard_map = jax.shard_map


def spread(whole):
    """An array of which each process holds its rows."""
    return jax.make_array_from_callback(whole.shape, over, lambda index: whole[index])


def same(name, got, wanted):
    for shard in got.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), wanted[shard.index], err_msg=name)
    print(name, flush=True)


def collectives():
    for dtype in (np.float32, np.int32, jnp.bfloat16):
        whole = (np.arange(size * size * 1000) % 13).reshape(size * size, 1000).astype(dtype)
        parts = whole.reshape(size, size, 1000)

        def run(function, out=P("ranks")):
            return jax.jit(shard_map(function, mesh=mesh, in_specs=P("ranks"), out_specs=out, check_vma=False))(spread(whole))

        name = np.dtype(dtype).name
        summed = parts.astype(np.float32).sum(0).astype(dtype)
        same(f"psum {name}", run(lambda x: jax.lax.psum(x, "ranks"), P()), summed)
        same(f"pmax {name}", run(lambda x: jax.lax.pmax(x, "ranks"), P()), parts.max(0))
        same(f"all_gather {name}", run(lambda x: jax.lax.all_gather(x, "ranks", tiled=True), P()), whole)
        same(f"psum_scatter {name}", run(lambda x: jax.lax.psum_scatter(x, "ranks", tiled=True)), summed)
        same(f"all_to_all {name}", run(lambda x: jax.lax.all_to_all(x, "ranks", 0, 0, tiled=True)), parts.transpose(1, 0, 2).reshape(whole.shape))
        ring = [(of, (of + 1) % size) for of in range(size)]
        same(f"ppermute {name}", run(lambda x: jax.lax.ppermute(x, "ranks", ring)), np.roll(parts, 1, 0).reshape(whole.shape))


def meshes():
    """Rows and columns of a mesh are communicators of their own."""
    grid = Mesh(np.array(jax.devices()).reshape(-1, 2), ("rows", "columns"))
    whole = np.arange(size * 1000, dtype=np.float32).reshape(size, 1000)
    cells = whole.reshape(-1, 2, 1000)
    placed = jax.make_array_from_callback(whole.shape, NamedSharding(grid, P(("rows", "columns"))), lambda index: whole[index])

    def run(function):
        return jax.jit(shard_map(function, mesh=grid, in_specs=P(("rows", "columns")), out_specs=P(("rows", "columns")), check_vma=False))(placed)

    same("psum over rows", run(lambda x: jax.lax.psum(x, "rows")), np.broadcast_to(cells.sum(0), cells.shape).reshape(whole.shape))
    same("psum over columns", run(lambda x: jax.lax.psum(x, "columns")), np.broadcast_to(cells.sum(1, keepdims=True), cells.shape).reshape(whole.shape))
    both = run(lambda x: jax.lax.psum(x, "rows") + 2 * jax.lax.psum(x, "columns"))
    same("psum over each", both, (cells.sum(0) + 2 * cells.sum(1, keepdims=True)).reshape(whole.shape))


def training():
    keys = jax.random.split(jax.random.key(1), 4)
    layers = [jax.random.normal(key, (256, 256)) / 16 for key in keys]
    data = spread(np.asarray(jax.random.normal(jax.random.key(2), (64 * size, 256)), np.float32))

    def loss(layers, data):
        x = data
        for layer in layers:
            x = jnp.tanh(x @ layer)
        return jnp.mean((x - data) ** 2)

    @jax.jit
    def step(layers, data):
        value, slopes = jax.value_and_grad(loss)(layers, data)
        return value, [layer - 0.1 * slope for layer, slope in zip(layers, slopes)]

    for turn in range(20):
        if turn == 10 and sys.argv[1:] == ["killed"] and rank == size - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        value, layers = step(layers, data)
    print(f"loss {float(value):.5f}", flush=True)


collectives()
if size % 2 == 0:
    meshes()
training()
sys.stdout.flush()
