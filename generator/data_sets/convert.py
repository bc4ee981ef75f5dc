"""From official files to a folder with train.jsonl, dev.jsonl, test.jsonl and SOURCE.md."""

import importlib
from pathlib import Path

from generator import InputError
from generator.data_sets.registry import SPLITS, DataSet, find_data_set
from generator.files import json_lines, sha256, write_bytes, write_text


def get_data_set(
    name: str, folder: Path, local: Path | None = None, cache: Path | None = None
) -> dict[str, str]:
    """Fetch and convert a data set, and print what its users have to know.

    Args:
        name: the data set.
        folder: where train.jsonl, dev.jsonl, test.jsonl and SOURCE.md go.
        local: a local copy of the official files; without it they are downloaded.
        cache: folder that keeps downloads.

    Returns:
        The data hash of each split.

    Raises:
        InputError: something is missing, broken or different from what is pinned.
    """
    data_set = find_data_set(name)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: name a folder for the converted files.")
    if local:
        files = local_files(data_set, local)
    else:
        # The downloader's imports cost more than a conversion needs.
        from generator.data_sets.download import download

        files = download(data_set, cache)
    hashes = convert_data_set(data_set, files, folder)
    for split, value in hashes.items():
        print(f"{folder / split}.jsonl  {len(data_set.split_ids(split))} records  {value}")
    print(f"licence: {data_set.licence}")
    print(f"please cite: {data_set.citation}")
    return hashes


def local_files(data_set: DataSet, folder: Path) -> list[Path]:
    """Find the files of a data set in a local folder.

    Args:
        data_set: the data set.
        folder: a clone of the official repository, or a folder with the bare files.

    Raises:
        InputError: the folder holds neither.
    """
    official = [folder / source.path for source in data_set.sources]
    if all(path.is_file() for path in official):
        return official
    bare = [folder / name for name in data_set.local_files]
    found = [path for path in bare if path.is_file()]
    if found and (len(data_set.sources) == 1 or found == bare):
        return found
    raise InputError(
        f"{folder} does not hold {data_set.name}: it needs"
        f" {' and '.join(source.path for source in data_set.sources)},"
        f" or {', '.join(data_set.local_files)}."
    )


def convert_data_set(data_set: DataSet, files: list[Path], folder: Path) -> dict[str, str]:
    """Convert a data set and write it, all of it or nothing.

    Args:
        data_set: the data set.
        files: the files in the official format.
        folder: where the converted files go.

    Returns:
        The data hash of each split.

    Raises:
        InputError: a file is broken, or the result is not the pinned one.
    """
    module = importlib.import_module(f"generator.data_sets.{data_set.task}")
    convert = getattr(module, f"convert_{data_set.converter}")
    splits = {split: data_set.split_ids(split) for split in SPLITS}
    contents = {split: json_lines(records) for split, records in convert(files, splits).items()}
    hashes = {split: sha256(content) for split, content in contents.items()}
    for split in SPLITS:
        if hashes[split] != data_set.hashes[split]:
            raise InputError(
                f"{files[0].parent}: the {split} split of {data_set.name} has the data hash"
                f" {hashes[split]} instead of {data_set.hashes[split]}: the source was changed,"
                " fetch it again."
            )
    for split, content in contents.items():
        write_bytes(folder / f"{split}.jsonl", content)
    write_text(folder / "SOURCE.md", source_note(data_set))
    return hashes


def source_note(data_set: DataSet) -> str:
    """Return the text that goes with the converted files: origin, licence, citation."""
    files = "\n".join(f"- `{source.path}` (git blob {source.blob})" for source in data_set.sources)
    return f"""# {data_set.name}

{data_set.summary[0].upper()}{data_set.summary[1:]} ({data_set.language}).

Converted from https://github.com/{data_set.repository} at commit {data_set.commit}:

{files}

Splits: {data_set.division}.

Licence: {data_set.licence}

Please cite: {data_set.citation}
"""
