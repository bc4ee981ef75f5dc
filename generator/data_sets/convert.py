"""From official files to a folder with train.jsonl, dev.jsonl, test.jsonl and SOURCE.md.

Also from a user's own file, in one of these formats, to records.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from extras.host_formats.formats import FORMATS as HOST_FORMATS
from extras.host_formats.formats import read_sources
from extras.host_formats.options import Options, listed
from extras.host_formats.records import Conversion, with_distinct_ids
from extras.host_formats.source_files import SourceError
from generator import InputError
from generator.data_sets.event_extraction import read_fewfc, read_phee
from generator.data_sets.named_entity_recognition import read_weibo, read_wnut17
from generator.data_sets.pinned import pick_splits, pool
from generator.data_sets.reading_comprehension import read_squad
from generator.data_sets.registry import SPLITS, DataSet, find_data_set
from generator.data_sets.relation_extraction import (
    read_finre,
    read_knowledgenet,
    read_redocred,
)
from generator.data_sets.seq2seq import read_csl_title, read_e2e
from generator.data_sets.text_classification import (
    EMOBANK_TARGETS,
    read_emobank,
    read_selqa,
    read_semeval2010,
    read_ukpconvarg,
)
from generator.files import check_folder, json_lines, sha256, write_bytes, write_text

# From files to `(place, record)`, in the order of the files.
Reader = Callable[[list[Path], Conversion], Iterable[tuple[str, dict]]]
# Format, which is the name of a data set -> its reader.
FORMATS: dict[str, Reader] = {
    "squad": read_squad,
    "cmrc2018": read_squad,
    "drcd": read_squad,
    "knowledgenet": read_knowledgenet,
    "finre": read_finre,
    "phee": read_phee,
    "fewfc": read_fewfc,
    "e2e": read_e2e,
    "csl_title": read_csl_title,
    "selqa": read_selqa,
    "wnut17": read_wnut17,
    "weibo": read_weibo,
    "emobank": read_emobank,
    "redocred": read_redocred,
    "semeval2010": read_semeval2010,
    "ukpconvarg": read_ukpconvarg,
}
# Ids of these name texts, of which two splits may hold the same: each split has a file of its own.
SPLIT_BY_FILE = ("finre", "e2e")
NOTE = "SOURCE.md"
# A record without any of these is unlabelled.
GOLD = {"answers", "triples", "events", "entities", "targets", "label", *EMOBANK_TARGETS}


def convert_file(name: str, source: Path, out: Path, options: Options | None = None) -> None:
    """Convert a file in the format of a data set, or of a host, to records; print their number.

    Args:
        name: a key of `FORMATS` or `HOST_FORMATS`.
        source: the file, or the folder of brat; all of its records are converted.
        out: the JSON Lines file, written atomically.
        options: how the file of a host is read; None: as it usually is.

    Raises:
        InputError: unknown format, a file in another format, or `out` can't be written.
    """
    if name not in (*FORMATS, *HOST_FORMATS):
        names = ", ".join([*FORMATS, *HOST_FORMATS])
        raise InputError(f"no format {name!r}: the names are {names}.")
    if out.is_dir() or (out.exists() and source.exists() and out.samefile(source)):
        raise InputError(f"{out} is a folder, or the file to convert: name a file to write.")
    is_folder = name in HOST_FORMATS and source.is_dir()
    if is_folder and out.resolve().is_relative_to(source.resolve()):
        raise InputError(f"{out} is in the folder that is converted: name a file elsewhere.")
    conversion = Conversion()
    with advice("correct the file"):
        if name in HOST_FORMATS:
            options = options or Options(choose_task(name, ""))
            records = read_sources(name, source, options, conversion)[1]
        else:
            records = read_data_set(name, source, conversion)
        content = encode(records, source)
    write_bytes(out, content)
    print(f"{out}: {len(records)} records", *conversion.sentences(), sep="\n")


def host_options(
    name: str, task: str, fields: tuple[str, str, str], columns: tuple[int, int], join: str
) -> Options | None:
    """Return how the file of a host is read; None: `name` is a data set, which is read in one way.

    Args:
        name: of the format.
        task: of the records, where the format of a host is that of several tasks.
        fields: `text_field` and `label_field` of `Options`; labels of a text: "one", "several", "".
        columns: `token_column` and `tag_column` of `Options`.
        join: of `Options`.

    Raises:
        InputError: one has an unknown value, or the format is read in one way.
    """
    text_field, label_field, labels = fields
    for flag, value, known in (
        ("--labels", labels, ("", "one", "several")),
        ("--join", join, ("auto", "space", "none")),
    ):
        if value not in known:
            raise InputError(f"{flag} {value} is unknown: write {listed(filter(None, known))}.")
    if name not in HOST_FORMATS:
        if any((task, *fields)) or (*columns, join) != (1, -1, "auto"):
            raise InputError(f"{name} is read in one way: leave the options out.")
        return None
    several = {"": None, "one": False, "several": True}[labels]
    chosen = choose_task(name, task)
    return Options(chosen, text_field, label_field, several, *columns, join)


def choose_task(name: str, task: str) -> str:
    """Return the task of the records of a host's format.

    Raises:
        InputError: the format is that of several tasks, and none is named.
    """
    tasks = HOST_FORMATS[name].tasks
    if not task and len(tasks) > 1:
        raise InputError(f"{name} holds records of {listed(tasks)}: name one with --task.")
    return task or tasks[0]


def read_data_set(name: str, source: Path, conversion: Conversion) -> list[dict]:
    """Return all records of a file in the format of a data set.

    Raises:
        InputError: there is none.
    """
    found = list(FORMATS[name]([source], conversion))
    if not found:
        raise InputError(f"{source} holds no record in the format {name}: check the format.")
    for where, record in found:
        if not GOLD & record.keys():
            conversion.remark("unlabelled records, which only predict.py reads", where)
    return list(with_distinct_ids(found, conversion))


def encode(records: list[dict], source: Path) -> bytes:
    """Return records as JSON Lines.

    Raises:
        InputError: a text holds half of a character, which JSON may write as an escape.
    """
    try:
        return json_lines(records)
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise InputError(
            f"{source}: {half} is half of a character: write both halves, or the character itself."
        ) from error


@contextmanager
def advice(what_to_do: str) -> Iterator[None]:
    """Say what to do where a source is found to be broken."""
    try:
        yield
    except SourceError as error:
        raise InputError(f"{error}: {error.fix or what_to_do}.") from error


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
    check_folder(folder)
    refuse_other_files(data_set, folder)
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


def refuse_other_files(data_set: DataSet, folder: Path) -> None:
    """Refuse to replace files of a folder that a data set was not fetched to before.

    Raises:
        InputError: it has files of these names, of its owner or of another data set.
    """
    names = [f"{split}.jsonl" for split in SPLITS]
    there = [name for name in (*names, NOTE) if (folder / name).exists()]
    note = folder / NOTE
    own = note.is_file() and note.read_bytes().startswith(f"# {data_set.name}\n".encode())
    pinned = {f"{split}.jsonl": value for split, value in data_set.hashes.items()}
    other = [n for n in there if n == NOTE or sha256((folder / n).read_bytes()) != pinned[n]]
    if other and not own:
        raise InputError(
            f"{folder} has {' and '.join(other)} already, not of {data_set.name}: name another "
            "folder with --to, or move them away."
        )


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
    splits = {split: data_set.split_ids(split) for split in SPLITS}
    with advice("fetch it again"):
        conversion, records = read_splits(data_set.name, files, splits)
    contents = {split: json_lines(each) for split, each in records.items()}
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
    write_text(folder / NOTE, source_note(data_set))
    for sentence in conversion.sentences():
        print(sentence)
    return hashes


def read_splits(
    name: str, files: list[Path], splits: dict[str, list[str]]
) -> tuple[Conversion, dict[str, list[dict]]]:
    """Read the records of each split, in the pinned order.

    Args:
        name: a key of `FORMATS`.
        files: any of them may hold any record, but for `SPLIT_BY_FILE`: one a split, in order.
        splits: the pinned ids of each.

    Returns:
        What the conversion has to say, and the records.

    Raises:
        SourceError: a file is broken, or a pinned record is missing.
    """
    parts = [(files, splits)]
    if name in SPLIT_BY_FILE:
        parts = [([path], {s: splits[s]}) for path, s in zip(files, splits, strict=True)]
    remarks: dict[str, tuple[int, str]] = {}
    records: dict[str, list[dict]] = {}
    for paths, part in parts:
        wanted = {record for ids in part.values() for record in ids}
        conversion = Conversion(wanted, pinned=True, remarks=remarks)
        records |= pick_splits(pool(FORMATS[name](paths, conversion), conversion), part, paths)
    return conversion, records


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
