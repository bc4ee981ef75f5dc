"""The list of baselines, from baselines.toml."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from generator.errors import InputError


@dataclass(frozen=True)
class Baseline:
    """One baseline: a template, the answers and settings that differ, its data and seeds.

    `local_files` are those of data that no data set of this repository is: whoever reproduces the
    baseline names a folder that holds them.
    `from_scratch` is the baseline of the same data whose encoder was not pre-trained.
    `published` are scores that others report on its data set.
    """

    name: str
    template: str
    answers: dict[str, str] = field(default_factory=dict)
    settings: dict[str, object] = field(default_factory=dict)
    data_set: str | None = None
    local_files: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (1,)
    from_scratch: str | None = None
    published: tuple[dict, ...] = ()

    def folder(self, root: Path) -> Path:
        """Return the baseline's folder in a repository."""
        return root / "baselines" / self.name


def read_baselines(root: Path) -> dict[str, Baseline]:
    """Read generator/baselines.toml of a repository.

    Raises:
        InputError: the file is broken.
    """
    path = root / "generator" / "baselines.toml"
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
        return {name: Baseline(name=name, **as_tuples(entry)) for name, entry in entries.items()}
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise InputError(f"{path} is broken ({error}): mend that entry.") from error


def as_tuples(entry: dict) -> dict:
    """Return an entry whose lists can't change."""
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()
    }


def find_baselines(root: Path, names: list[str] | None = None) -> list[Baseline]:
    """Return the named baselines, or all.

    Raises:
        InputError: there is no baseline of that name.
    """
    known = read_baselines(root)
    for name in names or []:
        if name not in known:
            raise InputError(f"there is no baseline {name!r}: the names are {', '.join(known)}.")
    return [known[name] for name in names or known]
