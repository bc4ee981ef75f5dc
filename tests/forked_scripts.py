"""Run scripts in forks of one process that has imported TensorFlow: each import takes seconds."""

import _imp
import atexit
import gc
import hashlib
import importlib.machinery
import io
import marshal
import multiprocessing
import multiprocessing.connection
import multiprocessing.context
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import CodeType

# What projects import of others; none of it starts a thread that a fork would miss.
IMPORTED = ["tensorflow", "keras_hub", "sklearn.linear_model", "sacrebleu"]
IMPORTED += ["pydantic_settings", "sklearn.model_selection", "scipy.stats", "rich.table", "jinja2"]
IMPORTED += ["tokenizers", "networkx", "pytest", "sklearn.pipeline", "jsonlines", "filelock"]
IMPORTED += ["safetensors", "tensorboard.summary", "fsspec", "rjieba"]
TESTS = os.path.dirname(os.path.abspath(__file__))
# The folder of what forks have compiled; its name is in the environment of all of them.
COMPILED = "TESTS_COMPILED"
# As launch.py has it: a worker that is told to end may wait for one that is gone.
PATIENCE_SECONDS = 20


def fork(function: Callable, *arguments) -> multiprocessing.Process:
    """Start a process that calls a function; without forks it imports all by itself."""
    if COMPILED not in os.environ:
        os.environ[COMPILED] = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, os.environ[COMPILED], ignore_errors=True)
    context = multiprocessing.get_context("spawn" if sys.platform == "win32" else "forkserver")
    if sys.platform != "win32":
        context.set_forkserver_preload(IMPORTED)
    process = context.Process(target=function, args=arguments)
    process.start()
    return process


def run_forked(
    arguments: list[str], cwd: Path, environments: list[dict[str, str]]
) -> list[subprocess.CompletedProcess]:
    """Run a script as `python script arguments` would, once or several times at once.

    When one fails, the others are told to end.

    Args:
        arguments: the script and what follows it.
        cwd: where it runs.
        environments: what is added to that of the tests, for each process.
    """
    return run_together([(arguments, cwd, environment) for environment in environments])


def run_together(
    commands: list[tuple[list[str], Path, dict[str, str]]],
) -> list[subprocess.CompletedProcess]:
    """Run scripts at once, each with arguments, folder and environment of its own."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [
            [os.path.join(folder, f"{name}_{number}") for name in ("out", "err")]
            for number in range(len(commands))
        ]
        processes = [
            fork(become, arguments, str(cwd), environment, own)
            for (arguments, cwd, environment), own in zip(commands, paths, strict=True)
        ]
        wait_for_all(processes)
        texts = [
            [Path(path).read_text(encoding="utf-8", errors="replace") for path in own]
            for own in paths
        ]
    return [
        subprocess.CompletedProcess(arguments, process.exitcode, *own)
        for process, (arguments, *_), own in zip(processes, commands, texts, strict=True)
    ]


def wait_for_all(processes: list[multiprocessing.Process]) -> None:
    """Wait until all have ended; those that are left when one fails are ended."""
    running, patience = {process.sentinel: process for process in processes}, None
    while running:
        ended = multiprocessing.connection.wait(running, patience)
        for process in [running.pop(sentinel) for sentinel in ended]:
            process.join()
            if process.exitcode:
                patience = PATIENCE_SECONDS
                for other in running.values():
                    other.terminate()
        for process in running.values() if not ended else ():
            process.kill()


def become(arguments: list[str], cwd: str, environment: dict[str, str], paths: list[str]) -> None:
    """Make this fork what a new Python would be, and run the script."""
    write_to(paths)
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(open(number, "wb", closefd=False), "utf-8", write_through=True)
        for number in (1, 2)
    )
    os.chdir(cwd)
    os.environ.update(environment)
    settle(os.path.dirname(os.path.abspath(arguments[0])))
    Forked.paths = paths
    sys.argv = arguments
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    finally:
        atexit._run_exitfuncs()  # an interpreter that ends does; a fork of multiprocessing does not


def write_to(paths: list[str]) -> None:
    """Append what this process prints, and its errors, to files."""
    for number, path in enumerate(paths, start=1):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, number)
        os.close(descriptor)


class Forked(multiprocessing.context.ForkServerProcess):
    """What a script starts in a new Python: another fork, with the script's environment."""

    paths = [os.devnull, os.devnull]

    def __init__(self, *arguments, **options) -> None:
        super().__init__(*arguments, **options)
        self.inherited = dict(os.environ), self.paths

    @staticmethod
    def _Popen(process):
        sys.path.append(TESTS)  # of the new process, which has to find this class
        try:
            return multiprocessing.context.ForkServerProcess._Popen(process)
        finally:
            sys.path.remove(TESTS)

    def run(self) -> None:
        sys.path.remove(TESTS)
        environment, paths = self.inherited
        os.environ.update(environment)
        write_to(paths)
        super().run()


class ForkedContext(multiprocessing.context.ForkServerContext):
    """Takes the place of `spawn` in scripts that are run in forks."""

    Process = Forked


COMPILE = importlib.machinery.SourceFileLoader.source_to_code


def compile_once(loader, data: bytes, path: str, **options) -> CodeType:
    """Return the code of a module; forks compile a text once, in however many projects it is."""
    if path.endswith(os.path.join("core", "runs", "code_hash.py")):
        data += HASH_ONCE
    kept = Path(os.environ[COMPILED], hashlib.sha256(data).hexdigest())
    if kept.is_file():
        code = marshal.loads(kept.read_bytes())
        _imp._fix_co_filename(code, path)
        return code
    code = COMPILE(loader, data, path, **options)
    write_at_once(kept, marshal.dumps(code))
    return code


# Each training asks for the hashes of all its modules, which takes longer than its other imports.
HASH_ONCE = b"""
import forked_scripts
hash_of_code = forked_scripts.hash_once(hash_of_code)
"""


def hash_once(hash_of_code: Callable[[bytes], str]) -> Callable[[bytes], str]:
    """Return a function that finds the hash of a text once for all forks."""

    def found(code: bytes) -> str:
        kept = Path(os.environ[COMPILED], f"{hashlib.sha256(code).hexdigest()}.hash")
        if not kept.is_file():
            write_at_once(kept, hash_of_code(code).encode())
        return kept.read_bytes().decode()

    return found


def write_at_once(path: Path, content: bytes) -> None:
    """Write a file that other processes may read at any time."""
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    with open(descriptor, "wb") as file:
        file.write(content)
    os.replace(name, path)


def settle(folder: str) -> None:
    """Import from a folder and what is installed, as a Python that runs a script there."""
    sys.dont_write_bytecode = True
    importlib.machinery.SourceFileLoader.source_to_code = compile_once
    if sys.platform != "win32":
        multiprocessing.context._concrete_contexts["spawn"] = ForkedContext()
    gc.disable()  # what a test leaves behind is less than what looking for it costs
    installed = [path for path in sys.path if path.startswith((sys.prefix, sys.base_prefix))]
    sys.path[:] = [folder, *installed]
