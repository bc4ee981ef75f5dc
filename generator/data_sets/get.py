"""Get a data set: its files, its conversion, its licence and citation."""

from pathlib import Path

from generator.data_sets.convert import convert_data_set, local_files
from generator.data_sets.registry import find_data_set
from generator.errors import InputError


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
