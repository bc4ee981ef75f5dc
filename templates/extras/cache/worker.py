"""A process that calls one function again and again, for the process that started it.

It is started as a script, reads pickles from its input until that ends, as it does when the other
process is killed, and writes pickles to its output. TensorFlow is not loaded unless something needs
it: no encoding does, and that would take longer than a small file.
"""

import importlib.util
import os
import pickle
import sys
from types import ModuleType
from typing import Any, BinaryIO

LATER = ("tensorflow", "keras")


def main() -> None:
    """Read the path of modules and the function, then one argument after the other."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints is no answer
    requests = sys.stdin.buffer
    sys.path[:] = pickle.load(requests)
    load_later()
    serve(pickle.load(requests), requests, answers)


class Later(ModuleType):
    """A module that is loaded when something of it is asked for, and not by its import."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # which an import asks for
            raise AttributeError(name)
        del sys.modules[self.__name__]
        spec = importlib.util.find_spec(self.__name__)
        assert spec and spec.loader
        sys.modules[self.__name__] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, name)


def load_later() -> None:
    """Let the modules of `LATER` be loaded when something needs them."""
    sys.modules.update({name: Later(name) for name in LATER})


def serve(function: Any, requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer each argument with the result, or with the exception."""
    while True:
        try:
            argument = pickle.load(requests)
        except EOFError:
            return
        try:
            answer = (function(argument), None)
        except Exception as error:
            answer = (None, error)
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
