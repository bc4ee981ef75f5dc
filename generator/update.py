"""Bring the project of a participant to another version of the templates, with their changes.

What the old version makes of the project's answers is the common base of two sides: the project as
it is, and what the new version makes of the same answers. They are merged in a folder of its own.
When all is known, it is staged in the project with a plan, and then applied file by file: an update
that was interrupted is finished by the next one.
"""

import ast
import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import tomlkit
from tqdm import tqdm

from generator import InputError
from generator.bake import MADE_BY_RUNS, read_origin
from generator.files import (
    CACHES,
    list_files,
    read_json,
    remove_empty_folders,
    sha256,
    write_bytes,
    write_json,
)
from generator.git import run_git
from generator.merge import MARK, Merged, merge, stage, with_windows_ends
from generator.versions import Version, find_version, render

ORIGIN = Path(".cookiecutter.json")
CONFIG = Path("config.toml")
RENAMED = Path("core/base/renamed.toml")
# Inside the project, so that a file gets its place by a rename within one file system.
STAGED = ".updating"
REPLACED = ".before-update"
# Folders in which no file comes from a template, and none is renamed from one.
NOT_OURS = {*CACHES, *MADE_BY_RUNS, STAGED, REPLACED, ".git", "cache", "data", "node_modules"}
# A file that no version has is read for one reason: it may be a renamed one.
LARGEST_RENAMED = 2**20

# A merge without a conflict may still make a file that these refuse.
READERS: dict[str, Callable[[bytes], object]] = {
    ".py": ast.parse,
    ".toml": lambda content: tomllib.loads(content.decode("utf-8")),
    ".json": json.loads,
}


@dataclass
class Plan:
    """What an update does to a project; files by their paths in it.

    Attributes:
        old: the version that it had.
        new: the version that it gets.
        writes: file -> the hashes of its content before ("": absent) and afterwards.
        deletes: file -> the hash of its content.
        executable: files of `writes` that can be run.
        copies: the folder that keeps what is replaced or deleted; "": git has it.
        marked: files with marks of git around what both sides changed.
        remarks: file -> what else its owner has to know of it.
        settings: what became of settings that have another name now.
    """

    old: str
    new: str
    writes: dict[str, list[str]] = field(default_factory=dict)
    deletes: dict[str, str] = field(default_factory=dict)
    executable: list[str] = field(default_factory=list)
    copies: str = ""
    marked: list[str] = field(default_factory=list)
    remarks: dict[str, str] = field(default_factory=dict)
    settings: list[str] = field(default_factory=list)


def update(
    root: Path, project: Path, to: str | None = None, from_: str | None = None, check: bool = False
) -> bool:
    """Update a project; print what was done.

    Args:
        root: the repository, or the copy of it in the installed package.
        project: the project's folder.
        to: the new version: a folder, a release or a commit; None: the repository as it is.
        from_: the version that the project was made from; None: what .cookiecutter.json says.
        check: only print what would be done.

    Returns:
        Whether nothing is left to do: no change with `check`, else no conflict.

    Raises:
        InputError: nothing was changed, and why.
    """
    project = project.resolve()
    read_origin(project)  # Another folder than a project's is not touched.
    if plan := read_plan(project):
        if check:
            print(f"{project.name}: an update was interrupted: `baselines update` finishes it.")
            return False
        print(f"{project.name}: this finishes an update that was interrupted.")
        return carry_out(project, plan)
    if not check:
        shutil.rmtree(project / STAGED, ignore_errors=True)  # Of one not planned to the end.
    with tempfile.TemporaryDirectory() as private:
        plan, contents = prepare(root, project, to, from_, Path(private).resolve())
        if check or not (plan.writes or plan.deletes):
            print(describe(project, plan, done=False))
        if not plan.writes and not plan.deletes:
            marked = find_marked(project)  # of an earlier update
            for name in marked:
                print(
                    f"  CONFLICT {name}: choose between what <<<<<<<, ======= and >>>>>>> enclose"
                )
            return not marked
        if check:
            return False
        stage_plan(project, plan, contents)
    return carry_out(project, plan)


def prepare(
    root: Path, project: Path, to: str | None, from_: str | None, private: Path
) -> tuple[Plan, dict[str, bytes | None]]:
    """Return what an update does, and the content of each file that it writes."""
    origin = read_origin(project)
    template = origin.get("template", "")
    if not template:
        raise InputError(
            f"{project / ORIGIN} names no template: add the line"
            ' "template": "relation_extraction", with the task of the project.'
        )
    origin = {"address": "", "commit": "", "version": "unknown", **origin}
    if origin.get("modified") and not from_:
        print(
            f"note: {project.name} was made from templates that were not committed as they were; "
            "what they had changed counts as yours: name their folder with --from if it is not."
        )
    answers = present_answers(project, origin["cookiecutter"])
    with tqdm(total=5, desc="update", leave=False) as progress:
        known = origin["commit"] or f"v{origin['version']}"
        old = find_version(root, from_, known, origin, private / "old")
        progress.update()
        new = find_version(root, to, "", origin, private / "new")
        progress.update()
        before = render(old, template, answers, private / "base", project)
        progress.update()
        after = render(new, template, answers, private / "after", project)
        progress.update()
        plan = Plan(old.label, new.label)
        contents = merge_project(project, before, after, plan, private)
    made = new_origin(origin, new)
    # Other line ends or another spelling of the same characters are no change.
    if json.loads(made) != read_json(project / ORIGIN):
        contents[ORIGIN.as_posix()] = made
    add_changes(project, plan, contents)
    return plan, contents


def present_answers(project: Path, answers: dict[str, str]) -> dict[str, str]:
    """Return a project's answers with the extras that it has now, whatever it was made with."""
    extras = project / "extras"
    there = (path.name for path in extras.iterdir()) if extras.is_dir() else ()
    # Python and git leave folders behind, without files or with caches.
    present = sorted(name for name in there if name[0] not in "._" and list_files(extras / name))
    return {
        **answers,
        "extras": ", ".join(present),
        "strategy": possible_strategy(answers.get("strategy", "auto"), present),
    }


def possible_strategy(answer: str, extras: list[str]) -> str:
    """Return the answer for the strategy; without the extra that it needs it is `auto`."""
    return "auto" if answer == "multi_worker" and "cluster" not in extras else answer


def new_origin(origin: dict, new: Version) -> bytes:
    """Return .cookiecutter.json of the new version, with the answers of the project."""
    there: dict = {"version": new.origin["version"], "template": origin["template"]}
    there |= {name: value for name, value in new.origin.items() if name != "version"}
    there["address"] = new.origin["address"] or origin["address"]  # a copy at hand has none
    there["cookiecutter"] = origin["cookiecutter"]
    return (json.dumps(there, ensure_ascii=False, indent=1) + "\n").encode()


# -------------------------------------------------------------------------------- merging


def merge_project(
    project: Path, before: Path, after: Path, plan: Plan, private: Path
) -> dict[str, bytes | None]:
    """Return the merged files of a project that differ from those there now; None: delete it.

    Args:
        project: as its owner has it.
        before: as the old version makes it.
        after: as the new version makes it.
        plan: gets the conflicts and remarks.
        private: an empty folder, as far as `merge` is concerned.
    """
    ours = {*list_files(before), *list_files(after)} - {ORIGIN}
    for folder in (before, after):
        (folder / ORIGIN).unlink(missing_ok=True)
    yours = private / "yours"
    windows = stage(project, ours | may_be_renamed(project), yours)
    moved = read_renamed(after)
    staged = {name: (yours / name).read_bytes() for name in list_files(yours)}
    values = take_values(yours / CONFIG, before / CONFIG, moved)
    merged = merge(before, yours, after, f"version-{plan.new}", private)
    if values and CONFIG.as_posix() in merged.marked:
        # Between marks stands what the owner has written: it is merged as it was.
        (yours / CONFIG).write_bytes(staged[CONFIG])
        (private / "again").mkdir()
        merged = merge(before, yours, after, f"version-{plan.new}", private / "again")
    plan.settings = put_values(merged.folder / CONFIG, values, moved)
    note_conflicts(merged, plan, staged)
    for link in (path.as_posix() for path in ours if (project / path).is_symlink()):
        plan.remarks.pop(link, None)  # it was not staged, so the merge took it for deleted
        if hash_of(after / link) not in ("", hash_of(before / link)):
            plan.remarks[link] = "a link, which stays; the file of the new version is next to it"
            merged.beside[f"{link}.new"] = (after / link).read_bytes()
    # A file that is from no version is kept under its name.
    contents: dict[str, bytes | None] = {path.as_posix(): None for path in staged.keys() & ours}
    # A new file has the line ends of those of its kind.
    kinds = {name.suffix for name in windows}
    all_windows = kinds - {name.suffix for name in ours & staged.keys() - windows}
    for name in list_files(merged.folder):
        content = (merged.folder / name).read_bytes()
        ends = name in windows if name in staged else name.suffix in all_windows
        contents[name.as_posix()] = with_windows_ends(content) if ends else content
        if os.access(merged.folder / name, os.X_OK):
            plan.executable.append(name.as_posix())
    return contents | merged.beside


def may_be_renamed(project: Path) -> set[Path]:
    """Return the small files of a project that are in no folder of data, runs or packages.

    A folder with a `.git` is another repository, or another work tree of the same one.
    """
    found = set()
    for folder, folders, names in os.walk(project):
        inside = Path(folder)
        folders[:] = [
            name
            for name in folders
            if name not in NOT_OURS
            and not any((inside / name / other).exists() for other in ("pyvenv.cfg", ".git"))
        ]
        for name in names:
            path = inside / name
            # In a work tree `.git` is a file.
            plain = name not in NOT_OURS and path.is_file() and not path.is_symlink()
            if plain and path.stat().st_size <= LARGEST_RENAMED:
                found.add(path.relative_to(project))
    return found - {ORIGIN}


def note_conflicts(merged: Merged, plan: Plan, staged: dict[Path, bytes]) -> None:
    """Note the conflicts of a merge, and files that it made unreadable without one.

    Args:
        merged: what the merge made.
        plan: gets the conflicts.
        staged: the files of the project; one that the merge did not change is as its owner wants.
    """
    plan.marked = sorted(merged.marked)
    plan.remarks = dict(sorted(merged.kept.items()))
    for name in merged.beside:
        plan.remarks[name] = "the new version's"
    for path in sorted(merged.folder.rglob("*")):
        name = path.relative_to(merged.folder).as_posix()
        reader = READERS.get(path.suffix)
        if reader and name not in merged.marked and path.is_file():
            content = path.read_bytes()
            if staged.get(Path(name)) == content:
                continue
            try:
                reader(content)
            except (ValueError, SyntaxError, RecursionError) as error:
                fault = str(error).replace("<unknown>, ", "")  # the name that `ast` gives a text
                plan.remarks[name] = f"merged without a conflict, but it can't be read: {fault}"


def add_changes(project: Path, plan: Plan, contents: dict[str, bytes | None]) -> None:
    """Complete a plan by what differs from the project; leave only that in `contents`.

    Raises:
        InputError: something that is no file is in the way.
    """
    gone = {name for name, content in contents.items() if content is None}

    def relative(path: Path) -> str:
        return path.relative_to(project).as_posix() if path.is_relative_to(project) else ""

    for name in sorted(contents):
        content, path = contents[name], project / name
        now = hash_of(path)
        if path.is_symlink() or now == (sha256(content) if content is not None else ""):
            del contents[name]
            continue
        for parent in path.parents:
            if parent != project and parent.is_relative_to(project) and parent.is_symlink():
                raise InputError(f"{parent} is a link: an update would write outside of {project}.")
            if content is not None and parent.is_file() and relative(parent) not in gone:
                raise InputError(
                    f"{parent} is a file where version {plan.new} has a folder: rename it."
                )
        if content is not None and path.is_dir():
            raise InputError(f"{path} is a folder where version {plan.new} has a file: rename it.")
        if content is None:
            plan.deletes[name] = now
        else:
            plan.writes[name] = [now, sha256(content)]
    plan.executable = [name for name in plan.executable if name in plan.writes]
    # The origin is the last: a project has its new version when all else is there.
    if ORIGIN.as_posix() in plan.writes:
        plan.writes[ORIGIN.as_posix()] = plan.writes.pop(ORIGIN.as_posix())
    replaced = [name for name, (now, _) in plan.writes.items() if now] + [*plan.deletes]
    if replaced and not kept_by_git(project, replaced):
        plan.copies = free_name(project, f"{REPLACED}/{plan.old}")


def hash_of(path: Path) -> str:
    """Return the hash of a file; "": it is absent."""
    return sha256(path.read_bytes()) if path.is_file() else ""


def kept_by_git(project: Path, names: Iterable[str]) -> bool:
    """Return whether git has committed all of these files as they are."""

    def ask(*command: str) -> str | None:
        done = run_git("-C", project, *command, "--", *names, users_own=True)
        return None if done.returncode else done.stdout.decode(errors="surrogateescape")

    # Of a file in another repository `status` says nothing either.
    known = ask("ls-files", "--cached", "-z")
    changed = ask("status", "--porcelain", "-z", "--ignored", "--untracked-files=all")
    return changed == "" and known is not None and {*names} <= {*known.split("\0")}


def free_name(project: Path, name: str) -> str:
    """Return a name for a folder of a project that is not there yet."""
    number = 1
    while (project / (found := name if number == 1 else f"{name}-{number}")).exists():
        number += 1
    return found


# ----------------------------------------------------------------------- renamed settings


def read_renamed(after: Path) -> dict[str, str]:
    """Return former name -> name of the settings that the new version calls otherwise."""
    path = after / RENAMED
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def take_values(yours: Path, before: Path, moved: dict[str, str]) -> dict[str, object]:
    """Return former name -> the value of each setting that was changed and has another name now.

    In `yours` they get the value of the old version, so that its line leaves without a conflict.
    """
    try:
        mine = tomlkit.parse(yours.read_text(encoding="utf-8"))
        default = tomllib.loads(before.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    values = {}
    for former in moved:
        if former in mine and not isinstance(mine[former], dict) and former in default:
            value = mine[former].unwrap() if hasattr(mine[former], "unwrap") else mine[former]
            if value != default[former]:
                values[former] = value
                mine[former] = default[former]
    if values:
        yours.write_text(tomlkit.dumps(mine), encoding="utf-8", newline="\n")
    return values


def put_values(config: Path, values: dict[str, object], moved: dict[str, str]) -> list[str]:
    """Write values of settings under the names that they have now; return a sentence of each."""
    if not values:
        return []
    try:
        document = tomlkit.parse(config.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # Its conflicts are marked: it is named with them.
        return [
            f"config.toml: {former} = {value!r} is now {moved[former]}: write it there when you "
            "have chosen between the marked lines."
            for former, value in values.items()
        ]
    sentences = []
    for former, value in values.items():
        table, _, key = moved[former].rpartition(".")
        holder = document.get(table)
        if isinstance(holder, dict) and key in holder:
            holder[key] = value
            sentences.append(f"config.toml: {former} is now {moved[former]}: {value!r} is there.")
        else:
            sentences.append(
                f"config.toml: {former} = {value!r} is now {moved[former]}, which this project "
                "does not have: add it, or leave it out."
            )
    if any(document):
        config.write_text(tomlkit.dumps(document), encoding="utf-8", newline="\n")
    return sentences


# ------------------------------------------------------------------------------- applying


def stage_plan(project: Path, plan: Plan, contents: dict[str, bytes | None]) -> None:
    """Put the new files and the plan into the project; nothing of the project is changed yet."""
    for name in plan.writes:
        content = contents[name]
        assert content is not None
        write_bytes(project / STAGED / "new" / name, content)
        there = project / name
        mode = there.stat().st_mode & 0o777 if there.is_file() else 0o644
        mode |= 0o111 if name in plan.executable else 0
        os.chmod(project / STAGED / "new" / name, mode)
    # The last: with a plan, all is there.
    write_json(project / STAGED / "plan.json", asdict(plan))


def read_plan(project: Path) -> Plan | None:
    """Return the plan of an update that was interrupted.

    Raises:
        InputError: it is broken, or of another version of the command.
    """
    path = project / STAGED / "plan.json"
    try:
        return Plan(**read_json(path)) if path.is_file() else None
    except TypeError as error:
        raise InputError(
            f"{path} is not of this version of `baselines`: finish the update with the version "
            f"that began it, or delete {path.parent} and update again."
        ) from error


def carry_out(project: Path, plan: Plan) -> bool:
    """Do what a plan says and was not done yet; return whether there is no conflict.

    Raises:
        InputError: a file was changed since the plan was made.
    """
    done = dict.fromkeys(plan.deletes, "") | {name: end for name, (_, end) in plan.writes.items()}
    before = plan.deletes | {name: start for name, (start, _) in plan.writes.items()}
    for name in (*plan.deletes, *plan.writes):
        path, now = project / name, hash_of(project / name)
        if now == done[name]:
            continue
        if now not in (before[name], ""):  # A file that was moved away may get its place again.
            raise InputError(
                f"{path} was changed after the update had begun: move it away, run `baselines "
                "update` again, and copy your change into the new file."
            )
        if now and plan.copies:
            write_bytes(project / plan.copies / name, path.read_bytes())
        if name in plan.deletes:
            path.unlink()
            remove_empty_folders(project, path.parent)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Of a copy: an update that is interrupted after this may need the file again.
            copy = shutil.copy(project / STAGED / "new" / name, project / STAGED / "copy")
            os.replace(copy, path)
    shutil.rmtree(project / STAGED)
    print(describe(project, plan, done=True))
    return not (plan.marked or plan.remarks)


def find_marked(project: Path) -> list[str]:
    """Return the files of a project that still have the marks of a conflict."""
    kinds = {*READERS, ".md", ".txt"}
    names = [name for name in list_files(project, (*MADE_BY_RUNS, "data")) if name.suffix in kinds]
    return sorted(n.as_posix() for n in names if MARK.search((project / n).read_bytes()))


def describe(project: Path, plan: Plan, done: bool) -> str:
    """Return what an update did, or would do."""
    if not plan.writes and not plan.deletes:
        return f"{project.name} is up to date: version {plan.new}."
    added = [name for name, (now, _) in plan.writes.items() if not now]
    changed = [name for name in plan.writes if name not in added and name != ORIGIN.as_posix()]
    lines = [
        f"{project.name}: version {plan.old} {'became' if done else 'would become'} {plan.new}"
    ]
    groups = (("changed", changed), ("new", added), ("deleted", [*plan.deletes]))
    lines += [f"  {word:<8} {name}" for word, names in groups for name in names]
    lines += [f"  {sentence}" for sentence in plan.settings]
    lines += [f"  CONFLICT {name}: {remark}" for name, remark in plan.remarks.items()]
    lines += [f"  CONFLICT {name}: both sides changed the same lines" for name in plan.marked]
    if plan.marked:
        lines.append("Choose between the lines that <<<<<<<, ======= and >>>>>>> enclose.")
    if plan.copies and done:
        lines.append(f"What was replaced or deleted is in {plan.copies}.")
    return "\n".join(lines)
