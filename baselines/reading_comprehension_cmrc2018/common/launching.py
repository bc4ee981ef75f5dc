"""Start the workers of a cluster as processes of this machine, and end all when one dies."""

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

# A worker that is told to end writes its checkpoint first.
PATIENCE_SECONDS = 30


def launch(command: Sequence[str], workers: int) -> int:
    """Run a command in several processes; each line they print begins with the worker's number.

    Args:
        command: a script and what follows it.
        workers: processes.

    Returns:
        The exit code of the first that failed, or 0.
    """
    addresses = [f"localhost:{port}" for port in free_ports(workers)]
    processes = [start(command, addresses, index) for index in range(workers)]
    ended: queue.Queue[int] = queue.Queue()
    for index, process in enumerate(processes):
        threading.Thread(target=watch, args=(index, process, ended), daemon=True).start()
    code = 0
    try:
        for _ in processes:
            index = ended.get()
            failed = processes[index].returncode
            if failed and not code:
                code = failed if failed > 0 else 128 - failed
                print(f"worker {index} ended with exit code {code}: ending all", file=sys.stderr)
                end_all(processes, signal.SIGTERM)
    except KeyboardInterrupt:
        end_all(processes, signal.SIGINT)
        code = 130
    return code


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("localhost", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def start(command: Sequence[str], addresses: list[str], index: int) -> subprocess.Popen:
    """Start one worker."""
    cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    return subprocess.Popen(
        [sys.executable, "-u", *command],
        env={**os.environ, "TF_CONFIG": json.dumps(cluster)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def watch(index: int, process: subprocess.Popen, ended: queue.Queue) -> None:
    """Pass on what a worker prints, line by line, and note its end."""
    for line in process.stdout:
        # Whole lines, in one call: those of other workers do not fall between.
        sys.stdout.buffer.write(b"[%d] %s" % (index, line))
        sys.stdout.buffer.flush()
    process.wait()
    ended.put(index)


def end_all(processes: Sequence[subprocess.Popen], how: signal.Signals) -> None:
    """Tell all workers to end; kill those that do not."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(how)
    for process in processes:
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def find_script(name: str) -> str:
    """Return the path of a script; it may be named from the current folder or the project's."""
    here = Path(name)
    return str(here if here.is_file() else Path(__file__).resolve().parents[1] / name)
