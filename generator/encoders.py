"""The encoder that a baseline starts from: made by another baseline, or a local copy."""

from pathlib import Path

from generator.baselines import Baseline
from generator.errors import InputError
from generator.files import sha256

# In the folder of a baseline that makes an encoder; others read it from there.
ENCODER = "encoder"
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin", "model.weights.h5")


def own_encoder(baseline: Baseline, root: Path) -> Path | None:
    """Return the folder of an encoder that another baseline makes; None: it needs none.

    Raises:
        InputError: that has not been reproduced yet.
    """
    folder = own_encoder_folder(baseline, root)
    if folder and not folder.is_dir():
        raise InputError(
            f"{baseline.name} learns on the encoder of {folder.parent.name}: run "
            f"`baselines reproduce {folder.parent.name}` first."
        )
    return folder


def own_encoder_folder(baseline: Baseline, root: Path) -> Path | None:
    """Return where such an encoder lies, or will lie."""
    name = encoder_name(baseline)
    return root / "baselines" / name.removeprefix("../") if name.startswith("../") else None


def encoder_name(baseline: Baseline) -> str:
    """Return what a baseline's project calls its encoder."""
    return baseline.settings.get("encoder", baseline.answers.get("encoder", "tiny"))


def describe_encoder(baseline: Baseline, folder: Path | None) -> dict:
    """Return the encoder's public name and, for local weights, their hash."""
    name = encoder_name(baseline)
    if folder is None:
        return {"encoder": name}
    found = [folder / file for file in WEIGHT_FILES if (folder / file).is_file()]
    if not found:
        raise InputError(f"{folder} holds no {' or '.join(WEIGHT_FILES)}: check --encoder.")
    return {"encoder": name, "encoder_weights": sha256(found[0].read_bytes())}
