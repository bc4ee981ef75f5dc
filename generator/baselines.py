"""The list of baselines in baselines.toml: recipe, data, seeds and encoder of each."""

from dataclasses import dataclass, field
from pathlib import Path

from generator import InputError
from generator.files import read_toml, sha256

# In the folder of a template's sample: the scores that compare.py compares with.
REFERENCE = "reference"

# `auto` depends on the machine. First steps are compared with this precision in any case.
SAME_PRECISION = "float32"

# In the folder of a baseline that makes an encoder; other baselines read it there.
ENCODER = "encoder"
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin", "model.weights.h5")


@dataclass(frozen=True)
class Baseline:
    """One baseline.

    Attributes:
        name: of the baseline and of its project.
        template: the name of its template.
        answers: to the template's questions, if they differ from the defaults.
        settings: of config.toml, if they differ from the template's; `TABLE.NAME` in a table.
        data_set: a data set of this repository; None: the template's sample.
        local_files: data files that belong to no data set of this repository. To reproduce the
            baseline, the user names a folder with them.
        data: a description of that data.
        seeds: to train and score.
        from_scratch: the baseline on the same data whose encoder was not pre-trained.
        published: scores that others report on its data set.
        score: shown in the tables; None: the one that chooses the epoch.
        precision: of its trainings; large encoders take twice as long in float32.
        headline: whether README.md shows its score for its task.
        baked: whether its project is committed too, so that it can be read without installing.
    """

    name: str
    template: str
    answers: dict[str, str] = field(default_factory=dict)
    settings: dict[str, object] = field(default_factory=dict)
    data_set: str | None = None
    local_files: tuple[str, ...] = ()
    data: str | None = None
    seeds: tuple[int, ...] = (1,)
    from_scratch: str | None = None
    published: tuple[dict, ...] = ()
    score: str | None = None
    precision: str = SAME_PRECISION
    headline: bool = False
    baked: bool = False

    @property
    def is_sample(self) -> bool:
        """Whether it belongs to its template's sample, and holds its data and reference."""
        return self.name == f"{self.template}_sample"

    @property
    def recipe(self) -> dict[str, object]:
        """How its trainings differ from those of its template, recorded with its scores."""
        own = {} if self.precision == SAME_PRECISION else {"precision": self.precision}
        return {**self.answers, **self.settings, **own}

    def shown_score(self, scores: dict) -> str:
        """Return the name of the score that the tables show from a scores.json."""
        return self.score or scores["monitor"]

    def folder(self, root: Path) -> Path:
        """Return its folder in a repository."""
        return root / "baselines" / self.name

    def results(self, root: Path) -> Path:
        """Return the folder of its results; a sample's results are its template's reference."""
        return self.folder(root) / REFERENCE if self.is_sample else self.folder(root)


def read_baselines(root: Path) -> dict[str, Baseline]:
    """Read generator/baselines.toml of a repository.

    Raises:
        InputError: the file is broken.
    """
    path = root / "generator" / "baselines.toml"
    try:
        entries = read_toml(path)
        return {name: Baseline(name=name, **read_entry(entry)) for name, entry in entries.items()}
    except (AttributeError, TypeError) as error:
        raise InputError(f"{path} is broken ({error}): mend that entry.") from error


def read_entry(entry: dict) -> dict:
    """Return an entry with flat settings and immutable lists."""
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()
    } | {"settings": flatten(entry.get("settings", {}))}


def flatten(settings: dict[str, object]) -> dict[str, object]:
    """Return settings without tables; a table's setting becomes `TABLE.NAME`."""
    flat: dict[str, object] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": found for inner, found in flatten(value).items()}
        else:
            flat[name] = value
    return flat


def find_baselines(root: Path, names: list[str] | None = None) -> list[Baseline]:
    """Return the named baselines, or all; one that is named twice comes once.

    Raises:
        InputError: there is no baseline of that name.
    """
    known = read_baselines(root)
    for name in names or []:
        if name not in known:
            raise InputError(f"there is no baseline {name!r}: the names are {', '.join(known)}.")
    return [known[name] for name in dict.fromkeys(names or known)]


def own_encoder(baseline: Baseline, root: Path) -> Path | None:
    """Return the folder of an encoder that another baseline makes; None if not needed.

    Raises:
        InputError: that baseline is not reproduced yet.
    """
    folder = own_encoder_folder(baseline, root)
    if folder and not folder.is_dir():
        raise InputError(
            f"{baseline.name} learns on the encoder of {folder.parent.name}: run "
            f"`baselines reproduce {folder.parent.name}` first."
        )
    return folder


def own_encoder_folder(baseline: Baseline, root: Path) -> Path | None:
    """Return the folder of such an encoder, which may not exist yet."""
    name = encoder_name(baseline)
    return root / "baselines" / name.removeprefix("../") if name.startswith("../") else None


def encoder_name(baseline: Baseline) -> str:
    """Return the encoder's name in a baseline's project."""
    return str(baseline.settings.get("encoder", baseline.answers.get("encoder", "tiny")))


def describe_encoder(baseline: Baseline, folder: Path | None) -> dict:
    """Return the encoder's public name and, for local weights, their hash."""
    name = encoder_name(baseline)
    if folder is None:
        return {"encoder": name}
    found = [folder / file for file in WEIGHT_FILES if (folder / file).is_file()]
    if not found:
        raise InputError(f"{folder} holds no {' or '.join(WEIGHT_FILES)}: check --encoder.")
    return {"encoder": name, "encoder_weights": sha256(found[0].read_bytes())}
