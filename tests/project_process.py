"""Run many commands of a project in one process: importing its modules takes time, too."""

import contextlib
import errno
import importlib
import io
import multiprocessing
import os
import runpy
import sys
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from forked_scripts import fork, settle


@dataclass
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str


class ProjectProcess:
    """A process with a project's folder as its current one."""

    def __init__(self, project: Path):
        self.project = project
        self.connection, theirs = multiprocessing.Pipe()
        self.process = fork(serve, str(project), theirs)
        theirs.close()

    def run(self, script: str, *arguments: str, full_disk: bool = False) -> Done:
        """Run a script of the project as `python script arguments` would."""
        command = [str(self.project / script), *map(str, arguments)]
        self.connection.send((command, full_disk))
        return Done(*self.connection.recv())

    def stop(self) -> None:
        """End the process."""
        self.connection.close()
        self.process.join(timeout=300)


def serve(project: str, connection: Connection) -> None:
    """Run commands until none is sent."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.chdir(project)
    settle(project)
    importlib.import_module("core.step")
    sync = os.fsync
    os._exit = sys.exit  # the next command is this process's, too
    with contextlib.suppress(EOFError):
        while True:
            command, full_disk = connection.recv()
            os.fsync = refuse if full_disk else sync
            connection.send(run_command(command))


def refuse(descriptor: int) -> None:
    """Do as a full disk does."""
    raise OSError(errno.ENOSPC, "No space left on device")


def run_command(command: list[str]) -> tuple[int, str, str]:
    """Return the exit code of a script, and what it printed."""
    sys.argv, code = command, 0
    with contextlib.redirect_stdout(io.StringIO()) as out:
        with contextlib.redirect_stderr(io.StringIO()) as err:
            try:
                runpy.run_path(command[0], run_name="__main__")
            except SystemExit as ending:
                # As the interpreter does it: a text is printed, and means 1.
                code = ending.code or 0
                if isinstance(code, str):
                    print(code, file=sys.stderr)
                    code = 1
            except BaseException:
                traceback.print_exc()
                code = 1
    return code, out.getvalue(), err.getvalue()
