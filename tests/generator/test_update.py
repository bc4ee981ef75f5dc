"""`baselines update`: a project gets another version, and nothing that its owner did is lost."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import ROOT
from projects import further, run
from test_bake import contents, copy_repository, run_without_questions

from generator import InputError
from generator import versions as versions_module
from generator.bake import load_baking
from generator.cli import app
from generator.merge import merge
from generator.update import (
    REPLACED,
    STAGED,
    Plan,
    add_changes,
    carry_out,
    kept_by_git,
    merge_project,
    prepare,
    present_answers,
    put_values,
    read_plan,
    stage_plan,
    take_values,
    update,
)
from generator.versions import copy_version, extract_version, find_version, render

pytestmark = pytest.mark.slow

OLDER = 100  # commits: since then a file has joined the projects
ADDRESS = "https://example.org/team/baselines.git"
# `regularization` and `search` lie around what comes and goes: no line touches one that changes.
EXTRAS = "comparison, doctor, folds, lora, regularization, search"


def run_git(folder: Path, *command: str) -> str:
    """Run git as somebody; return what it prints."""
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *who, *command], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def write(path: Path, text: str) -> None:
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")


def answers(slug: str) -> dict[str, str]:
    """Return the answers of a project."""
    rest = {"encoder": "tiny", "data_folder": "sample", "strategy": "auto", "extras": EXTRAS}
    return {"project_slug": slug, **rest}


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """An older commit of this repository, and its files as they are now."""
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("needs git and the history of a clone")
    commits = run_git(
        ROOT, "rev-list", "--first-parent", f"--max-count={OLDER + 1}", "HEAD"
    ).split()
    if len(commits) <= OLDER:
        pytest.skip("a shallow clone has no older commits: git fetch --unshallow")
    folder = tmp_path_factory.mktemp("versions")
    old = extract_version(ROOT, commits[-1], "", folder / "old")
    return old, copy_version(ROOT, folder / "new"), folder


@pytest.fixture(scope="module")
def rendered(versions):
    """A function that returns fresh projects of a task, of the old version and of the new one."""
    old, new, folder = versions
    known: dict[str, tuple[Path, Path]] = {}

    def of(template: str) -> tuple[Path, Path]:
        if template not in known:
            known[template] = tuple(
                render(version, template, answers(template), folder / f"{template}-{name}")
                for name, version in (("old", old), ("new", new))
            )
        return known[template]

    return of


def with_commit(project: Path, commit: str, address: str = "") -> None:
    """Note in a project which commit it was made from, as baking does now."""
    path = project / ".cookiecutter.json"
    origin = {**json.loads(path.read_text()), "address": address, "commit": commit}
    path.write_text(json.dumps(origin))


# --------------------------------------------------------------------------- real versions


@pytest.mark.shown("relation_extraction")
@pytest.mark.parametrize(
    "template",
    further(
        ["relation_extraction", "text_classification", "seq2seq"], "relation_extraction", "seq2seq"
    ),
)
def test_an_update_is_a_fresh_project_with_the_changes_of_its_owner(
    template: str, versions, rendered, tmp_path: Path, capsys
) -> None:
    old, _, _ = versions
    fresh_old, fresh_new = rendered(template)
    project, expected = tmp_path / template, tmp_path / "expected"
    shutil.copytree(fresh_old, project)
    shutil.copytree(fresh_new, expected)
    with_commit(project, old.origin["commit"], ADDRESS)
    for folder in (project, expected):
        config = folder / "config.toml"
        config.write_text(config.read_text().replace("\npatience = 0 ", "\npatience = 3 "))
        write(folder / "train.py", (folder / "train.py").read_text() + "# mine\n")
        write(folder / "mine.py", "ONE = 1\n")  # added
        shutil.rmtree(folder / "extras/folds")  # an extra that left, and one that joined
        shutil.copytree(ROOT / "templates/extras/averaging", folder / "extras/averaging")
        (folder / "sample/test.jsonl").unlink()
        (folder / "predict.py").rename(folder / "predict_all.py")
        scripts = sorted(folder.rglob("*.py"))
        for path in scripts if template == "seq2seq" else ():  # as an editor on Windows saves them
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    write(project / "runs/default/weights.txt", "mine")
    command = ["update", str(project)]
    assert update(ROOT, project), capsys.readouterr().out
    found, wanted = contents(project), contents(expected)
    kept = {name for name in found if name.startswith((REPLACED, "runs/"))}
    origin = json.loads(found[".cookiecutter.json"])
    assert origin["address"] == ADDRESS and origin["commit"] != old.origin["commit"]
    assert origin["cookiecutter"] == answers(template)
    assert kept - {"runs/default/weights.txt"} and not (project / STAGED).exists()
    # The page of the extras is merged like any other: it lacks the row of one that joined by hand.
    for name in (*kept, ".cookiecutter.json", "extras/README.md"):
        found.pop(name, None)
        wanted.pop(name, None)
    assert found.keys() == wanted.keys()
    assert [name for name in found if found[name] != wanted[name]] == []
    capsys.readouterr()
    with pytest.raises(SystemExit) as ending:
        app([*command, "--check"])
    assert ending.value.code == 0 and "is up to date" in capsys.readouterr().out


@pytest.mark.further
def test_a_run_of_the_old_version_predicts_the_same(versions, rendered, tmp_path: Path) -> None:
    old, _, _ = versions
    project = tmp_path / "relation_extraction"
    shutil.copytree(rendered("relation_extraction")[0], project)
    with_commit(project, old.origin["commit"])
    small = ("--tiny_layers", "1", "--tiny_width", "32", "--steps", "2", "--devices.precision")
    run("train.py", *small, "float32", cwd=project)
    predict = ("predict.py", "runs/default", "sample/test.jsonl")
    run(*predict, tmp_path / "before.jsonl", cwd=project)
    update(ROOT, project)
    run(*predict, tmp_path / "after.jsonl", cwd=project)
    assert (tmp_path / "before.jsonl").read_bytes() == (tmp_path / "after.jsonl").read_bytes()


@pytest.mark.further
def test_a_file_in_the_way_is_in_conflict_and_kept(
    versions, rendered, tmp_path: Path, capsys
) -> None:
    """The owner has a file of a name that the new version uses for one of its own."""
    old, _, _ = versions
    fresh_old, fresh_new = rendered("relation_extraction")
    project = tmp_path / "relation_extraction"
    shutil.copytree(fresh_old, project)
    with_commit(project, old.origin["commit"])
    new_text = {
        name: content
        for name, content in contents(fresh_new).items()
        if name not in contents(fresh_old) and name.endswith((".py", ".toml", ".lock"))
    }
    name = sorted(new_text)[0]
    write(project / name, "mine\n")
    before = contents(project)
    with pytest.raises(SystemExit) as ending:
        app(["update", str(project)])
    assert ending.value.code == 1
    assert f"CONFLICT {name}: both sides changed the same lines" in capsys.readouterr().out
    text = (project / name).read_bytes()
    assert b"<<<<<<< yours\nmine\n=======\n" in text and new_text[name] in text
    assert (project / REPLACED / old.label / name).read_bytes() == before[name]
    for more in ([], ["--check"]):
        with pytest.raises(SystemExit) as ending:
            app(["update", str(project), *more])
        assert ending.value.code == 1
        said = capsys.readouterr().out
        assert "is up to date" in said and f"CONFLICT {name}: choose between what" in said


@pytest.mark.shown("first file")
@pytest.mark.parametrize("moment", ["staging", "plan", "first copy", "first file", "last file"])
def test_an_interrupted_update_is_finished(moment, versions, rendered, tmp_path: Path) -> None:
    old, _, folder = versions
    fresh_old, fresh_new = rendered("relation_extraction")
    project = tmp_path / "relation_extraction"
    shutil.copytree(fresh_old, project)
    with_commit(project, old.origin["commit"])
    write(project / "train.py", "# mine\n" + (project / "train.py").read_text())
    before = contents(project)
    new, places = folder / "new", (str(folder / "new"), str(folder / "old"))
    (tmp_path / "private").mkdir()
    plan, written = prepare(new, project, *places, tmp_path / "private")
    staged, files = len(plan.writes), [start for start, _ in plan.writes.values()]
    last = staged + 1 + len(plan.deletes) + sum(2 if start else 1 for start in files)
    replacement = {
        "staging": 2,
        "plan": staged + 1,
        "first copy": staged + 2,
        "first file": staged + len(plan.deletes) + 3,
        "last file": last,
    }
    if os.fork() == 0:
        kill_at(replacement[moment])
        stage_plan(project, plan, written)
        carry_out(project, plan)
        os._exit(0)
    assert os.WIFSIGNALED(os.wait()[1])
    now = contents(project)
    copies = contents(project / plan.copies) if (project / plan.copies).is_dir() else {}
    for name, content in before.items():
        assert content in (now.get(name), copies.get(name)), name
    if read_plan(project) is None:
        assert {name: now[name] for name in now if not name.startswith(STAGED)} == before
    assert update(new, project, *places)
    assert not (project / STAGED).exists()
    assert (project / "train.py").read_text().startswith("# mine\n")
    done = {n: c for n, c in contents(project).items() if not n.startswith(REPLACED)}
    expected = contents(fresh_new)
    assert done.keys() == expected.keys()
    differ = {name for name in done if done[name] != expected[name]}
    assert differ <= {"train.py", ".cookiecutter.json"}


def kill_at(number: int) -> None:
    """Let this process be killed when it gives a file its name for so many times."""
    replace, count = os.replace, [0]

    def counted(source: str, target: str) -> None:
        count[0] += 1
        if count[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)

    os.replace = counted


def test_a_file_that_was_changed_in_between_is_not_replaced(
    versions, rendered, tmp_path: Path
) -> None:
    old, _, folder = versions
    project = tmp_path / "relation_extraction"
    shutil.copytree(rendered("relation_extraction")[0], project)
    with_commit(project, old.origin["commit"])
    places = (str(folder / "new"), str(folder / "old"))
    (tmp_path / "private").mkdir()
    plan, written = prepare(folder / "new", project, *places, tmp_path / "private")
    stage_plan(project, plan, written)
    name = next(name for name, (start, _) in plan.writes.items() if start)
    write(project / name, "changed in between\n")
    with pytest.raises(InputError, match="was changed after the update had begun"):
        update(folder / "new", project, *places)
    assert (project / name).read_text() == "changed in between\n"
    (project / name).unlink()
    write(project / name, "")
    with pytest.raises(InputError, match=name):
        update(folder / "new", project, *places)


# ---------------------------------------------------------------- conflicts and renamed files


def three(tmp_path: Path, base: dict, yours: dict, new: dict):
    """Merge three small folders, given as path -> text or bytes."""
    for name, files in (("base", base), ("yours", yours), ("new", new)):
        (tmp_path / name).mkdir()
        for path, content in files.items():
            target = tmp_path / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())
    (tmp_path / "private").mkdir()
    folders = (tmp_path / name for name in ("base", "yours", "new"))
    return merge(*folders, "version-2", tmp_path / "private")


TEXT = "".join(f"line {number}\n" for number in range(20))
OTHER = TEXT.replace("line 18", "new 18")


def test_what_both_changed_is_marked(tmp_path: Path) -> None:
    mine = TEXT.replace("line 18", "mine 18")
    merged = three(tmp_path, {"a.py": TEXT}, {"a.py": mine}, {"a.py": OTHER})
    assert merged.marked == ["a.py"] and not merged.kept
    text = (merged.folder / "a.py").read_text()
    assert "<<<<<<< yours\nmine 18\n=======\nnew 18\n>>>>>>> version-2\n" in text


def test_a_renamed_file_gets_the_changes_of_the_new_version(tmp_path: Path) -> None:
    merged = three(tmp_path, {"task/model.py": TEXT}, {"mine.py": TEXT}, {"task/model.py": OTHER})
    assert contents(merged.folder) == {"mine.py": OTHER.encode()} and not merged.kept


def test_a_deleted_file_stays_deleted_and_is_named(tmp_path: Path) -> None:
    merged = three(tmp_path, {"a.py": TEXT, "b": "b\n"}, {"b": "b\n"}, {"a.py": OTHER, "b": "b\n"})
    assert contents(merged.folder) == {"b": b"b\n"}
    assert merged.kept == {"a.py": "you deleted or renamed it, and the new version changed it"}


def test_a_changed_file_that_the_new_version_lacks_stays_and_is_named(tmp_path: Path) -> None:
    merged = three(tmp_path, {"a.py": TEXT, "b": "b\n"}, {"a.py": OTHER, "b": "b\n"}, {"b": "b\n"})
    assert contents(merged.folder) == {"a.py": OTHER.encode(), "b": b"b\n"}
    assert merged.kept == {"a.py": "you changed it, and the new version has none"}


def test_a_file_in_the_way_is_marked_and_what_is_no_text_stays(tmp_path: Path) -> None:
    yours, new = (
        {"notes.md": "mine\n", "x.bin": b"\0mine"},
        {"notes.md": "new\n", "x.bin": b"\0new"},
    )
    merged = three(tmp_path, {"b": "b\n"}, {"b": "b\n", **yours}, {"b": "b\n", **new})
    assert merged.marked == ["notes.md"] and merged.kept.keys() == {"x.bin"}
    assert (merged.folder / "x.bin").read_bytes() == b"\0mine"
    assert merged.beside == {"x.bin.new": b"\0new"}


def test_attributes_and_settings_of_git_change_nothing(tmp_path: Path, monkeypatch) -> None:
    """A project may have a .gitattributes, its owner a configuration, and a hook runs this."""
    write(tmp_path / "gitconfig", "[merge]\nconflictStyle = diff3\n[core]\nautocrlf = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    rules = {".gitattributes": "* text eol=crlf -merge\n"}
    mine = {"a.py": TEXT.replace("line 1\n", "mine 1\n"), **rules}
    merged = three(tmp_path, {"a.py": TEXT, **rules}, mine, {"a.py": OTHER, **rules})
    assert not merged.marked and not merged.kept
    assert (merged.folder / "a.py").read_text() == OTHER.replace("line 1\n", "mine 1\n")


def test_values_move_to_the_names_that_settings_have_now(tmp_path: Path) -> None:
    moved = tomllib.loads((ROOT / "templates/core/base/renamed.toml").read_text(encoding="utf-8"))
    write(tmp_path / "before.toml", "epochs = 20\nfolds = 0  # how many\nsoup = 0\nema = 0.0\n")
    write(tmp_path / "yours.toml", "epochs = 20\nfolds = 5  # how many\nsoup = 3\nema = 0.0\n")
    values = take_values(tmp_path / "yours.toml", tmp_path / "before.toml", moved)
    assert values == {"folds": 5, "soup": 3}
    assert (tmp_path / "yours.toml").read_text() == (tmp_path / "before.toml").read_text()
    write(tmp_path / "merged.toml", "epochs = 20\n\n[folds]\ncount = 0  # 5: five times\n")
    said = put_values(tmp_path / "merged.toml", values, moved)
    text = (tmp_path / "merged.toml").read_text()
    assert text == "epochs = 20\n\n[folds]\ncount = 5  # 5: five times\n"
    assert said == [
        "config.toml: folds is now folds.count: 5 is there.",
        "config.toml: soup = 3 is now averaging.soup, which this project does not have: add it, or "
        "leave it out.",
    ]


# -------------------------------------------------------------- what the owner has around it


def merged_project(tmp_path: Path, before: dict, yours: dict, after: dict, done: bool = False):
    """Return the plan and the contents of an update of a small project, perhaps carried out."""
    for name, files in (("before", before), ("project", yours), ("after", after)):
        (tmp_path / name).mkdir(exist_ok=True)
        for path, content in files.items():
            target = tmp_path / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())
    (tmp_path / "private").mkdir()
    plan, project = Plan("1", "2"), tmp_path / "project"
    folders = (tmp_path / "before", tmp_path / "after")
    found = merge_project(project, *folders, plan, tmp_path / "private")
    add_changes(project, plan, found)
    if done:
        stage_plan(project, plan, found)
        carry_out(project, plan)
    return plan, found


def test_other_repositories_and_work_trees_are_left_alone(tmp_path: Path, capsys) -> None:
    """The project is itself a work tree, has another one inside, and a submodule."""
    main = tmp_path / "main"
    write(main / "train.py", TEXT)
    run_git(main, "init", "--quiet")
    run_git(main, "add", "--all")
    run_git(main, "commit", "--quiet", "--message", "all")
    project = tmp_path / "project"
    run_git(main, "worktree", "add", "--quiet", "-b", "work", str(project))
    run_git(main, "worktree", "add", "--quiet", "-b", "other", str(project / "experiment"))
    write(project / "experiment/mine.py", "ONE = 1\n")
    write(project / "third/.git", "gitdir: ../elsewhere\n")
    write(project / "third/theirs.py", "TWO = 2\n")
    there = contents(project)
    plan, _ = merged_project(tmp_path, {"train.py": TEXT}, {}, {"train.py": OTHER}, done=True)
    assert [*plan.writes] == ["train.py"] and not plan.deletes and not plan.copies
    assert contents(project) == {**there, "train.py": OTHER.encode()}
    assert not kept_by_git(project, ["experiment/mine.py"])
    assert not kept_by_git(project, ["experiment/train.py", "train.py"])
    assert "deleted" not in capsys.readouterr().out
    run_git(project, "status")


def test_a_changed_value_stays_between_the_marks_of_its_owner(tmp_path: Path) -> None:
    renamed = {"core/base/renamed.toml": 'precision = "devices.precision"\n'}
    new = 'epochs = 20\n[devices]\nprecision = "auto"\n'
    old = 'epochs = 20\nprecision = "auto"  # how exact\n'
    yours = 'epochs = 20\nprecision = "float32"  # my note\n'
    plan, found = merged_project(
        tmp_path,
        {"config.toml": old},
        {"config.toml": yours},
        {"config.toml": new, **renamed},
    )
    text = found["config.toml"].decode()
    assert '<<<<<<< yours\nprecision = "float32"  # my note\n=======' in text
    assert plan.marked == ["config.toml"] and plan.settings == [
        "config.toml: precision = 'float32' is now devices.precision: write it there when you have "
        "chosen between the marked lines."
    ]


def test_files_of_the_owner_are_as_they_want(tmp_path: Path) -> None:
    own = {
        "settings.json": '{"a": 1}  // with a comment\n',
        "marked.py": b"\xef\xbb\xbfONE = 1\n",
        "chinese.py": "# -*- coding: gbk -*-\nONE = '\u4e2d'\n".encode("gbk"),
        "old.py": "print 'two'\n",
        "left.py": "<<<<<<< yours\na = 1\n=======\na = 2\n>>>>>>> version-1\n",
    }
    plan, found = merged_project(
        tmp_path, {"a.md": TEXT}, {"a.md": TEXT, **own}, {"a.md": OTHER}, done=True
    )
    assert not plan.remarks and not plan.marked and found == {"a.md": OTHER.encode()}
    there = contents(tmp_path / "project")
    assert {n: c for n, c in there.items() if not n.startswith(REPLACED)} == {
        "a.md": OTHER.encode(),
        **{n: c if isinstance(c, bytes) else c.encode() for n, c in own.items()},
    }


def test_renamed_folders_get_no_foreign_files(tmp_path: Path) -> None:
    """What git would guess: a new file of a folder belongs where its owner has moved the others."""
    task = {f"task/{name}.md": f"{TEXT}{name}\n" for name in "abcd"}
    yours = {name.replace("task", "mine"): text for name, text in task.items()}
    plan, found = merged_project(tmp_path, task, yours, {**task, "task/new.py": "N = 1\n"})
    assert found == {"task/new.py": b"N = 1\n"} and not plan.remarks
    (tmp_path / "other").mkdir()
    yours = {**task, "task/own.py": "O = 1\n"}
    moved = {name.replace("task", "parts"): text for name, text in task.items()}
    plan, _ = merged_project(tmp_path / "other", task, yours, moved, done=True)
    assert not plan.remarks
    there = {n for n in contents(tmp_path / "other/project") if not n.startswith(REPLACED)}
    assert there == {*moved, "task/own.py"}


def test_a_file_that_both_renamed_and_a_link_lose_nothing(tmp_path: Path) -> None:
    mine = TEXT.replace("line 18", "mine 18")
    plan, _ = merged_project(
        tmp_path, {"a.md": TEXT}, {"mine.md": mine}, {"new.md": OTHER}, done=True
    )
    there = contents(tmp_path / "project")
    assert b"mine 18" in there["mine.md"] and b"new 18" in there["new.md"]
    assert plan.marked == ["mine.md", "new.md"] and not plan.remarks
    other = tmp_path / "other"
    write(other / "elsewhere.py", "E = 1\n")
    (other / "project").mkdir()
    (other / "project/a.py").symlink_to(other / "elsewhere.py")
    plan, _ = merged_project(other, {"a.py": TEXT}, {}, {"a.py": OTHER}, done=True)
    assert (other / "project/a.py").is_symlink()
    assert (other / "elsewhere.py").read_text() == "E = 1\n"
    assert (other / "project/a.py.new").read_text() == OTHER and [*plan.writes] == ["a.py.new"]
    assert plan.remarks == {
        "a.py": "a link, which stays; the file of the new version is next to it"
    }


def test_a_linked_config_keeps_its_values(tmp_path: Path) -> None:
    """Also if a setting has another name now: nothing is written through the link."""
    write(tmp_path / "shared.toml", "epochs = 77\n")
    (tmp_path / "project").mkdir()
    (tmp_path / "project/config.toml").symlink_to(tmp_path / "shared.toml")
    renamed = {"core/base/renamed.toml": 'epochs = "training.epochs"\n'}
    after = {"config.toml": "[training]\nepochs = 20\n", **renamed}
    plan, found = merged_project(tmp_path, {"config.toml": "epochs = 20\n"}, {}, after)
    assert (tmp_path / "shared.toml").read_text() == "epochs = 77\n"
    assert "config.toml" in plan.remarks and found["config.toml.new"] is not None
    assert {*plan.writes} == {"config.toml.new", *renamed}


def test_a_file_in_the_way_of_a_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="parts is a file where version 2 has a folder"):
        merged_project(tmp_path, {}, {"parts": "mine\n"}, {"parts/a.py": "A = 1\n"})
    assert (tmp_path / "project/parts").read_text() == "mine\n"
    other = tmp_path / "other"
    other.mkdir()
    merged_project(other, {"parts": "1\n"}, {"parts": "1\n"}, {"parts/a.py": ""}, done=True)
    assert (other / "project/parts/a.py").is_file()


def test_a_link_to_unchanged_files_and_rights_stay(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere/dev.jsonl", "{}\n")
    write(tmp_path / "project/config.toml", "a = 1\n")
    (tmp_path / "project/config.toml").chmod(0o600)
    (tmp_path / "project/sample").symlink_to(tmp_path / "elsewhere")
    sample = {"sample/dev.jsonl": "{}\n"}
    merged_project(
        tmp_path,
        {"config.toml": "a = 1\n", **sample},
        {},
        {"config.toml": "a = 2\n", **sample},
        done=True,
    )
    assert (tmp_path / "project/config.toml").read_text() == "a = 2\n"
    assert (tmp_path / "project/config.toml").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "project/sample").is_symlink()


def test_a_file_that_was_moved_away_gets_its_place_again(tmp_path: Path) -> None:
    plan, found = merged_project(tmp_path, {"a.md": TEXT}, {"a.md": TEXT}, {"a.md": OTHER})
    project = tmp_path / "project"
    stage_plan(project, plan, found)
    write(project / "a.md", "changed\n")
    with pytest.raises(InputError, match="move it away, run `baselines update` again"):
        carry_out(project, plan)
    (project / "a.md").rename(project / "mine.md")
    assert carry_out(project, read_plan(project))
    assert (project / "a.md").read_text() == OTHER
    assert (project / "mine.md").read_text() == "changed\n"


def test_a_file_that_git_took_back_is_written_again(tmp_path: Path) -> None:
    """An update is killed after a file; `git checkout .` undoes what it has done."""
    old, new = ({"a.md": TEXT, "b.md": TEXT}, {"a.md": OTHER, "b.md": OTHER})
    plan, found = merged_project(tmp_path, old, old, new)
    project = tmp_path / "project"
    stage_plan(project, plan, found)
    write(project / "b.md", "changed\n")
    for _ in range(2):
        write(project / "a.md", TEXT)
        with pytest.raises(InputError, match="b.md was changed after the update had begun"):
            carry_out(project, read_plan(project))
        assert (project / "a.md").read_text() == OTHER
    (project / "b.md").unlink()
    assert carry_out(project, read_plan(project))
    assert {(project / name).read_text() for name in old} == {OTHER}
    assert not (project / STAGED).exists()


def test_an_extra_that_is_gone_is_not_rendered(tmp_path: Path) -> None:
    write(tmp_path / "extras/doctor/hooks.py", "")
    write(tmp_path / "extras/lora/__pycache__/hooks.pyc", "")  # what `git rm -r` leaves
    (tmp_path / "extras/cluster").mkdir()
    known = {"project_slug": "mine", "extras": "cluster, doctor, lora", "strategy": "multi_worker"}
    found = present_answers(tmp_path, known)
    assert found == {"project_slug": "mine", "extras": "doctor", "strategy": "auto"}
    write(tmp_path / "extras/cluster/hooks.py", "")
    assert present_answers(tmp_path, known)["strategy"] == "multi_worker"


def test_data_next_to_the_project_is_found(versions, tmp_path: Path) -> None:
    """The endings of the files, and a sample of the submission, as baking has found them."""
    _, new, _ = versions
    place = tmp_path / "home/project"
    place.mkdir(parents=True)
    for name in ("train.csv", "dev.csv", "test.csv", "sample_submission.csv"):
        write(tmp_path / "home/data" / name, "id,text,label\n")
    asked = {**answers("mine"), "data_folder": "../data", "extras": "competition"}
    made = render(new, "text_classification", asked, tmp_path / "private", place)
    config = tomllib.loads((made / "config.toml").read_text())
    assert (config["train_file"], config["dev_file"]) == ("../data/train.csv", "../data/dev.csv")
    assert config["competition"]["sample_submission"] == "../data/sample_submission.csv"


def test_other_spellings_of_the_origin_are_no_change(
    versions, rendered, tmp_path: Path, capsys
) -> None:
    """As cookiecutter and git write it: with escapes, and the line ends of Windows."""
    _, new, _ = versions
    asked = {**answers("mine"), "data_folder": "../数据"}
    made = render(new, "relation_extraction", asked, tmp_path / "a")
    with_commit(made, new.origin["commit"], new.origin["address"])
    origin = json.loads((made / ".cookiecutter.json").read_text())
    (made / ".cookiecutter.json").write_text(json.dumps(origin, indent=1), newline="\r\n")
    capsys.readouterr()
    assert update(new.folder, made, to=str(new.folder), from_=str(new.folder), check=True)
    assert "would become" not in capsys.readouterr().out


def test_a_git_without_merges_of_trees_is_said(tmp_path: Path, monkeypatch) -> None:
    old = tmp_path / "bin/git"
    answers = "version) echo git version 2.34.1;; *merge-tree*) exit 129;;"
    write(old, f'#!/bin/sh\ncase "$*" in {answers} *) exec {shutil.which("git")} "$@";; esac\n')
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}:{os.environ['PATH']}")
    with pytest.raises(InputError, match="git 2.38 or newer is needed, and this is 2.34.1"):
        three(tmp_path, {"a.py": TEXT}, {"a.py": TEXT}, {"a.py": OTHER})


def test_a_version_is_looked_for_at_both_addresses(tmp_path: Path, monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(versions_module, "look_up", lambda *_: None)
    monkeypatch.setattr(versions_module, "git", lambda *command, **_: asked.append(command[-2]))
    own = SimpleNamespace(find_commit=lambda _: {"address": "https://a/own"})
    monkeypatch.setattr(versions_module, "load_baking", lambda _: own)
    with pytest.raises(InputError, match="not in https://a/own and https://b/fork: name a folder"):
        find_version(tmp_path, None, "v1", {"address": "https://b/fork"}, tmp_path / "old")
    assert asked == ["https://a/own", "https://b/fork"]


# ------------------------------------------------------------------------------- sentences


def test_a_broken_note_of_where_it_came_from_is_a_sentence(tmp_path: Path, capsys) -> None:
    good = {"version": "0.1", "template": "seq2seq", "cookiecutter": {"project_slug": "mine"}}
    for change in (
        {"cookiecutter": {}},
        {"cookiecutter": 3},
        {"cookiecutter": {"project_slug": 5}},
        {"commit": 5},
        {"template": 5},
        {"version": None},
    ):
        write(tmp_path / ".cookiecutter.json", json.dumps({**good, **change}))
        for command in (("update",), ("add", "orbit", "--to")):
            said = refused(*command, tmp_path, capsys=capsys)
            assert ".cookiecutter.json is broken (" in said and "restore it" in said
    del good["template"]
    write(tmp_path / ".cookiecutter.json", json.dumps(good))
    assert 'names no template: add the line "template"' in refused(
        "update", tmp_path, capsys=capsys
    )
    write(tmp_path / STAGED / "plan.json", "{}")
    said = refused("update", tmp_path, capsys=capsys)
    assert "plan.json is not of this version of `baselines`" in said
    (tmp_path / ".cookiecutter.json").unlink()
    refused("update", tmp_path, capsys=capsys)
    assert (tmp_path / STAGED / "plan.json").is_file()  # another folder is not touched


def refused(*command: str | Path, capsys) -> str:
    """Return what `baselines` says when it refuses."""
    from generator.cli import main

    sys.argv = ["baselines", *map(str, command)]
    with pytest.raises(SystemExit) as ending:
        main()
    assert str(ending.value.code).startswith("error: "), ending.value.code
    return str(ending.value.code)


@pytest.mark.further
def test_what_can_not_be_updated_is_said(versions, rendered, tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["baselines"])
    assert "has no .cookiecutter.json" in refused("update", tmp_path, capsys=capsys)
    project = tmp_path / "relation_extraction"
    shutil.copytree(rendered("relation_extraction")[0], project)
    with_commit(project, "")
    say = refused("update", project, capsys=capsys)
    assert say.endswith(
        "with --from the one that the project was made from, or with --to the new one."
    )
    with_commit(project, versions[0].origin["commit"])
    before = contents(project)
    for unknown in ("9.9", "--help-me", "no-such-folder"):
        assert "is not in" in refused("update", project, "--to", unknown, capsys=capsys)
    assert "has no templates/baking.py" in refused(
        "update", project, "--to", tmp_path, capsys=capsys
    )
    old, new = (contents(folder) for folder in rendered("relation_extraction"))
    for name in sorted(new.keys() - old.keys())[:1]:  # the old version has no such file
        (project / name).mkdir(parents=True)
        assert "is a folder where version" in refused("update", project, capsys=capsys)
        (project / name).rmdir()
    (project / "core").rename(tmp_path / "core")
    (project / "core").symlink_to(tmp_path / "core")
    assert "would write outside" in refused("update", project, capsys=capsys)
    (project / "core").unlink()
    (tmp_path / "core").rename(project / "core")
    assert contents(project) == before
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git is needed" in refused("update", project, capsys=capsys)


@pytest.mark.further
def test_git_keeps_what_it_has_committed(versions, rendered, tmp_path: Path) -> None:
    old, _, folder = versions
    project = tmp_path / "relation_extraction"
    shutil.copytree(rendered("relation_extraction")[0], project)
    with_commit(project, old.origin["commit"])
    run_git(project, "init", "--quiet")
    run_git(project, "add", "--all")
    run_git(project, "commit", "--quiet", "--message", "all")
    assert update(ROOT, project)
    assert not (project / REPLACED).exists()
    run_git(project, "stash", "--quiet", "--include-untracked")
    write(project / "README.md", "mine, and not committed\n" + (project / "README.md").read_text())
    update(ROOT, project)
    assert (project / REPLACED / old.label / "README.md").read_text().startswith("mine, and")


# ------------------------------------------------------------------------- where it came from


def test_baking_keeps_the_address_and_the_commit(tmp_path: Path) -> None:
    clone = copy_repository(tmp_path / "clone")
    run_git(clone, "init", "--quiet")
    write(clone / ".gitignore", (ROOT / ".gitignore").read_text())
    run_git(clone, "add", "--all")
    run_git(clone, "commit", "--quiet", "--message", "all")
    commit = run_git(clone, "rev-parse", "HEAD")
    secret = "https://me:secret@example.org/team/baselines.git"
    for remote, address in (
        (secret, "https://example.org/team/baselines.git"),
        ("git@example.org:team/baselines.git", "git@example.org:team/baselines.git"),
        (str(tmp_path), ""),
        ("file:///srv/baselines", ""),
    ):
        run_git(clone, "config", "remote.origin.url", remote)
        found = load_baking(clone / "templates").find_commit({})
        assert found == {"address": address, "commit": commit}
    write(clone / "templates/core/new.py", "")
    done = run_without_questions(clone, "--directory", "templates/seq2seq", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    [project] = tmp_path.glob("*_project")
    origin = json.loads((project / ".cookiecutter.json").read_text())
    assert (origin["commit"], origin["modified"]) == (commit, True)


def test_two_versions_and_two_tasks_are_never_mixed(tmp_path: Path) -> None:
    """`cookiecutter -f` writes into a folder that exists."""
    clone = copy_repository(tmp_path / "clone")
    slug = "project_slug=mine"
    done = run_without_questions(clone, "--directory", "templates/seq2seq", slug, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    before = contents(tmp_path / "mine")
    again = ("-f", "-s", clone, "--directory")
    other = run_without_questions(*again, "templates/pretraining", slug, cwd=tmp_path)
    assert other.returncode == 1 and other.stderr == (
        "error: mine is a project of seq2seq, and this is the template of pretraining: answer "
        "another project_slug.\n"
    )
    version = clone / "generator/__init__.py"
    write(version, version.read_text().replace('__version__ = "', '__version__ = "9'))
    newer = run_without_questions(*again, "templates/seq2seq", slug, cwd=tmp_path)
    assert newer.returncode == 1 and "run `baselines update mine`" in newer.stderr
    assert contents(tmp_path / "mine") == before


@pytest.mark.further
def test_cruft_creates_checks_compares_and_updates(tmp_path: Path) -> None:
    """With the package itself; between its two commits a hook and baking change their words."""
    pytest.importorskip("cruft", reason="cruft is not installed: pip install cruft")
    clone = copy_repository(tmp_path / "clone")
    write(clone / ".gitignore", (ROOT / ".gitignore").read_text())
    run_git(clone, "init", "--quiet")
    run_git(clone, "add", "--all")
    run_git(clone, "commit", "--quiet", "--message", "first")

    def cruft(*command: str | Path, cwd: Path) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "cruft", *map(str, command)],
            cwd=cwd,
            capture_output=True,
            text=True,
            env={**os.environ, "HOME": str(tmp_path)},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    cruft(
        "create", clone, "--directory", "templates/relation_extraction", "--no-input", cwd=tmp_path
    )
    project = tmp_path / "relation_extraction_project"
    # The hook says what comes next; no difference is shown.
    assert "diff --git" not in cruft("diff", cwd=project)
    cruft("check", cwd=project)
    run_git(project, "init", "--quiet")
    write(project / "train.py", (project / "train.py").read_text() + "# mine\n")
    run_git(project, "add", "--all")
    run_git(project, "commit", "--quiet", "--message", "mine")
    baking = clone / "templates/baking.py"
    write(baking, baking.read_text().replace("unwanted", "not_chosen"))
    write(clone / "templates/core/new.py", '"""New."""\n')
    run_git(clone, "add", "--all")
    run_git(clone, "commit", "--quiet", "--message", "second")
    cruft("update", "--skip-apply-ask", cwd=project)
    assert (project / "core/new.py").is_file() and not (project / "extras/lora").exists()
    assert (project / "train.py").read_text().endswith("# mine\n")
    cruft("check", cwd=project)
