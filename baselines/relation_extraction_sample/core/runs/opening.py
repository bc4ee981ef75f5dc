"""Open a run: a new one, or an unfinished one of the same settings and data."""

from core.base.errors import InputError
from core.base.extras import declared
from core.base.files import PROJECT, file_hash, hash_of_files, project_path, read_json
from core.base.settings import CoreSettings, flatten
from core.runs.code_hash import code_hashes
from core.runs.run import Run
from core.runs.scores import read_scores

# Settings that may change before an interrupted run is resumed, because none changes a weight. A
# task may have `free_settings` of its own, and an extra may declare FREE.
FREE_SETTINGS = {
    *("task", "overwrite", "shown_examples", "run_name", "test_file", "checkpoint_steps"),
    *("prediction_batch_size", "strategy", "devices.tpu", "devices.logical_devices", "devices.xla"),
    *declared("FREE"),
}


def open_run(settings: CoreSettings, hashes: dict[str, str] | None = None) -> Run:
    """Return a new run, or an unfinished one of the same settings and data; write nothing yet.

    `hashes` are those of the data, by name; None: of the files that the settings name.

    Raises:
        InputError: the run is finished, or was begun with other settings or data.
    """
    folder = PROJECT / "runs" / settings.run_name
    begun = read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
    finished = "finished" in read_scores(folder)
    goes_on = not finished and (begun.get("overwrite", False) or not settings.overwrite)
    if goes_on and settings.devices.precision == "auto":
        settings.devices.precision = flatten(begun).get("devices.precision", "auto")
    asked = {"task": settings.task, **settings.model_dump(), **(hashes or record_hashes(settings))}
    other = find_difference(begun, asked, settings.free_settings)
    asked |= {"code": code_hashes(PROJECT)}
    if settings.overwrite:
        # Unless this overwriting itself was interrupted: then it goes on.
        known = not finished and begun.get("overwrite") and begun.get("code") == asked["code"]
        return Run(folder, new_config=None if known and not other else asked)
    if finished:
        lost = "" if begun else " without its config.json"
        raise InputError(
            f"runs/{settings.run_name} is a finished run{lost}: choose another name with "
            "--run_name, or replace it with --overwrite true."
        )
    if begun and other:
        raise InputError(
            f"runs/{settings.run_name} was begun with {other}, choose another --run_name, or begin "
            "anew with --overwrite true."
        )
    then, now = begun.get("code", asked["code"]), asked["code"]
    if changed := sorted(path for path in then | now if then.get(path) != now.get(path)):
        print(f"warning: changed since runs/{settings.run_name} was begun: {', '.join(changed)}.")
    return Run(folder, new_config=None if begun else asked)


def find_difference(begun: dict, asked: dict, free: tuple[str, ...] = ()) -> str:
    """Return in words which setting or file differs from the begun run; empty: none.

    A file is compared by its content, not by its path. Settings in `free` may differ.
    """
    begun, now = flatten(begun), flatten(asked)
    file_of = {name.removesuffix("_file") + "_hash": name for name in now}
    for name in (name for name in now if begun.get(name) != now[name]):
        if name in FREE_SETTINGS or name in free or name.removesuffix("_file") + "_hash" in now:
            continue
        if name.endswith("_hash"):
            file = now.get(file_of.get(name, ""), name.removesuffix("_hash"))
            return f"another content of {file}: restore that"
        return f"{name} = {begun.get(name)!r}, now it is {now[name]!r}: go on with the old value"
    return ""


def record_hashes(settings: CoreSettings) -> dict[str, str]:
    """Return the hashes of the files that a run is trained and scored on."""
    values = flatten(settings.model_dump())
    hashes = {}
    for name in filter(values.get, ("train_file", "dev_file", *declared("FILES"))):
        file, key = values[name], name.removesuffix("_file") + "_hash"
        if isinstance(file, list):
            hashes[key] = hash_of_files(map(project_path, file))
        else:
            hashes[key] = file_hash(project_path(file))
    return hashes
