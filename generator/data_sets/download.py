"""Fetch official files at their pinned commit, resumably, and check their git blob id."""

import os
from pathlib import Path

import pooch
import requests
from tqdm import tqdm

from generator import InputError
from generator.data_sets.registry import DataSet, Source
from generator.files import git_blob

# A mirror may replace it, as in the tests.
BASE_URL_VARIABLE = "BASELINES_BASE_URL"
BASE_URL = "https://raw.githubusercontent.com"
CHUNK = 1 << 16


def download(data_set: DataSet, cache: Path | None = None) -> list[Path]:
    """Fetch the official files of a data set, or find them in the cache.

    Args:
        data_set: the data set.
        cache: folder that keeps downloads; by default the user's cache folder.

    Returns:
        The verified files, in the order of the data set's sources.

    Raises:
        InputError: a file cannot be fetched, or is not the pinned one.
    """
    root = cache or Path(pooch.os_cache("baselines"))
    folder = root / data_set.name / data_set.commit
    base = os.environ.get(BASE_URL_VARIABLE, BASE_URL).rstrip("/")
    files = []
    for source in data_set.sources:
        url = f"{base}/{data_set.repository}/{data_set.commit}/{source.path}"
        files.append(fetch(url, source, folder / Path(source.path).name))
    return files


def fetch(url: str, source: Source, path: Path) -> Path:
    """Fetch one file, unless a verified copy exists."""
    if path.is_file():
        if git_blob(path.read_bytes()) == source.blob:
            return path
        path.unlink()
    pooch.get_logger().setLevel("ERROR")
    try:
        pooch.retrieve(
            url,
            known_hash=None,  # The downloader checks the git blob id before the file gets its name.
            fname=path.name,
            path=path.parent,
            downloader=ResumingDownloader(source, path.with_name(path.name + ".part")),
        )
    except PermissionError as error:
        raise InputError(
            f"{path.parent} can't be written: name another folder with --cache."
        ) from error
    return path


class ResumingDownloader:
    """A downloader for pooch that resumes an interrupted download.

    Args:
        source: the expected file.
        partial: stores the bytes until they are complete.
    """

    def __init__(self, source: Source, partial: Path) -> None:
        self.source = source
        self.partial = partial

    def __call__(self, url: str, output_file: str, _: pooch.Pooch) -> None:
        """Write the verified content of `url` to `output_file`."""
        resumed = self.partial.is_file()
        content = self.receive(url)
        if resumed and git_blob(content) != self.source.blob:
            # The partial file may belong to another file, so start again once.
            self.partial.unlink()
            content = self.receive(url)
        self.partial.unlink()
        found = git_blob(content)
        if found != self.source.blob:
            raise InputError(
                f"{url} is not the pinned file: its git blob id is {found} instead of"
                f" {self.source.blob}: try again, or give a local copy with --from."
            )
        Path(output_file).write_bytes(content)

    def receive(self, url: str) -> bytes:
        """Return the whole content, using an existing partial file."""
        start = self.partial.stat().st_size if self.partial.is_file() else 0
        # Compressed bytes could be neither counted nor requested from the middle.
        headers = {"Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        try:
            with requests.get(url, headers=headers, stream=True, timeout=30) as response:
                if response.status_code == requests.codes.requested_range_not_satisfiable:
                    return self.partial.read_bytes()
                response.raise_for_status()
                self.append(response, start)
        except requests.HTTPError as error:
            status = error.response.status_code if error.response is not None else "unknown"
            raise InputError(
                f"{url} cannot be fetched (status {status}): try later, or give a local copy"
                " with --from."
            ) from error
        except requests.RequestException as error:
            size = self.partial.stat().st_size if self.partial.is_file() else 0
            raise InputError(
                f"{url} stopped after {size} bytes ({type(error).__name__}): run the command again"
                " to go on, or give a local copy with --from."
            ) from error
        return self.partial.read_bytes()

    def append(self, response: requests.Response, start: int) -> None:
        """Add the bytes of a response to the partial file, with a progress bar."""
        if response.status_code != requests.codes.partial_content:
            start = 0
        length = response.headers.get("Content-Length")
        self.partial.parent.mkdir(parents=True, exist_ok=True)
        with (
            open(self.partial, "ab" if start else "wb") as file,
            tqdm(
                desc=Path(self.source.path).name,
                total=start + int(length) if length else None,
                initial=start,
                unit="B",
                unit_scale=True,
            ) as progress,
        ):
            for chunk in response.iter_content(CHUNK):
                file.write(chunk)
                progress.update(len(chunk))
