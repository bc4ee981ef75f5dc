"""Every data set with its official source, its licence, and the hashes of what comes out."""

from dataclasses import dataclass
from pathlib import Path

from generator.errors import InputError

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class Source:
    """One official file: `path` in the repository at the pinned commit, checked by `blob`."""

    path: str
    blob: str


@dataclass(frozen=True)
class DataSet:
    """One data set: official files in, three JSON Lines files out.

    `local_files` are the names that a local copy may use instead of the official paths.
    `hashes` are those of the converted files: the official files and a local copy both give them.
    """

    name: str
    task: str
    language: str
    summary: str
    repository: str
    commit: str
    sources: tuple[Source, ...]
    local_files: tuple[str, ...]
    licence: str
    citation: str
    hashes: dict[str, str]

    def split_ids(self, split: str) -> list[str]:
        """Return the ids of a split's records, in the order in which they are written."""
        path = Path(__file__).parent / "splits" / self.name / f"{split}.txt"
        return path.read_text(encoding="utf-8").split()


KNOWLEDGENET = DataSet(
    name="knowledgenet",
    task="relation_extraction",
    language="en",
    summary="passages of encyclopedias and the web, 15 predicates, each passage annotated for some",
    repository="diffbot/knowledge-net",
    commit="abc4ed3ebb88bfde8c1f02709371324ae6347ba0",
    sources=(Source("dataset/train.json", "72a406a1d661cb5fc9580b6950c12b13b9ec50de"),),
    local_files=("train.json", "dev.json", "test.json"),
    licence="CC BY-SA 4.0, https://creativecommons.org/licenses/by-sa/4.0/",
    citation=(
        "Filipe Mesquita, Matteo Cannaviccio, Jordan Schmidek, Paramita Mirza and Denilson Barbosa:"
        " KnowledgeNet: A Benchmark Dataset for Knowledge Base Population. EMNLP 2019."
    ),
    hashes={
        "train": "sha256:c2d1498d6bb16877604fe7cec04f5981c8b0d4d5b124de22c881357cc4a6435c",
        "dev": "sha256:b59bef6532cbd41ac43b96595b8a5adf51d1a55dd73138a74113f38e9ca82103",
        "test": "sha256:b69c61d5b3b4d494cc3a6a4121cf0b86de9182394490d833cd55b86147cde7f3",
    },
)

FINRE = DataSet(
    name="finre",
    task="relation_extraction",
    language="zh",
    summary="sentences of financial news, 43 predicates between companies",
    repository="thunlp/Chinese_NRE",
    commit="2cd47e6dc1b95e8ca3e93b5b8567666c37c5d654",
    sources=(
        Source("data/FinRE/train.txt", "a5943b97efbaf2762609f0848116c29256fb2494"),
        Source("data/FinRE/valid.txt", "3d4d0f9fc701fdd68913f9f529c0309cbb9e34bc"),
        Source("data/FinRE/test.txt", "005a5be8e10ea0f2f8e7a7bfdd99e637ad4bf0ff"),
    ),
    local_files=("train.txt", "valid.txt", "test.txt"),
    licence="MIT, Copyright (c) 2019 THUNLP",
    citation=(
        "Ziran Li, Ning Ding, Zhiyuan Liu, Hai-Tao Zheng and Ying Shen: Chinese Relation Extraction"
        " with Multi-Grained Information and External Linguistic Knowledge. ACL 2019."
    ),
    hashes={
        "train": "sha256:8e87ed7e5d3d0349ad01b83b3f8b338e87b1a6d8659ef3a8c834631f8e4bb20a",
        "dev": "sha256:a4defcfd2f20cfd4b8682793934f7e7b93a5903e562e72760a2893ac8b467149",
        "test": "sha256:3242bc2db6a6853568fa1f719c2246668e7a1aace3ec92db0eef4f33a1e5a96a",
    },
)

DATA_SETS = {data_set.name: data_set for data_set in (KNOWLEDGENET, FINRE)}


def find_data_set(name: str) -> DataSet:
    """Return the data set of that name.

    Raises:
        InputError: there is none.
    """
    if name not in DATA_SETS:
        raise InputError(f"there is no data set {name!r}: the names are {', '.join(DATA_SETS)}.")
    return DATA_SETS[name]
