"""Zip every baseline for offline machines: project, results, encoder."""

import tempfile
import zipfile
from pathlib import Path

from tqdm import tqdm

from generator.baselines import ENCODER, Baseline, find_baselines
from generator.build import RESULTS
from generator.files import check_folder, copy_file, list_files, sha256, write_bytes, write_text
from generator.recipes import bake_whole

CHECKSUMS = "SHA256SUMS"
# The earliest time that a zip file can store.
TIME = (1980, 1, 1, 0, 0, 0)
UNIX = 3


def release(root: Path, folder: Path, names: list[str] | None = None) -> None:
    """Write a zip for each baseline, and their checksums for `sha256sum --check`.

    The same repository gives the same bytes, on any machine.

    Args:
        root: the repository.
        folder: where the files go.
        names: the baselines; all by default.
    """
    check_folder(folder)
    sums = folder / CHECKSUMS
    known = sums.read_text(encoding="utf-8").splitlines() if sums.is_file() else []
    # Those of an earlier release into the same folder stay, while their zips are there.
    digests = {name: digest for digest, name in map(str.split, known) if (folder / name).is_file()}
    with tqdm(find_baselines(root, names), desc="release") as progress:
        for baseline in progress:
            progress.set_postfix_str(baseline.name)
            path = folder / f"{baseline.name}.zip"
            with tempfile.TemporaryDirectory() as private:
                write_zip(whole_project(root, baseline, Path(private)), path)
            digests[path.name] = sha256(path.read_bytes()).removeprefix("sha256:")
    lines = [f"{digest}  {name}\n" for name, digest in sorted(digests.items())]
    write_text(sums, "".join(lines))
    print(f"{folder}: {len(lines)} zips, and {CHECKSUMS}, which `sha256sum --check` reads")


def whole_project(root: Path, baseline: Baseline, parent: Path) -> Path:
    """Return a baseline's project with its results, and the encoder it starts from or made."""
    project = bake_whole(root, baseline, parent)
    source = baseline.folder(root)
    for name in (*RESULTS, ENCODER):
        if (source / name).is_file():
            copy_file(source / name, project / name)
        for path in list_files(source / name):
            copy_file(source / name / path, project / name / path)
    return project


def write_zip(project: Path, path: Path) -> None:
    """Zip a folder, sorted and without times.

    The zip is not compressed, because versions of zlib compress differently.
    """
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name in sorted(list_files(project), key=lambda name: name.as_posix()):
                executable = (project / name).stat().st_mode & 0o100
                entry = zipfile.ZipInfo(f"{project.name}/{name.as_posix()}", TIME)
                entry.create_system = UNIX
                entry.external_attr = (0o100755 if executable else 0o100644) << 16
                archive.writestr(entry, (project / name).read_bytes())
        file.seek(0)
        write_bytes(path, file.read())
