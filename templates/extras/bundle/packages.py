"""The packages that prediction needs, with all that those need, in the versions of the training."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from core.base.errors import InputError
from core.runs.scores import read_scores
from extras.bundle.target import Target


@dataclass(frozen=True)
class Package:
    """One package of a lock.

    Attributes:
        name: in the form that pip compares.
        version: of the training, or the installed one.
        needs: its requirements, as its metadata has them.
    """

    name: str
    version: str
    needs: Sequence[str]


@dataclass
class Lock:
    """The versions of all packages that some requirements need.

    Attributes:
        packages: by name, in the order of finding.
        conflicts: sentences about versions that another package does not allow.
    """

    packages: dict[str, Package] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the lock as pip reads it: a line for each package."""
        lines = sorted(f"{one.name}=={one.version}\n" for one in self.packages.values())
        return "".join(lines)


def read_requirements(file: Path) -> list[Requirement]:
    """Return the requirements of a file.

    Raises:
        InputError: a line is none.
    """
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        line = line.partition("#")[0].strip()
        if line:
            try:
                found.append(Requirement(line))
            except InvalidRequirement as error:
                raise InputError(
                    f"{file}, line {number}: {line!r} is no plain requirement: write the name of a "
                    "package and its versions."
                ) from error
    return found


def wanted_requirements(project: Path, extras: Iterable[str]) -> list[Requirement]:
    """Return what a project and some of its extras ask for and is installed here.

    Predictions here do without the others, such as what only some encoders need.
    """
    places = [project, *(project / "extras" / name for name in extras)]
    files = [place / "requirements.txt" for place in places]
    every = [one for file in files if file.is_file() for one in read_requirements(file)]
    return [one for one in every if installed_version(one.name)]


def installed_version(name: str) -> str | None:
    """Return the version of a package here; None: it is not installed."""
    try:
        return distribution(name).version
    except PackageNotFoundError:
        return None


def trained_versions(folders: Iterable[Path]) -> dict[str, str]:
    """Return package -> version that some runs were trained with; `python` is among them.

    Raises:
        InputError: two runs were trained with different versions.
    """
    versions: dict[str, str] = {}
    for folder in folders:
        for name, version in read_scores(folder).get("versions", {}).items():
            known = versions.setdefault(canonicalize_name(name), version)
            if known != version and name != "python":
                raise InputError(
                    f"{folder.name} was trained with {name} {version}, another run with {known}: "
                    "bundle runs of the same versions."
                )
    return versions


def find_installed(requirement: Requirement, version: str | None) -> Package | None:
    """Return a package as it is installed here; None: it is not installed.

    Args:
        requirement: that names it.
        version: of the training; None: the installed one.
    """
    name = canonicalize_name(requirement.name)
    here = installed_version(name)
    if here is None:
        return None
    return Package(name, version or here, distribution(name).requires or [])


@dataclass(frozen=True)
class Asked:
    """The packages that a bundle needs.

    Attributes:
        requirements: to begin with.
        target: whose markers count.
        versions: that the runs were trained with, by package.
        left_out: names of packages that the host has.
    """

    requirements: Sequence[Requirement]
    target: Target
    versions: dict[str, str]
    left_out: frozenset[str] = frozenset()

    def text(self) -> str:
        """Return the first requirements as pip reads them."""
        return "".join(f"{one}\n" for one in self.requirements)

    def lock(
        self,
        find: Callable[[Requirement, str | None], Package | None] = find_installed,
        everything: bool = False,
    ) -> Lock:
        """Return all packages that the requirements need on the target.

        Args:
            find: from a requirement and the version of the training to a package; None: there is
                none, and what it needs is not known.
            everything: those left out too, and what only they need.
        """
        lock, known = Lock(), set()
        waiting = [("the project", one, frozenset({""})) for one in self.requirements]
        while waiting:
            parent, requirement, extras = waiting.pop(0)
            name = canonicalize_name(requirement.name)
            left_out = name in self.left_out and not everything
            if left_out or not applies(requirement, self.target, extras):
                continue
            package = lock.packages.get(name) or find(requirement, self.versions.get(name))
            if package is None:
                continue
            lock.packages[name] = package
            if not requirement.specifier.contains(package.version, prereleases=True):
                lock.conflicts.append(f"{parent} needs {requirement}, locked is {package.version}")
            asked = frozenset({"", *requirement.extras})
            if (name, asked) not in known:
                known.add((name, asked))
                waiting += [(name, Requirement(one), asked) for one in package.needs]
        return lock


def applies(requirement: Requirement, target: Target, extras: Collection[str]) -> bool:
    """Return whether the marker of a requirement holds on a target, for one of some extras."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({**target.markers, "extra": e}) for e in extras)
