"""What baking adds to cookiecutter: checked answers, and shared files in the template.

Each template has a small module next to its cookiecutter.json (see `_extensions` there) that loads
this one for each project. cookiecutter calls it before it writes anything. A hook would be too
late: the project's folder then exists, and cookiecutter adds a traceback to a hook's message.
"""

import hashlib
import importlib.util
import json
import keyword
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment

TEMPLATES = Path(__file__).resolve().parent
# By its path, as this module itself is loaded: another clone's may be loaded in the same process.
specification = importlib.util.spec_from_file_location("declared", TEMPLATES / "declared.py")
assert specification and specification.loader
declared: Any = importlib.util.module_from_spec(specification)
specification.loader.exec_module(declared)

PROJECT = "{{cookiecutter.project_slug}}"
# Where the shared files go in a template. All but shared/ go into folders that hold nothing else.
PLACES = {
    "core": f"{PROJECT}/core",
    "extras": f"{PROJECT}/extras",
    "hooks": "hooks",
    "shared": PROJECT,
}
# What a template's project gets from the baseline of its sample, where it stands once.
SAMPLE = ("sample", "reference")
# Where a repository that is no clone came from: `find_commit`.
ORIGIN = TEMPLATES / ".origin.json"
# The files of shared/ that the last bake brought: they lie among those of the task.
NOTE = ".brought.json"
# File systems take names of 255 bytes, and files beside the folder may have longer ones than it.
LONGEST_SLUG = 100
CACHES = {"__pycache__", ".pytest_cache", ".ruff_cache", ".mypy_cache"}
STRATEGIES = ("auto", "single", "mirrored", "multi_worker", "tpu")
# A file of any other kind is rendered if it names an answer.
NEVER_RENDERED = (".py", ".jsonl", ".html")
ARCHIVES = (".zip", ".gz", ".7z", ".rar", ".tar")
NAMES_AN_ANSWER = re.compile(r"\{[{%][^\n]*?\bcookiecutter\.")


class Baking:
    """Checks the answers, brings the shared files, and copies Python as it is.

    Args:
        environment: cookiecutter's, which gets the filters of the templates.
        template: the template's folder. `_left_out` of its cookiecutter.json lists the shared files
            that its projects have no use for, such as `core/layers/pointers.py`.
    """

    def __init__(self, environment: Environment, template: Path) -> None:
        self.template = template
        questions = json.loads((template / "cookiecutter.json").read_text(encoding="utf-8"))
        self.left_out = tuple(questions.get("_left_out", ()))
        environment.filters |= {
            "check_answers": self.check_answers,
            "begin_project": self.begin_project,
            "end_of_project": partial(end_of_project, template=template.name),
            "chosen_extras": partial(chosen_extras, template=template.name),
            "data_file": data_file,
            "normal_extras": partial(normal_extras, template=template.name),
            "extras_page": partial(extras_page, template=template.name),
            "extras_tables": partial(extras_tables, template=template.name),
            "origin": self.origin,
        }

    def check_answers(self, answers: dict[str, Any]) -> str:
        """Return "checked" when the answers are good and the shared files are in place."""
        check_answers(answers, self.template.name)
        bring_files(self.template, self.left_out)
        return "checked"

    def begin_project(self, answers: dict[str, Any]) -> str:
        """Return the name of the project's folder; note what is there before it is written."""
        self.check_answers(answers)
        project = project_folder(answers)
        refuse_another(project, self.origin(answers))
        answers["_before"] = {
            "existed": (project / "config.toml").is_file(),
            "extras": [n for n in known_extras() if (project / "extras" / n).is_dir()],
            "folder": short_path(project),
        }
        return answers["project_slug"]

    def origin(self, answers: dict[str, Any]) -> dict[str, Any]:
        """Return what a project keeps of where it came from, without its answers."""
        return {"version": read_version(), "template": self.template.name, **find_commit(answers)}

    def preprocess(self, source: str, name: str | None) -> str:
        """Return what Jinja sees of a file: one that names no answer comes out as it is.

        cookiecutter's own list of files to copy, `_copy_without_render`, would overwrite them in a
        project that exists, even where it is told to skip what is there.
        """
        if name is not None:
            return source if is_rendered(name, source) else as_literal(source)
        # The name of the folder is rendered before anything is written, with all answers. Private
        # variables of cookiecutter.json see only those that do not come from a replay file.
        return "{{ cookiecutter | begin_project }}" if source == PROJECT else source


def is_rendered(name: str, source: str) -> bool:
    """Return whether answers are put into a file."""
    return not name.endswith(NEVER_RENDERED) and bool(NAMES_AN_ANSWER.search(source))


def as_literal(source: str) -> str:
    """Return a Jinja template that renders to a text, whatever the text holds."""
    escaped = source.encode("unicode_escape").decode("ascii").replace('"', '\\"')
    return f'{{{{ "{escaped}" }}}}'


def read_version() -> str:
    """Return the version of the repository."""
    path = TEMPLATES.parent / "generator" / "__init__.py"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    found = re.search(r'__version__ = "(.+)"', text)
    return found[1] if found else "unknown"


def find_commit(answers: dict[str, Any]) -> dict[str, Any]:
    """Return the address of the repository and its commit, as far as they can be known.

    Of a clone both are git's, but a local path is nobody else's address. A wheel, and a copy that
    `baselines` bakes from, hold them in a note.

    Returns:
        `address`, a URL without a password or "", `commit` or "", and `modified`, only where the
        files that are baked were not those of the commit.
    """
    if ORIGIN.is_file():
        return json.loads(ORIGIN.read_text(encoding="utf-8"))
    root = TEMPLATES.parent
    if ask_git(root, "rev-parse", "--show-prefix", "HEAD")[:1] != [""]:  # Not a clone's own root.
        return {"address": public_address(str(answers.get("_template") or "")), "commit": ""}
    [remote] = ask_git(root, "remote", "get-url", "origin") or [""]
    found = {"address": public_address(remote), "commit": ask_git(root, "rev-parse", "HEAD")[0]}
    baked = ("templates", "baselines/*_sample", "generator/__init__.py")
    changed = ask_git(root, "status", "--porcelain", "--", *baked)
    return found | ({"modified": True} if changed else {})


def ask_git(folder: Path, *command: str) -> list[str]:
    """Return the lines that a command of git prints; none: git or its repository is absent."""
    # Those of a hook of git would name the repository that runs it.
    environment = {name: value for name, value in os.environ.items() if name[:4] != "GIT_"}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *command],
            capture_output=True,
            encoding="utf-8",
            env=environment,
        )
    except OSError:
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def public_address(address: str) -> str:
    """Return a URL without name and password, or "" of anything else, such as a local path."""
    found = re.fullmatch(r"(https?|ssh|git)://(?:[^@/]*@)?([^/@\s]+/\S+)", address)
    if found:
        return f"{found[1]}://{found[2]}"
    host = re.fullmatch(r"[\w.-]+@[\w.-]+\.\w+:[^\s/]\S*", address)  # git@host.org:owner/name
    return address if host else ""


def project_folder(answers: dict[str, Any]) -> Path:
    """Return the folder of the project; cruft does not say into which folder it bakes."""
    return Path(answers.get("_output_dir", ""), answers["project_slug"])


def refuse_another(project: Path, origin: dict[str, Any]) -> None:
    """Leave with one sentence if a folder holds a project of another task or version.

    `cookiecutter -f` writes into a folder that exists: two versions would be mixed, or two tasks.
    """
    path, folder = project / ".cookiecutter.json", short_path(project)
    if not path.is_file():
        return
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
        template, version = there["template"], there["version"]
        # None: it was made before projects named their commit.
        commits = (there.get("commit"), origin["commit"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        sys.exit(f"error: {path} is broken: restore it, it says what the project was made from.")
    if template != origin["template"]:
        sys.exit(
            f"error: {folder} is a project of {template}, and this is the template of"
            f" {origin['template']}: answer another project_slug."
        )
    if version != origin["version"] or None in commits or (all(commits) and len({*commits}) > 1):
        sys.exit(
            f"error: {folder} was made from version {describe_version(there)}, and this is"
            f" {describe_version(origin)}: run `baselines update {shlex.quote(folder)}`, which"
            " keeps what you changed."
        )


def describe_version(origin: dict[str, Any]) -> str:
    """Return the version and the commit of a project's origin, as a sentence names them."""
    commit = str(origin.get("commit") or "")[:12]
    return f"{origin.get('version', 'unknown')}{f' ({commit})' if commit else ''}"


def data_file(answers: dict[str, Any], stem: str) -> str:
    """Return the path of a file of records in the answered folder, as it goes into config.toml.

    Args:
        answers: all of them.
        stem: `train`, `dev` or `test`: the one file of that name that is there. Where there is
            none, it ends as the one file to learn from; else in .jsonl.
    """
    folder = answers["data_folder"]
    place = project_folder(answers) / folder
    endings = known_endings(place, stem) or known_endings(place, "train")
    return f"{folder}/{stem}{endings[0] if len(endings) == 1 else '.jsonl'}"


def known_endings(folder: Path, stem: str) -> list[str]:
    """Return the endings of a file of records; an archive, or `train.csv.bak`, holds none."""
    names = (path.name for path in folder.glob(f"{stem}.*"))
    endings = (name.removeprefix(stem) for name in names)
    return [one for one in endings if one.count(".") == 1 and one.lower() not in ARCHIVES]


def name_sample(table: str, project: Path, folder: str) -> str:
    """Return the table of extras/competition with the sample_submission of the data folder.

    Args:
        table: of config.toml, of any extra.
        project: the project's folder.
        folder: the answer `data_folder`.
    """
    found = [
        path.name
        for path in (project / folder).glob("*.[ct]sv")
        if re.sub("[^a-z]", "", path.stem.lower()) == "samplesubmission"
    ]
    if len(found) != 1:
        return table
    path = json.dumps(f"{folder}/{found[0]}", ensure_ascii=False)
    return re.sub(r'^sample_submission = ""', f"sample_submission = {path}", table, flags=re.M)


def short_path(path: Path) -> str:
    """Return a path as its user would write it."""
    try:
        relative = os.path.relpath(path)
    except ValueError:  # Another drive of Windows.
        return str(path)
    return str(path) if relative.startswith("..") else relative


# ------------------------------------------------------------------------------- answers


def check_answers(answers: dict[str, Any], template: str) -> None:
    """Leave with one sentence on the first bad answer; those that are absent are not checked."""
    checks = CHECKS | {"extras": partial(complain_about_extras, template=template)}
    for name, complaint in checks.items():
        if name in answers:
            value = answers[name]
            sentence = complaint(value) if isinstance(value, str) else "is not a text in quotes."
            if sentence:
                sys.exit(f"error: {name} {json.dumps(value, ensure_ascii=False)} {sentence}")
    if answers.get("strategy") == "multi_worker" and "extras" in answers:
        chosen = chosen_extras(answers["extras"], template)
        if "cluster" not in chosen:
            longer = ",".join([*chosen, "cluster"])
            sys.exit(
                f'error: strategy "multi_worker" needs the extra cluster: write extras={longer}'
            )


def complain_about_slug(value: str) -> str | None:
    """Say what is wrong with the project's name, which is its folder too."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", value):
        return (
            "is not a plain name: start with a letter and use English letters, digits and _ only,"
            " such as my_project."
        )
    if len(value) > LONGEST_SLUG:
        return f"is too long for the name of a folder: use at most {LONGEST_SLUG} characters."
    if keyword.iskeyword(value):
        return "is a word of Python: take another name, such as my_project."
    return None


def complain_about_path(value: str) -> str | None:
    """Say what is wrong with a name or path that goes into config.toml."""
    if not value.strip():
        return "is empty: leave this answer out to get the default."
    # JSON writes a character beyond U+FFFF as two halves, which TOML refuses.
    if value.startswith("~"):
        return "begins with ~, which stands for your home in a shell only: write the whole path."
    unfit = re.search(r"[\"'`\\{}<>|\U00010000-\U0010ffff]", value)
    if unfit or value != value.strip() or not value.isprintable():
        return (
            "holds quotes, backslashes, brackets, emoji or blanks at its ends: write a plain name,"
            " or a path with /."
        )
    return None


def complain_about_strategy(value: str) -> str | None:
    """Say what is wrong with the choice of devices."""
    return None if value in STRATEGIES else f"is unknown: choose one of {', '.join(STRATEGIES)}."


def complain_about_extras(value: str, template: str) -> str | None:
    """Say what is wrong with the choice of extras for the projects of a template."""
    choices = f"{', '.join(known_extras(template))}; or write all or none alone."
    if not split_names(value):
        return f"is empty: choose from {choices}"
    if value.strip() in ("all", "none"):
        return None
    for name in split_names(value):
        if name not in known_extras():
            return f"holds the unknown name {name}: choose from {choices}"
        if name not in known_extras(template):
            return f"holds {name}, which {owners(name)} alone: choose from {choices}"
    return None


CHECKS = {
    "project_slug": complain_about_slug,
    "encoder": complain_about_path,
    "data_folder": complain_about_path,
    "strategy": complain_about_strategy,
}


# -------------------------------------------------------------------------------- extras


def owners(name: str) -> str:
    """Return which templates an extra serves alone, and `has` or `have`."""
    *others, last = declared_extras()[name].templates
    return f"{', '.join(others)} and {last} have" if others else f"{last} has"


@cache
def declared_extras() -> dict[str, Any]:
    """Return name -> the `Extra` of declared.py, in the order in which they are asked."""
    return declared.read_extras(TEMPLATES / "extras")


def known_extras(template: str = "") -> list[str]:
    """Return the names of the extras that serve the projects of a template, or of any, sorted."""
    extras = declared_extras().items()
    return sorted(name for name, one in extras if not template or one.serves(template))


def split_names(answer: str) -> list[str]:
    """Return the names in an answer."""
    return [name.strip() for name in answer.split(",") if name.strip()]


def chosen_extras(answer: str, template: str) -> list[str]:
    """Return the names of the extras that an answer chooses, and of those they need, sorted."""
    known = known_extras(template)
    chosen = known if answer.strip() == "all" else [n for n in split_names(answer) if n in known]
    return with_needs(chosen)


def with_needs(names: list[str]) -> list[str]:
    """Return some extras with those that they need, sorted."""
    extras, found = declared_extras(), set(names)
    while missing := {need for name in found for need in extras[name].needs} - found:
        found |= missing
    return sorted(found)


def normal_extras(answer: str, template: str) -> str:
    """Return the one way of writing an answer, which a project keeps."""
    chosen = ", ".join(chosen_extras(answer, template))
    return "all" if answer.strip() == "all" else chosen or "none"


def extras_tables(answers: dict[str, Any], template: str) -> str:
    """Return the tables of config.toml of the chosen extras, each after an empty line.

    A template's config.toml ends with `{{- cookiecutter | extras_tables }}`.
    """
    chosen = chosen_extras(answers["extras"], template)
    place = (project_folder(answers), answers["data_folder"])
    texts = (name_sample(read_table(TEMPLATES / "extras" / name), *place) for name in chosen)
    return "".join(f"\n\n{text}" for text in texts if text)


def extras_page(answer: str, template: str) -> str:
    """Return the page extras/README.md of a project with the chosen extras."""
    chosen = chosen_extras(answer, template)
    extras = {name: one for name, one in declared_extras().items() if name in chosen}
    return declared.describe_extras(extras)


def own_extras_page(project: Path) -> str:
    """Return the page extras/README.md of a project, from what its own extras declare."""
    page = declared.describe_extras(declared.read_extras(project / "extras"))
    return f"{page}\n" if page else ""


def renew_extras_page(project: Path) -> None:
    """Write the page extras/README.md of a project anew."""
    if page := own_extras_page(project):
        path = project / "extras" / "README.md"
        path.write_text(page, encoding="utf-8", newline="\n")


def read_table(folder: Path) -> str:
    """Return an extra's table of config.toml; empty: it has no settings."""
    path = folder / "config.toml"
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


# --------------------------------------------------------------------------- shared files


def bring_files(template: Path, left_out: tuple[str, ...]) -> None:
    """Make a template whole: write the shared files that differ there, remove those that left.

    Several processes may do so at once. What is in place already is not touched, so that a clone
    which can't be written to works too once it is whole.

    Args:
        template: its folder.
        left_out: shared files that it has no use for, by their paths in templates/.
    """
    places = {TEMPLATES / place: template / target for place, target in PLACES.items()}
    others = {*known_extras()} - {*known_extras(template.name)}
    baseline = sample_baseline(template)
    places |= {baseline / name: template / PROJECT / name for name in SAMPLE}
    wanted = {
        target / path: source / path
        for source, target in places.items()
        for path in list_files(source)
        if f"{source.name}/{path.as_posix()}" not in left_out
        and not (source.name == "extras" and path.parts[0] in others)
    }
    try:
        for target, source in wanted.items():
            write_file(template, target, source.read_bytes(), source.stat().st_mode & 0o111)
        for folder in places.values():
            if folder.name != PROJECT:  # What shared/ brings lies among the task's own files.
                for path in list_files(folder):
                    if folder / path not in wanted:
                        remove_file(folder / path)
        remove_former_files(template)
        for name in CACHES:  # cookiecutter would copy them, or fail to read them as text
            for folder in (template / PROJECT).rglob(name):
                shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        sys.exit(
            f"error: {template} can't be written to ({error.strerror}), and the shared files have"
            " to be brought there: bake from a copy of the repository, or with `baselines bake"
            f" {template.name}_sample --to DIR`."
        )


def sample_baseline(template: Path) -> Path:
    """Return the folder of a template's sample and reference, or leave with one sentence."""
    folder = TEMPLATES.parent / "baselines" / f"{template.name}_sample"
    if not (folder / "sample").is_dir():
        sys.exit(f"error: {folder / 'sample'} is absent: bake from a whole copy of the repository.")
    return folder


def list_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder, relative to it, without caches."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - CACHES)
        yield from (Path(parent, name).relative_to(folder) for name in sorted(files))


def remove_former_files(template: Path) -> None:
    """Remove what an earlier bake brought from shared/ and is not there any more."""
    now = {
        path.as_posix(): file_hash(TEMPLATES / "shared" / path)
        for path in list_files(TEMPLATES / "shared")
    }
    note = template / NOTE
    before = json.loads(note.read_text(encoding="utf-8")) if note.is_file() else {}
    for name in before.keys() - now.keys():
        # Another content is not what was brought: somebody wrote it.
        if file_hash(template / PROJECT / name) == before[name]:
            remove_file(template / PROJECT / name)
    write_file(template, note, json.dumps(now, indent=1).encode(), 0)


def file_hash(path: Path) -> str | None:
    """Return the SHA-256 of a file; None: it is absent."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def write_file(template: Path, target: Path, content: bytes, executable: int) -> None:
    """Write a whole file at once, if it differs.

    The temporary file is not in the folder that cookiecutter walks: another bake would copy it.

    Args:
        template: the template's folder.
        target: the file.
        content: its bytes.
        executable: the bits of its mode that let it be run.
    """
    if has_content(target, content, executable):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".writing-", dir=template)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, 0o644 | executable)
        replace_file(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        if not has_content(target, content, executable):
            raise


def has_content(path: Path, content: bytes, executable: int) -> bool:
    """Return whether a file is there and as it should be."""
    try:
        same_mode = path.stat().st_mode & 0o111 == executable or os.name == "nt"
        return same_mode and path.read_bytes() == content
    except OSError:
        return False


def replace_file(source: str, target: Path) -> None:
    """Give a file its name; Windows refuses while another process reads the old one."""
    for _ in range(20):
        try:
            os.replace(source, target)
            return
        except PermissionError:
            if os.name != "nt":
                raise
            time.sleep(0.05)
    os.replace(source, target)


def remove_file(path: Path) -> None:
    """Remove a file, which another process may have done, and the folders that it leaves empty."""
    path.unlink(missing_ok=True)
    for folder in path.parents:
        try:
            folder.rmdir()
        except OSError:
            return


# ------------------------------------------------------------------------- after the walk


def end_of_project(answers: dict[str, Any], template: str) -> dict[str, Any]:
    """Return what the hook needs that runs when all is written: the arguments of `end_project`."""
    before, chosen = answers["_before"], chosen_extras(answers["extras"], template)
    return {
        "baking": str(Path(__file__).resolve()),
        "folder": before["folder"],
        "existed": before["existed"],
        "data": answers["data_folder"],
        "unwanted": [n for n in known_extras() if n not in chosen and n not in before["extras"]],
        "added": [name for name in chosen if name not in before["extras"]],
    }


def end_project(
    project: Path, folder: str, existed: bool, data: str, unwanted: list[str], added: list[str]
) -> None:
    """Delete the extras that were not chosen, and say what comes next.

    Args:
        project: the project's folder.
        folder: the same, as its user would write it.
        existed: whether it was a project before.
        data: the folder of its records, as it was answered.
        unwanted: extras to delete.
        added: extras that it did not have before.
    """
    delete_extras(project, unwanted)
    if existed:
        renew_extras_page(project)
        print("\n".join(describe_added(project, name) for name in added))
        return
    if not known_endings(project / data, "train"):
        print(
            f"note: {Path(folder, data).as_posix()} holds no training file yet. A relative"
            " data_folder starts at the project's folder: ../NAME is beside it."
        )
    elif not known_endings(project / data, "dev"):
        way = "extras/folds trains without one"
        if (project / "split.py").is_file():
            way = "python split.py FILE cuts one off the training file"
        print(f"note: {Path(folder, data).as_posix()} holds no dev file yet: {way}.")
    scripts = [name for name in ("prepare.py", "train.py") if (project / name).is_file()]
    commands = [f"cd {shlex.quote(folder)}", "pip install -r requirements.txt"]
    print(" && ".join([*commands, *(f"python {name}" for name in scripts)]))


def delete_extras(project: Path, names: list[str]) -> None:
    """Delete some extras of a project, the files that only they read, and a folder without any."""
    extras, declared = project / "extras", declared_extras()
    for name in names:
        shutil.rmtree(extras / name, ignore_errors=True)
        for path in declared[name].task_files:
            (project / path).unlink(missing_ok=True)
    rest = {"__init__.py", "README.md", *CACHES}
    if extras.is_dir() and {path.name for path in extras.iterdir()} <= rest:
        shutil.rmtree(extras)


def describe_added(project: Path, name: str) -> str:
    """Return what the user of a project has to know of an extra that joined it."""
    answers = json.loads((project / ".cookiecutter.json").read_text(encoding="utf-8"))
    folder = answers["cookiecutter"].get("data_folder", "sample")
    table = name_sample(read_table(project / "extras" / name), project, folder)
    try:
        config = tomllib.loads((project / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        config = {}
    if not table or name in config:
        return f"extras/{name} joined the project."
    return (
        f"extras/{name} joined the project. Its settings, for the end of config.toml:\n\n{table}\n"
    )
