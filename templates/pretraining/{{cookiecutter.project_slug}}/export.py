"""Write the model of a run into a folder that other projects load by encoder = "FOLDER".

python export.py RUN FOLDER                        in the format of Hugging Face
python export.py RUN FOLDER --preset OTHER_FOLDER  as a preset of KerasHub, too
"""

import argparse
from pathlib import Path

from core.base.errors import InputError, command
from export_formats.folders import (
    check_apart,
    check_free,
    check_preset,
    export_hugging_face,
    export_preset,
    export_writer,
)
from task.model import language_model
from task.prediction import load_run


@command
def main() -> None:
    """Load, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="folder of a run, or its name in runs/")
    parser.add_argument("folder", type=Path, help="to create, in the format of Hugging Face")
    parser.add_argument("--preset", type=Path, help="to create too, a preset of KerasHub")
    arguments = parser.parse_args()

    for folder in filter(None, (arguments.folder, arguments.preset)):
        check_free(folder)
    if arguments.preset:
        check_apart(arguments.folder, arguments.preset)
    run = load_run(arguments.run)
    writes = run.settings.objective == "denoising"
    if writes and arguments.preset:
        raise InputError(
            "--preset writes encoders only, and this run trained a writer: leave it out."
        )
    if writes:
        export_writer(arguments.folder, run.models[0].get_layer("writer").encoder, run.tokenizer)
        named = f'model = "pretrained" and encoder = "{arguments.folder.resolve()}"'
        print(f"{arguments.folder}: set {named} in a project of text generation")
        return
    model = language_model(run.models[0])
    if arguments.preset:
        check_preset(model.encoder)
    export_hugging_face(arguments.folder, model, run.tokenizer)
    print(f"{arguments.folder}: {name_use(run.settings.objective, arguments.folder.resolve())}")
    if arguments.preset:
        export_preset(arguments.preset, model.encoder, run.tokenizer)
        print(f"{arguments.preset}: keras_hub.models.BertBackbone.from_preset reads it")


def name_use(objective: str, folder: Path) -> str:
    """Say which settings of which projects read an exported encoder."""
    chosen = f'set encoder = "{folder}" in a project'
    if objective != "causal":
        return chosen
    return (
        f'{chosen} of text classification, or with model = "pretrained" in one of text generation; '
        "both need extras/writers, because each token has read only those before it"
    )


if __name__ == "__main__":
    main()
