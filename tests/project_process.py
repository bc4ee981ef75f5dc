"""Run many commands of a project in one process: importing TensorFlow takes seconds."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SERVER = """
import contextlib, errno, io, json, os, runpy, sys, traceback
import common.training  # imports TensorFlow, once
answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
sync = os.fsync

def full_disk(descriptor):
    raise OSError(errno.ENOSPC, "No space left on device")

for line in sys.stdin:
    question = json.loads(line)
    sys.argv = question["command"]
    os.fsync = full_disk if question["full_disk"] else sync
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        except SystemExit as ending:
            # As the interpreter does it: a text is printed, and means 1.
            code = ending.code or 0
            if isinstance(code, str):
                print(code, file=sys.stderr)
                code = 1
        except BaseException:
            traceback.print_exc()
            code = 1
    print(json.dumps([code, out.getvalue(), err.getvalue()]), file=answers, flush=True)
"""


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
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            cwd=project,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            env={**os.environ, "PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(project)},
        )

    def run(self, script: str, *arguments: str, full_disk: bool = False) -> Done:
        """Run a script of the project as `python script arguments` would."""
        command = [str(self.project / script), *map(str, arguments)]
        question = {"command": command, "full_disk": full_disk}
        print(json.dumps(question), file=self.process.stdin, flush=True)
        return Done(*json.loads(self.process.stdout.readline()))

    def stop(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()
