"""Try a cluster out: run a script of this project in several processes on this machine.

python extras/cluster/launch.py --workers 2 train.py [--KEY VALUE ...]
python extras/cluster/launch.py --workers 2 --servers 1 train.py --strategy parameter_server

If a process dies that the others need, all end. If this process is killed, all end too.
"""

import argparse
import contextlib
import json
import os
import queue
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A worker that receives SIGTERM writes its checkpoint first.
PATIENCE_SECONDS = 30
GUARD = "--guard"


class ToldToEnd(Exception):
    """A scheduler ends only this process, so it must end the others."""


def raise_told_to_end(number: int, frame: object) -> None:
    """Interrupt the current work, once."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise ToldToEnd


@dataclass
class Member:
    """One process of a cluster.

    Attributes:
        role: its name in TF_CONFIG.
        index: within its role.
        label: prefix of its lines.
        process: the running process.
    """

    role: str
    index: int
    label: str
    process: Any = None

    @property
    def name(self) -> str:
        return f"{self.role} {self.index}"


def launch(command: Sequence[str], workers: int, servers: int = 0) -> int:
    """Run a command in several processes; prefix each printed line with the process's name.

    Args:
        command: a script with its arguments.
        workers: number of processes that train.
        servers: number of processes that hold the weights, besides a chief; 0: all workers are
            equal and hold all weights.

    Returns:
        The exit code of the first failed process, or 0.
    """
    counts = {"chief": 1, "worker": workers, "ps": servers} if servers else {"worker": workers}
    members = [
        Member(role, index, f"{role} {index}" if servers else str(index))
        for role, count in counts.items()
        for index in range(count)
    ]
    ports = free_ports(len(members))
    cluster: dict[str, list[str]] = {role: [] for role in counts}
    for member, port in zip(members, ports, strict=True):
        cluster[member.role].append(f"localhost:{port}")
    with start_guard() as guard:
        try:
            return run_members(members, command, cluster, guard)
        finally:
            tell_guard(guard, [])


def run_members(
    members: Sequence[Member], command: Sequence[str], cluster: dict, guard: subprocess.Popen
) -> int:
    """Start all processes of a cluster and wait for their end; return the exit code."""
    ended: queue.Queue[Member] = queue.Queue()

    def begin(member: Member) -> None:
        start(member, command, cluster, ended)
        tell_guard(guard, members)

    for member in members:
        begin(member)
    signal.signal(signal.SIGTERM, raise_told_to_end)
    try:
        return wait_for_all(members, ended, begin)
    except ToldToEnd:
        end_all(members, signal.SIGTERM)
        return next((exit_code(m.process.returncode) for m in members if m.process.returncode), 0)
    except KeyboardInterrupt:
        end_all(members, signal.SIGINT)
        return 130


def start_guard() -> subprocess.Popen:
    """Start the process that ends the workers if this process is killed.

    It watches a pipe, which closes with its writer on Linux and macOS; prctl exists only on Linux.
    A thread of a worker can't do it, because TensorFlow holds Python's lock while it joins the
    others.
    """
    return subprocess.Popen(
        [sys.executable, __file__, GUARD],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # a kill of the launcher's group leaves the guard alive
    )


def tell_guard(guard: subprocess.Popen, members: Sequence[Member]) -> None:
    """Tell the guard which processes run now; it ends the latest ones."""
    with contextlib.suppress(OSError):  # the guard was killed; the members don't need it
        print(*(m.process.pid for m in members if m.process), file=guard.stdin, flush=True)


def guard_members() -> None:
    """Read process ids, one line per change; when the pipe closes, end the latest ones."""
    lines = sys.stdin.read().splitlines()
    alive = {int(pid) for pid in lines[-1].split()} if lines else set()
    send_all(alive, signal.SIGTERM)
    until = time.monotonic() + PATIENCE_SECONDS
    while alive and os.name == "posix":  # on other systems SIGTERM has ended them at once
        time.sleep(0.1)
        send_all(alive, signal.SIGKILL if time.monotonic() > until else 0)


def send_all(alive: set[int], number: int) -> None:
    """Send a signal to processes (0: no signal); forget those that are gone."""
    for pid in tuple(alive):
        try:
            os.kill(pid, number)
        except OSError:
            alive.remove(pid)


def wait_for_all(
    members: Sequence[Member], ended: queue.Queue, restart: Callable[[Member], None]
) -> int:
    """Return the exit code of the first process that failed, or 0, when all have ended.

    Args:
        members: the running ones.
        ended: receives each one that ends.
        restart: starts a member again, for workers that the others don't need all the time.
    """
    chief = next((member for member in members if member.role == "chief"), None)
    code, running = None, len(members)
    while running:
        member = ended.get()
        status = member.process.returncode
        if code is None and chief and status and member.role == "worker":
            print(f"{member.name} ended with exit code {exit_code(status)}: starting it again")
            restart(member)
            continue
        running -= 1
        if code is None and (status or member is chief):
            code = exit_code(status)
            if status:
                print(f"{member.name} ended with exit code {code}: ending all", file=sys.stderr)
            end_all(members, signal.SIGTERM)
    return code or 0


def exit_code(status: int) -> int:
    """Return the exit code as a shell counts it: 128 + the signal that ended a process."""
    return status if status >= 0 else 128 - status


# Outgoing connections have higher ports, and could take one of those before a process does.
PORTS = range(10_000, 30_000)


def free_ports(count: int) -> list[int]:
    """Return free ports of this machine.

    Raises:
        OSError: too few are free.
    """
    ports: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("localhost", port))
            ports.append(port)
        if len(ports) == count:
            return ports
    raise OSError(f"fewer than {count} ports from {PORTS[0]} to {PORTS[-1]} are free")


def start(member: Member, command: Sequence[str], cluster: dict, ended: queue.Queue) -> None:
    """Start one process of a cluster."""
    config = {"cluster": cluster, "task": {"type": member.role, "index": member.index}}
    member.process = subprocess.Popen(
        [sys.executable, "-u", *command],
        env={**os.environ, "TF_CONFIG": json.dumps(config)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    threading.Thread(target=watch, args=(member, ended), daemon=True).start()


def watch(member: Member, ended: queue.Queue) -> None:
    """Forward the output of a process line by line, and record its end."""
    for line in member.process.stdout:
        # Write whole lines in one call, so that lines of processes don't mix.
        sys.stdout.buffer.write(b"[%s] %s" % (member.label.encode(), line))
        sys.stdout.buffer.flush()
    member.process.wait()
    ended.put(member)


def end_all(members: Sequence[Member], how: signal.Signals) -> None:
    """Send SIGTERM to all processes; kill those that don't end."""
    for member in members:
        if member.process.poll() is None:
            member.process.send_signal(how)
    for member in members:
        try:
            member.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            member.process.kill()
            member.process.wait()


def find_script(name: str) -> str:
    """Return the path of a script, relative to the current folder or the project."""
    here = Path(name)
    return str(here if here.is_file() else Path(__file__).resolve().parents[2] / name)


def main() -> None:
    """Start the workers, wait for them, and end with the exit code of the first that failed."""
    if sys.argv[1:] == [GUARD]:
        guard_members()
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--servers", type=int, default=0, help="parameter servers, and a chief")
    parser.add_argument("script", help="train.py, evaluate.py or predict.py")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what follows the script")
    asked = parser.parse_args()
    if asked.workers < 1 or asked.servers < 0:
        parser.error("--workers must be 1 or more, --servers 0 or more.")
    command = [find_script(asked.script), *asked.arguments]
    sys.exit(launch(command, asked.workers, asked.servers))


if __name__ == "__main__":
    main()
