"""Versions of the templates: where they are found, and what they make of a project's answers."""

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generator import InputError
from generator.bake import MADE_BY_RUNS, ORIGIN_NOTE, SAMPLE, load_baking
from generator.files import CACHES, PROJECT_FOLDER, write_json, write_text
from generator.git import git, run_git

# What baking reads of a repository, of this version and of those before it.
BAKED = ("templates", "baselines", "generator", "cookiecutter.json")


@dataclass(frozen=True)
class Version:
    """The templates of one version, in a folder that baking may write into.

    Attributes:
        folder: a repository, as far as baking reads it.
        origin: what a project keeps of it: `version`, `address`, `commit`, perhaps `modified`.
    """

    folder: Path
    origin: dict[str, Any]

    @property
    def label(self) -> str:
        """The version and its commit, without blanks."""
        commit = self.origin["commit"][:12]
        return f"{self.origin['version']}{f'-{commit}' if commit else ''}"


def find_version(
    root: Path, named: str | None, commit: str, origin: dict[str, Any], to: Path
) -> Version:
    """Return a version of the templates.

    Args:
        root: the repository, or the copy of it in the installed package.
        named: what the user calls it: a folder, a release or a commit; None: it is `commit`.
        commit: a commit or a release; empty: the repository as it is.
        origin: of the project; its address has the versions that the repository lacks.
        to: a folder to create.

    Raises:
        InputError: there is no such version, or it can't be had.
    """
    if named and Path(named).is_dir():
        return copy_version(Path(named), to)
    wanted = named or commit
    if not wanted:
        return copy_version(root, to)
    own = load_baking(root / "templates").find_commit({})["address"]
    addresses = [*dict.fromkeys(filter(None, (own, origin["address"])))]
    places = [root] if (root / ".git").exists() else []
    found, address = look_up(places, wanted), own or origin["address"]
    for number, asked in enumerate(addresses if not found else ()):
        clone = to.parent / f"clone_{number}"
        if not clone.exists():
            git("clone", "--quiet", "--no-checkout", asked, clone, users_own=True)
        if found := look_up([clone], wanted):
            address = asked
            break
    if not found:
        where = " and ".join([*map(str, places), *addresses])
        raise InputError(
            f"version {wanted} is not in {where or 'this package, which has no history'}: name a "
            "folder that holds it, with --from the one that the project was made from, or with "
            "--to the new one."
        )
    return extract_version(*found, address, to)


def look_up(repositories: list[Path], wanted: str) -> tuple[Path, str] | None:
    """Return the first repository that has a release or a commit, and its full commit."""
    for repository in repositories:
        for name in (f"refs/tags/v{wanted}", f"refs/tags/{wanted}", wanted):
            if wanted.startswith("-"):  # It would be an option.
                continue
            asked = ("rev-parse", "--verify", "-q", f"{name}^{{commit}}")
            # The user's configuration may say that another user's repository is safe.
            done = run_git("-C", repository, *asked, users_own=True)
            if done.returncode == 0:
                return repository, done.stdout.decode().strip()
    return None


def extract_version(repository: Path, commit: str, address: str, to: Path) -> Version:
    """Write what baking reads at a commit into a new folder."""
    # As it was committed, whatever line ends the user's configuration asks for.
    where = ("-C", repository, "-c", "core.autocrlf=false")
    listed = git(*where, "ls-tree", "--name-only", "-z", commit, users_own=True)
    names = [name for name in BAKED if name in listed.decode().split("\0")]
    archive = git(*where, "archive", commit, *names, users_own=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as file:
        # Python 3.11.0 to 3.11.3 have no filters; the archive is git's own.
        safe: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        file.extractall(to, **safe)
    return with_origin(to, {"address": address, "commit": commit})


def copy_version(source: Path, to: Path) -> Version:
    """Copy what baking reads of a repository as it is, with its uncommitted changes."""
    if not (source / "templates" / "baking.py").is_file():
        raise InputError(f"{source} has no templates/baking.py: name a copy of the repository.")
    # Baking brings the shared files into a template anew.
    shared = (source / "templates" / "core").is_dir()
    brought = ("core", "extras", *SAMPLE, *MADE_BY_RUNS) if shared else MADE_BY_RUNS

    def leave_out(folder: str, names: list[str]) -> set[str]:
        place = Path(folder)
        left_out = {*CACHES, *(name for name in names if name.startswith(".writing-"))}
        if place.name == PROJECT_FOLDER:
            left_out |= {*brought}
        if place.parent.name == "baselines":  # A template needs the sample's alone.
            left_out |= {*names} - {*SAMPLE}
        return left_out & {*names}

    for name in BAKED:
        if (source / name).is_dir():
            shutil.copytree(source / name, to / name, ignore=leave_out)
        elif (source / name).is_file():
            shutil.copy(source / name, to / name)
    baking = load_baking(source / "templates")
    found = baking.find_commit({}) if hasattr(baking, "find_commit") else {}
    return with_origin(to, {"address": "", "commit": "", **found})


def with_origin(folder: Path, found: dict[str, Any]) -> Version:
    """Return a version, and leave a note of its commit for the projects that it makes."""
    write_json(folder / "templates" / ORIGIN_NOTE, found)
    version = load_baking(folder / "templates").read_version()
    return Version(folder, {"version": version, **found})


# ------------------------------------------------------------------------------- rendering


def render(
    version: Version,
    template: str,
    answers: dict[str, str],
    parent: Path,
    place: Path | None = None,
) -> Path:
    """Bake a project in a process of its own, so that two versions never share one.

    Args:
        version: the templates.
        template: the task.
        answers: of the project; extras that the version does not have are left out.
        parent: a folder to create.
        place: the project's own folder, next to which its data may be.

    Returns:
        The new project's folder.

    Raises:
        InputError: the version refuses the answers.
    """
    if not (version.folder / "templates" / template).is_dir():
        raise InputError(f"version {version.label} has no template {template}.")
    extras = [name for name in answers["extras"].split(", ") if has_extra(version, name)]
    answers = {**answers, "extras": ", ".join(extras) or "none"}
    parent.mkdir(parents=True)
    if place:
        link_data(place, parent / answers["project_slug"], answers.get("data_folder", ""), parent)
    configuration = parent / "configuration.yaml"
    private = {"cookiecutters_dir": str(parent), "replay_dir": str(parent)}
    # YAML does not join the two halves that JSON makes of a character beyond U+FFFF.
    write_text(configuration, json.dumps(private, ensure_ascii=False))
    command = [sys.executable, "-m", "cookiecutter", str(version.folder)]
    command += ["--directory", f"templates/{template}", "--output-dir", str(parent)]
    command += ["--no-input", "--config-file", str(configuration), "--accept-hooks", "yes"]
    command += [f"{name}={value}" for name, value in answers.items()]
    done = subprocess.run(
        command,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        cwd=parent,
    )
    project = parent / answers["project_slug"]
    if done.returncode or not project.is_dir():
        said = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[-1]
        raise InputError(f"version {version.label} can't make this project: {said}")
    return project


def link_data(place: Path, project: Path, folder: str, parent: Path) -> None:
    """Make a data folder next to a project visible from a copy of the project.

    Baking looks there for the endings of the files and for a sample of the submission.

    Args:
        place: the project's own folder.
        project: the copy, not there yet.
        folder: the answer `data_folder`.
        parent: what may be written into; a folder elsewhere is found without a link, or not at all.
    """
    target, source = Path(os.path.normpath(project / folder)), place / folder
    inside = target.is_relative_to(parent) and not target.is_relative_to(project)
    if inside and target != parent and source.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source.resolve(), target_is_directory=True)


def has_extra(version: Version, name: str) -> bool:
    """Return whether a version has an extra; "none" is none."""
    return (version.folder / "templates" / "extras" / name).is_dir() and bool(name)
