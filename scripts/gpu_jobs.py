"""gpu_jobs.py: the ranks of a job of Python programs, a process each, on libginrs or on the NCCL that the programs bring. Imported by gpu-pytorch.py,
gpu-bench-pytorch.py and gpu-python.py.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# Preloaded by that name, which is how an application with a library path of its own takes it.
LIBRARY = os.path.join(HERE, "../build/gpu/lib/libnccl.so.2")
ON_GINRS = {"LD_PRELOAD": os.path.abspath(LIBRARY)}
# NVLink multicast is off, in NVIDIA's library and PyTorch, too.
ALWAYS = {"NCCL_NVLS_ENABLE": 0, "TORCH_SYMM_MEM_DISABLE_MULTICAST": 1, "PYTHONFAULTHANDLER": 1, "MASTER_ADDR": "127.0.0.1"}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run(program, ranks, variables, options=(), limit=180):
    """All ranks of one job of abi-tests/PROGRAM: exit statuses, and what each printed and said on stderr. Who does not end in `limit` seconds says where it is."""
    with tempfile.TemporaryDirectory() as folder:
        shared = ALWAYS | {"WORLD_SIZE": ranks, "MASTER_PORT": free_port(), "JOB_FOLDER": folder} | variables
        jobs = []
        for rank in range(ranks):
            own = {"RANK": rank, "LOCAL_RANK": 0 if "GINRS_SHARE_DEVICE" in variables else rank}
            environment = os.environ | {name: str(value) for name, value in (shared | own).items()}
            command = [sys.executable, os.path.join(HERE, "../abi-tests", program), *map(str, options)]
            jobs.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        printed, said = [], []
        for rank, job in enumerate(jobs):
            try:
                out, err = job.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                [other.send_signal(signal.SIGABRT) for other in jobs]
                out, err = job.communicate()
                err += f"\nrank {rank} did not end in {limit} s"
            printed.append(out)
            said.append(err)
        return [job.returncode for job in jobs], printed, said
