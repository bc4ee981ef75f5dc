"""Search the settings of [search.space] in config.toml; confirm the best ones with further seeds.

python extras/search/search.py [--KEY VALUE ...]        flags as of train.py
"""

import importlib.util
import json
import shlex
import sys
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the project, whose code this needs
if importlib.util.find_spec("optuna") is None:
    sys.exit("error: a search needs Optuna: pip install -r extras/search/requirements.txt")

from optuna.trial import TrialState  # noqa: E402
from tqdm import tqdm  # noqa: E402

from compare import compare  # noqa: E402
from core.base.errors import InputError, command  # noqa: E402
from core.base.files import PROJECT, read_json, write_json, write_text  # noqa: E402
from core.base.settings import CoreSettings, RecordSettings, read_settings  # noqa: E402
from core.runs.opening import find_difference, record_hashes  # noqa: E402
from extras.search import confirm  # noqa: E402
from extras.search.names import JOURNAL, PRUNED  # noqa: E402
from extras.search.page import write_page  # noqa: E402
from extras.search.settings import Settings  # noqa: E402
from extras.search.space import Searched, read_space  # noqa: E402
from extras.search.study import (  # noqa: E402
    FAILED,
    Claim,
    SharedStudy,
    best_trials,
    trial_name,
)
from extras.search.trainings import check_failures, drop_weights, train_run  # noqa: E402
from task.settings import Settings as TaskSettings  # noqa: E402

FACTS, RESULT = "search.json", "result.json"


@command
def main() -> None:
    """Train trial after trial, then the best and the default settings with further seeds."""
    settings: Settings = read_settings(TaskSettings)
    space = read_space(settings)
    check_training(settings)
    folder = open_search(settings)
    study = SharedStudy(folder, space, settings.search)
    total = settings.search.trials
    with tqdm(total=total, desc="trials", unit="trial", disable=None) as progress:
        while claimed := study.next_trial():
            run_trial(settings, study, claimed)
            progress.n = count_ended(study)
            progress.refresh()
    if count_ended(study) < total:
        print("other processes train the last trials, and then the further seeds.")
        return
    conclude(settings, space, study)


def check_training(settings: CoreSettings) -> None:
    """Refuse trainings that are not one run of train.py on this machine.

    Raises:
        InputError: names the setting.
    """
    asked = settings.model_dump()
    if asked.get("folds", {}).get("count"):
        raise InputError("a trial is one training: set folds.count = 0.")
    if settings.strategy in ("multi_worker", "parameter_server"):
        raise InputError(
            f"strategy = {settings.strategy} trains one model on several machines: let each "
            "machine search by itself, on a shared disk, with another strategy."
        )
    if asked.get("orbit", {}).get("job", "train_and_evaluate") != "train_and_evaluate":
        raise InputError("a trial trains and evaluates: set orbit.job = train_and_evaluate.")
    if settings.overwrite:
        raise InputError(
            "a search is not overwritten: delete its folder in runs/, or choose another --run_name."
        )


def open_search(settings: Settings) -> Path:
    """Return the folder of a search: a new one, or one of the same settings, ranges and data.

    Raises:
        InputError: it is a run, or a search that was begun with others.
    """
    name = "search" if settings.run_name == "default" else settings.run_name
    if "/" in name:
        raise InputError(f"--run_name {name}: the folder of a search lies in runs/ itself.")
    folder = PROJECT / "runs" / name
    if (folder / "config.json").is_file():
        raise InputError(f"runs/{name} is a run, not a search: choose another --run_name.")
    table = settings.search
    hashes = record_hashes(settings) if isinstance(settings, RecordSettings) else dict[str, str]()
    # A run may go on with another table [search], and a search may not: it has names of its own.
    own: dict[str, Any] = {"[search.space]": json.dumps(table.space, sort_keys=True)}
    own |= {"[search] seed": table.seed, "[search] pruner": table.pruner}
    asked = {"task": settings.task, **settings.model_dump(), **hashes, **own}
    path = folder / FACTS
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / JOURNAL).is_file():
            raise InputError(f"{path} is missing, and a search was begun there: restore it.")
        write_json(path, asked)
    elif other := find_difference(read_json(path), asked, settings.free_settings):
        raise InputError(f"runs/{name} was begun with {other}, or choose another --run_name.")
    return folder


def run_trial(settings: Settings, study: SharedStudy, claimed: Claim) -> None:
    """Train a trial and note its end; keep the weights of the best ones.

    Raises:
        InputError: nothing but failures came so far.
    """
    name = trial_name(claimed.trial.number)
    values = ", ".join(f"{key} = {value}" for key, value in claimed.trial.params.items())
    tqdm.write(f"{name}: {values}")
    score, error = train_run(settings, f"{study.folder.name}/{name}", claimed.trial.params)
    ended = study.end(claimed.trial, score, error)
    claimed.lock.release()
    if PRUNED in ended.user_attrs:
        note = f"stopped after scoring {ended.user_attrs[PRUNED]}, behind the other trials"
        write_text(study.folder / name / "note.txt", f"{note}\n")
        tqdm.write(f"{name}: {note}: {score:.4f}")
    else:
        tqdm.write(f"{name}: failed: {error}" if score is None else f"{name}: {score:.4f}")
        if error and (study.folder / name).is_dir():
            write_text(study.folder / name / "note.txt", f"failed: {error}\n")
    trials = study.trials()
    with study.lock:
        kept = best_trials(trials)[: settings.search.keep_best]
        for trial in trials:
            if trial.state.is_finished() and trial not in kept:
                drop_weights(study.folder / trial_name(trial.number))
        write_page(study, settings)
    failures = [trial.user_attrs.get(FAILED, "") for trial in trials if trial.state.name == "FAIL"]
    trained = sum(t.state in (TrialState.COMPLETE, TrialState.PRUNED) for t in trials)
    check_failures(failures, trained)


def count_ended(study: SharedStudy) -> int:
    """Return how many trials have ended; interrupted draws do not count."""
    return sum(t.state.is_finished() and study.has_settings(t) for t in study.trials())


def conclude(settings: Settings, space: list[Searched], study: SharedStudy) -> None:
    """Confirm the best trial with further seeds, and write the page.

    Raises:
        InputError: no trial was trained to its end.
    """
    best = next(iter(best_trials(study.trials())), None)
    if best is None:
        raise InputError(f"no trial of runs/{study.folder.name} was trained to its end.")
    lead: dict | None = None
    said = ""
    if confirm.is_default(best, space):
        said = "no trial is better than the default settings."
    elif settings.search.seeds:
        try:
            if not confirm.train_seeds(settings, study.folder, best):
                print("other processes train the last further seeds.")
                return
            lead = confirm.find_lead(settings, study.folder, best, compare)
            said = confirm.describe_lead(lead, best, confirm.find_default(study.trials(), space))
        except InputError as error:  # The result of the search is there all the same.
            said = f"the lead over the default settings is not known: {error}"
    write_json(study.folder / RESULT, {"best": best.params, "lead": lead, "said": said})
    write_page(study, settings, lead, said)
    values = " ".join(f"--{key} {shlex.quote(str(v))}" for key, v in best.params.items())
    print(f"best: {trial_name(best.number)}, {best.value:.4f}: {values}")
    if said:
        print(said)
    print(f"see runs/{study.folder.name}/search.html")


if __name__ == "__main__":
    main()
