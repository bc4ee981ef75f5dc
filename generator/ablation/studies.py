"""The list of studies in ablations.toml: a baseline and one changed setting at a time."""

from dataclasses import dataclass, field
from pathlib import Path

from generator import InputError
from generator.baselines import Baseline, find_baselines, flatten
from generator.files import read_toml

# A study sets these for every training itself.
OWN_SETTINGS = {"seed", "run_name", "overwrite", "folds.count"}


@dataclass(frozen=True)
class Study:
    """One baseline, trained with one changed setting at a time.

    Attributes:
        name: of the study.
        baseline: name of the baseline that it changes.
        variants: the changed settings of each, by name; the first, the reference, has none.
        settings: those of all trainings.
        seeds: every variant trains with each.
        held: settings of the baseline when the study began; its recipe has changed since, because
            of the study.
    """

    name: str
    baseline: str
    variants: dict[str, dict[str, object]]
    settings: dict[str, object] = field(default_factory=dict)
    seeds: tuple[int, ...] = (1, 2, 3)
    held: dict[str, object] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        """The variant that the others are compared with."""
        return next(iter(self.variants))

    def settings_of(self, variant: str) -> dict[str, object]:
        """Return the settings of a variant, besides the baseline's own."""
        return {**self.settings, **self.variants[variant]}

    def find_baseline(self, root: Path) -> Baseline:
        """Return the baseline itself."""
        [baseline] = find_baselines(root, [self.baseline])
        return baseline


def read_studies(root: Path) -> dict[str, Study]:
    """Read generator/ablations.toml of a repository; empty if there is none.

    Raises:
        InputError: the file is broken, or a study has nothing to compare.
    """
    path = root / "generator" / "ablations.toml"
    if not path.is_file():
        return {}
    try:
        entries = read_toml(path)
        studies = {name: Study(name=name, **read_entry(entry)) for name, entry in entries.items()}
    except (AttributeError, TypeError) as error:
        raise InputError(f"{path} is broken ({error}): mend that entry.") from error
    for study in studies.values():
        check_study(path, study)
    return studies


def read_entry(entry: dict) -> dict:
    """Return a study's entry with settings flattened by `baselines.flatten`."""
    return {
        **entry,
        "settings": flatten(entry.get("settings", {})),
        "held": flatten(entry.get("held", {})),
        "variants": {name: flatten(own) for name, own in entry.get("variants", {}).items()},
        "seeds": tuple(entry.get("seeds", (1, 2, 3))),
    }


def check_study(path: Path, study: Study) -> None:
    """Refuse a study without a reference, or with settings that the study sets itself."""
    if not study.variants or study.variants[study.reference]:
        raise InputError(
            f"{path}, {study.name}: the first variant is what the others are compared with: put "
            "one without settings there, such as adamw = {}."
        )
    for variant in study.variants:
        taken = OWN_SETTINGS & study.settings_of(variant).keys()
        if taken:
            raise InputError(
                f"{path}, {study.name}: {variant} sets {taken.pop()}, which each training gets "
                "from the study: remove it."
            )


def find_studies(root: Path, names: list[str] | None = None) -> list[Study]:
    """Return the named studies, or all; one that is named twice comes once.

    Raises:
        InputError: there is no study of that name.
    """
    known = read_studies(root)
    for name in names or []:
        if name not in known:
            raise InputError(f"there is no study {name!r}: the names are {', '.join(known)}.")
    return [known[name] for name in dict.fromkeys(names or known)]
