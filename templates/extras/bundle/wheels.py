"""The wheels of a bundle: pip fetches each once, however often the command is interrupted."""

import contextlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from email import message_from_string
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name, parse_wheel_filename
from tqdm import tqdm

from core.base.errors import InputError
from core.base.files import TEMPORARY
from extras.bundle.packages import Package, installed_version
from extras.bundle.target import Target

PIP = "pip"
AT_ONCE = 8  # wheels that pip fetches together: what an interruption can lose


class Wheels:
    """A folder of wheels for one target, filled by pip.

    pip's own configuration says where packages come from. A wheel is in the folder whole or not at
    all, and is not fetched twice.

    Args:
        folder: of the wheels; an interrupted command leaves those that it has fetched.
        target: where they are installed.
        expected: the packages as they are installed here; another platform may need others.
    """

    def __init__(self, folder: Path, target: Target, expected: Sequence[Package]) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.target = folder, target
        self.bar = tqdm(total=len(expected), desc="wheels", unit="wheel", leave=False)
        self.fetch_together(expected)
        self.bar.reset()

    def fetch_together(self, expected: Sequence[Package]) -> None:
        """Let pip fetch several wheels at once, which saves most of its time.

        Those that have no wheel are left to `find`, which says so.
        """
        missing = [
            f"{one.name}=={one.version}"
            for one in expected
            if not self.there(one.name, SpecifierSet(f"=={one.version}"))
        ]
        self.bar.update(len(expected) - len(missing))
        for first in range(0, len(missing), AT_ONCE):
            group = missing[first : first + AT_ONCE]
            self.bar.set_postfix_str(group[0])
            with self.download(group) as (made, _):
                self.keep(made)
            self.bar.update(len(group))

    def find(self, requirement: Requirement, version: str | None) -> Package:
        """Return the package of a wheel, which is fetched unless it is there.

        Args:
            requirement: that names the package.
            version: to fetch; None: the installed one, or the newest that the requirement allows.

        Raises:
            InputError: there is no such wheel for the target, or pip can't reach it.
        """
        name = canonicalize_name(requirement.name)
        version = version or installed_version(name)
        asked = SpecifierSet(f"=={version}") if version else requirement.specifier
        self.bar.set_postfix_str(f"{name}{asked}")
        wheel = self.there(name, asked) or self.fetch(name, str(asked))
        self.bar.update()
        return read_package(wheel)

    def there(self, name: str, asked: SpecifierSet) -> Path | None:
        """Return the wheel of a package if the folder has it."""
        for path in sorted(self.folder.glob("*.whl")):
            own, version, _, tags = parse_wheel_filename(path.name)
            fits = own == name and asked.contains(version, prereleases=True)
            if fits and not tags.isdisjoint(self.target.tags):
                return path
        return None

    def fetch(self, name: str, asked: str) -> Path:
        """Let pip fetch a wheel; a pure package that has none is built from its source.

        Raises:
            InputError: as in `find`.
        """
        with self.download([f"{name}{asked}"]) as (made, said):
            if said and is_pure(name):
                words = ["wheel", "--no-deps", "--wheel-dir", str(made), f"{name}{asked}"]
                said = run_pip(words)
            if said:
                kept, target = len([*self.folder.glob("*.whl")]), self.target
                raise InputError(
                    f"pip finds no wheel of {name}{asked} for Python {target.python} on "
                    f"{target.platform} ({said}): name another --python, or a newer --platform if "
                    "the host has one, or run the same command again if the network failed. "
                    f"{kept} wheels are kept until then."
                )
            return self.keep(made)[0]

    @contextlib.contextmanager
    def download(self, asked: Sequence[str]) -> Iterator[tuple[Path, str]]:
        """Give a temporary folder of wheels that pip was asked for, and its error or nothing."""
        target = self.target
        where = ["--python-version", target.python, "--implementation", "cp"]
        where += [word for one in target.platforms for word in ("--platform", one)]
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=TEMPORARY) as folder:
            words = ["download", "--no-deps", "--only-binary", ":all:", "--dest", folder, *where]
            yield Path(folder), run_pip([*words, *asked])

    def keep(self, made: Path) -> list[Path]:
        """Move whole wheels into the folder; those of other versions or targets leave it."""
        kept = []
        for wheel in sorted(made.glob("*.whl")):
            name = parse_wheel_filename(wheel.name)[0]
            for older in self.folder.glob("*.whl"):
                if parse_wheel_filename(older.name)[0] == name:
                    older.unlink()
            kept.append(self.folder / wheel.name)
            os.replace(wheel, kept[-1])
        return kept

    def keep_only(self, names: set[str]) -> None:
        """Delete wheels of other packages, which an earlier command has fetched."""
        self.bar.close()
        for path in self.folder.glob("*.whl"):
            if parse_wheel_filename(path.name)[0] not in names:
                path.unlink()


def check_pip() -> None:
    """Check that pip is there, which not every environment has.

    Raises:
        InputError: it is not.
    """
    if importlib.util.find_spec(PIP) is None:
        raise InputError(
            "pip is not installed here, and fetches the wheels: python -m ensurepip, or leave them "
            "out with --no-wheels."
        )


def run_pip(words: list[str]) -> str:
    """Run pip; return its last error, empty if there was none."""
    command = [sys.executable, "-m", PIP, *words, "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
    return (errors or ["it failed"])[-1].removeprefix("ERROR: ") if done.returncode else ""


def is_pure(name: str) -> bool:
    """Return whether a package is installed here and has no compiled code."""
    try:
        about = distribution(name).read_text("WHEEL") or ""
    except PackageNotFoundError:
        return False
    return "Root-Is-Purelib: true" in about and "-none-any" in about


def read_package(wheel: Path) -> Package:
    """Return name, version and requirements from the metadata of a wheel.

    Raises:
        InputError: the wheel is damaged.
    """
    name, version, _, _ = parse_wheel_filename(wheel.name)
    try:
        with zipfile.ZipFile(wheel) as archive:
            [path] = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")][:1]
            about = message_from_string(archive.read(path).decode("utf-8"))
    except (zipfile.BadZipFile, ValueError) as error:
        raise InputError(f"{wheel} is damaged: delete it and run the command again.") from error
    return Package(name, str(version), about.get_all("Requires-Dist") or [])
