"""Merge two folders that began as the same one, as git merges two branches; nothing is written."""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from generator import InputError
from generator.files import copy_file
from generator.git import git, run_git

# Git's stages of a file that is in conflict.
BASE, YOURS, NEW = 1, 2, 3
# A file that both sides have renamed has longer ones.
MARK = re.compile(rb"^<{7,} yours", re.M)
# Read before what .gitattributes say: content is merged as it is, whatever the folders hold.
ATTRIBUTES = "* -text !eol !filter !ident !merge !working-tree-encoding\n"


@dataclass
class Merged:
    """What a merge makes.

    Attributes:
        folder: holds all files.
        marked: files with git's marks around the lines that both sides changed.
        kept: path -> why both sides were not merged and yours stays.
        beside: path -> the new content of a file of `kept` that is not text.
    """

    folder: Path
    marked: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    beside: dict[str, bytes] = field(default_factory=dict)


def merge(base: Path, yours: Path, new: Path, label: str, private: Path) -> Merged:
    """Merge the changes from `base` to `new` into `yours`; renamed files are followed.

    Args:
        base: the folder from which both began.
        yours: one side, whose deletions stay.
        new: the other side.
        label: the name of the other side in marks; no blanks.
        private: an empty folder for git, and for the result.

    Raises:
        InputError: git is absent, or too old to merge without a work tree.
    """
    repository = private / "repository"
    git("init", "--quiet", "--bare", repository)
    (repository / "info" / "attributes").write_text(ATTRIBUTES)
    root = commit(repository, base)
    for name, folder in (("yours", yours), (label, new)):
        git("branch", name, commit(repository, folder, root), GIT_DIR=repository)
    options = ("merge-tree", "--write-tree", "-z", "--messages", "yours", label)
    # A new file of a folder that its owner has renamed gets the name that the version gives it.
    settings = ("-c", "merge.renames=true", "-c", "merge.directoryRenames=false")
    done = run_git(*settings, *options, GIT_DIR=repository)
    if done.returncode not in (0, 1):
        refuse_old_git()
        git("merge-tree", "--write-tree", "yours", label, GIT_DIR=repository)  # Says what is wrong.
    tree, *facts = done.stdout.decode().split("\0")
    merged = Merged(private / "merged")
    merged.folder.mkdir()
    git("read-tree", tree, GIT_DIR=repository)
    # A folder of its own is the work tree: the paths of git are then those of the files.
    git("checkout-index", "--all", GIT_DIR=repository, GIT_WORK_TREE=merged.folder)
    describe_conflicts(repository, merged, facts, label)
    return merged


def refuse_old_git() -> None:
    """Refuse a git that can't merge without a work tree.

    Raises:
        InputError: it is older than 2.38.
    """
    version = git("version").decode().split()[2]
    numbers = [int(part) for part in re.findall(r"\d+", version)[:2]]
    if numbers < [2, 38]:
        raise InputError(f"git 2.38 or newer is needed, and this is {version}: install that.")


def commit(repository: Path, folder: Path, parent: str | None = None) -> str:
    """Commit all files of a folder; return the commit."""
    git("read-tree", "--empty", GIT_DIR=repository)
    git("add", "--all", "--force", ".", GIT_DIR=repository, GIT_WORK_TREE=folder)
    tree = git("write-tree", GIT_DIR=repository).decode().strip()
    author = ("-c", "user.name=update", "-c", "user.email=update@localhost")
    parents = ("-p", parent) if parent else ()
    made = git(*author, "commit-tree", tree, "-m", "state", *parents, GIT_DIR=repository)
    return made.decode().strip()


def describe_conflicts(repository: Path, merged: Merged, facts: list[str], label: str) -> None:
    """Note the conflicts in what `git merge-tree -z` printed after the tree.

    Args:
        repository: the merge's.
        merged: gets them.
        facts: `mode object stage<tab>path` of each file in conflict, an empty one, and messages.
        label: the name of the new side; git adds it to a file whose name is taken.
    """
    stages: dict[str, dict[int, str]] = defaultdict(dict)
    end = facts.index("")
    for fact in facts[:end]:
        details, _, path = fact.partition("\t")
        _, blob, stage = details.split(" ")
        stages[path][int(stage)] = blob
    for path, there in stages.items():
        file = merged.folder / path
        if file.is_file() and MARK.search(file.read_bytes()):
            merged.marked.append(path)
        elif YOURS not in there and (BASE not in there or path.endswith(f"~{label}")):
            merged.kept[path] = "of the new version, and not merged with yours"
        elif YOURS not in there:
            file.unlink(missing_ok=True)
            if NEW in there:
                merged.kept[path] = "you deleted or renamed it, and the new version changed it"
        elif NEW not in there:
            if file.exists():
                merged.kept[path] = "you changed it, and the new version has none"
        else:
            merged.kept[path] = "both sides changed it, and it is not merged"
            new = git("cat-file", "blob", there[NEW], GIT_DIR=repository)
            merged.beside[f"{path}.new"] = new
    for path, message in messages(facts[end + 1 :]):
        if path not in stages and message.startswith("CONFLICT"):
            merged.kept[path] = message.strip()


def messages(facts: list[str]) -> list[tuple[str, str]]:
    """Return the first path and the text of each message of `git merge-tree -z`."""
    found, rest = [], list(facts)
    while len(rest) > 1 and rest[0].isdigit():
        count = int(rest[0])
        paths, (_, message), rest = (
            rest[1 : count + 1],
            rest[count + 1 : count + 3],
            rest[count + 3 :],
        )
        found.append((paths[0] if paths else "", message))
    return found


# -------------------------------------------------------------------------------- staging


def stage(project: Path, names: set[Path], to: Path) -> set[Path]:
    """Copy files of a project for a merge, with the line ends of the templates.

    Args:
        project: the project's folder.
        names: files in it, relative; those that are absent are left out, and links, since a merge
            would change what they point to.
        to: a folder to create.

    Returns:
        Those whose lines end as on Windows; here they end as elsewhere.
    """
    to.mkdir()
    windows = set()
    for name in names:
        source, target = project / name, to / name
        if source.is_file() and not source.is_symlink():
            copy_file(source, target)
            content = source.read_bytes()
            if has_windows_ends(content):
                windows.add(name)
                target.write_bytes(content.replace(b"\r\n", b"\n"))
    return windows


def has_windows_ends(content: bytes) -> bool:
    """Return whether all lines of a text end with CR LF."""
    return 0 < content.count(b"\r\n") == content.count(b"\n") and b"\0" not in content


def with_windows_ends(content: bytes) -> bytes:
    """Return a text whose lines end with CR LF, or what is no text as it is."""
    return content if b"\0" in content else content.replace(b"\n", b"\r\n")
