"""The Python and the platform that a bundle is for."""

import functools
import re
import sys
from dataclasses import dataclass

from packaging import tags

from core.base.errors import InputError

# manylinux2014 and its kin have a newer name, with the version of glibc.
OLDER_NAMES = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
LOWEST_GLIBC = min(OLDER_NAMES)
# Name of a platform -> what markers of requirements call its system: sys.platform,
# platform.system(), os.name.
SYSTEMS = {
    "manylinux": ("linux", "Linux", "posix"),
    "macosx": ("darwin", "Darwin", "posix"),
    "win": ("win32", "Windows", "nt"),
}


@dataclass(frozen=True)
class Target:
    """Where a bundle will predict.

    Attributes:
        python: version of Python, "3.11".
        platform: as pip names it, "manylinux_2_28_x86_64".
    """

    python: str
    platform: str

    @functools.cached_property
    def platforms(self) -> list[str]:
        """The platform, and the older ones whose wheels it runs too, for pip."""
        family, version, machine = split_platform(self.platform)
        if family == "manylinux":
            glibc = int(version.rpartition("_")[2])
            names = [
                name
                for minor in range(glibc, LOWEST_GLIBC - 1, -1)
                for name in (f"manylinux_2_{minor}", OLDER_NAMES.get(minor))
                if name
            ]
            return [f"{name}_{machine}" for name in names]
        if family == "macosx":
            major, minor = map(int, version.split("_"))
            return [*tags.mac_platforms((major, minor), machine)]
        return [self.platform]

    @functools.cached_property
    def tags(self) -> frozenset[tags.Tag]:
        """The tags of the wheels that can be installed there."""
        version = tuple(map(int, self.python.split(".")))
        short = self.python.replace(".", "")
        own = tags.cpython_tags(version, platforms=self.platforms)
        return frozenset(own) | {*tags.compatible_tags(version, f"cp{short}", self.platforms)}

    @functools.cached_property
    def markers(self) -> dict[str, str]:
        """What markers of requirements ask for: `sys_platform == "linux"`."""
        family, _, machine = split_platform(self.platform)
        system, long_name, kind = SYSTEMS[family]
        return {
            "python_version": self.python,
            "python_full_version": f"{self.python}.0",
            "implementation_version": f"{self.python}.0",
            "sys_platform": system,
            "platform_system": long_name,
            "platform_machine": "AMD64" if family == "win" else machine,
            "os_name": kind,
        }


def split_platform(name: str) -> tuple[str, str, str]:
    """Return family, version and machine of a platform: manylinux, 2_17 and x86_64.

    Raises:
        InputError: pip knows no such platform.
    """
    newer = {f"{older}_": f"manylinux_2_{minor}_" for minor, older in OLDER_NAMES.items()}
    for older, newest in newer.items():
        name = name.replace(older, newest)
    if found := re.fullmatch(r"(manylinux|macosx)_(\d+_\d+)_(\w+)", name):
        return found[1], found[2], found[3]
    if found := re.fullmatch(r"win_(\w+)", name):
        return "win", "", found[1]
    raise InputError(
        f"--platform {name} is unknown: write it as pip does, like manylinux_2_28_x86_64 or "
        "manylinux2014_x86_64."
    )


def make_target(python: str, platform: str) -> Target:
    """Return the target that the command line asks for.

    Raises:
        InputError: no such Python or platform.
    """
    if not re.fullmatch(r"3\.\d+", python):
        raise InputError(f"--python {python} is not a version of Python: write it like 3.11.")
    split_platform(platform)
    return Target(python, platform)


def version_here() -> str:
    """Return the version of this Python: 3.11."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"
