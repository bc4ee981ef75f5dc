"""From official files to a folder with train.jsonl, dev.jsonl, test.jsonl and SOURCE.md.

Also from a user's own file, in one of these formats, to records.
"""

import importlib
from collections.abc import Callable, Iterable
from pathlib import Path

from generator import InputError
from generator.data_sets import event_extraction as events
from generator.data_sets import named_entity_recognition as entities
from generator.data_sets import reading_comprehension as questions
from generator.data_sets import relation_extraction as relations
from generator.data_sets import seq2seq, text_classification
from generator.data_sets.reading import Everything, Records, add_record
from generator.data_sets.registry import SPLITS, DataSet, find_data_set
from generator.files import json_lines, sha256, write_bytes, write_text

ALL = Everything()
# Format -> function that reads the records of a file, in its order.
FORMATS: dict[str, Callable[[Path], Iterable[dict]]] = {
    "squad": lambda path: (record for _, record in questions.read_records(path, ALL)),
    "cmrc2018": lambda path: (record for _, record in questions.read_cmrc(path, ALL)),
    "drcd": lambda path: (record for _, record in questions.read_records(path, ALL)),
    "knowledgenet": lambda path: (record for _, record in relations.read_passages(path, ALL)),
    "finre": lambda path: relations.read_sentences(path, ALL).values(),
    "phee": lambda path: (record for _, record in events.read_phee(path, ALL)),
    "fewfc": lambda path: (record for _, record in events.read_fewfc(path, ALL)),
    "e2e": lambda path: seq2seq.reference_records(seq2seq.read_pairs(path, ALL)).values(),
    "csl_title": lambda path: seq2seq.reference_records(seq2seq.read_titles(path)).values(),
    "selqa": lambda path: text_classification.candidate_records(
        text_classification.read_rows(path)
    ).values(),
    "wnut17": lambda path: (record for _, record in entities.read_wnut17(path, ALL)),
    "weibo": lambda path: (record for _, record in entities.read_weibo(path, ALL)),
    "emobank": text_classification.read_emobank,
}


def convert_file(name: str, source: Path, out: Path) -> None:
    """Convert a file in the format of a data set to records, and print their number.

    Args:
        name: a key of `FORMATS`.
        source: the file; all of its records are converted.
        out: the JSON Lines file, written atomically.

    Raises:
        InputError: unknown format, a file in another format, or `out` can't be written.
    """
    if name not in FORMATS:
        raise InputError(f"no format {name!r}: the names are {', '.join(FORMATS)}.")
    if out.is_dir() or (out.exists() and out.samefile(source)):
        raise InputError(f"{out} is a folder, or the file to convert: name a file to write.")
    records: Records = {}
    try:
        for record in FORMATS[name](source):
            add_record(records, record, str(source))
        content = json_lines(records.values())
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise InputError(
            f"{source}: {half} is half of a character: write both halves, or the character itself."
        ) from error
    except InputError as error:
        raise InputError(str(error).replace("fetch the file again", "correct the file")) from error
    if not records:
        raise InputError(f"{source} holds no record in the format {name}: check the format.")
    write_bytes(out, content)
    print(f"{out}: {len(records)} records")
    texts = sum("answer_texts" in record for record in records.values())
    if texts:
        print(f"of {texts} questions some answers are no spans of the passage: see answer_texts")


def get_data_set(
    name: str, folder: Path, local: Path | None = None, cache: Path | None = None
) -> dict[str, str]:
    """Fetch and convert a data set, and print what its users must know.

    Args:
        name: the data set.
        folder: where train.jsonl, dev.jsonl, test.jsonl and SOURCE.md go.
        local: a local copy of the official files; without it they are downloaded.
        cache: folder that keeps downloads.

    Returns:
        The data hash of each split.

    Raises:
        InputError: something is missing, broken or different from the pinned files.
    """
    data_set = find_data_set(name)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: name a folder for the converted files.")
    if local:
        files = local_files(data_set, local)
    else:
        # Imported here, because the downloader imports slowly.
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
        folder: a clone of the official repository, or a folder with only the files.

    Raises:
        InputError: the folder is neither.
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
    """Convert a data set and write it, completely or not at all.

    Args:
        data_set: the data set.
        files: the files in the official format.
        folder: gets the converted files.

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
    """Return the note for the converted files: origin, licence, citation."""
    files = "\n".join(f"- `{source.path}` (git blob {source.blob})" for source in data_set.sources)
    return f"""# {data_set.name}

{data_set.summary[0].upper()}{data_set.summary[1:]} ({data_set.language}).

Converted from https://github.com/{data_set.repository} at commit {data_set.commit}:

{files}

Splits: {data_set.division}.

Licence: {data_set.licence}

Please cite: {data_set.citation}
"""
