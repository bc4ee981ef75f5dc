"""The page of a search: its trials, what the settings do to the score, and the confirmed lead."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
import optuna
from optuna.distributions import CategoricalDistribution
from optuna.importance import FanovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial

from core.base.files import write_text
from core.report.report import name_score
from core.runs.scores import read_scores
from extras.search.names import PRUNED
from extras.search.settings import Settings
from extras.search.study import FAILED, SharedStudy, best_trials, trial_name

PAGE = Path(__file__).with_name("page.html")
FEWEST_TRIALS = 4  # that importances are computed from


def write_page(
    study: SharedStudy, settings: Settings, lead: dict[str, Any] | None = None, said: str = ""
) -> None:
    """Write search.html, which needs no network.

    Args:
        study: with its trials so far.
        settings: of the search.
        lead: of the best settings over the default ones; None: not confirmed yet.
        said: the same in words.
    """
    trials = study.trials()
    best = next(iter(best_trials(trials)), None)
    facts = {
        "metric": name_score(read_monitor(study, best)),
        "settings": [describe_setting(one) for one in study.space],
        "trials": [describe_trial(trial, study.folder) for trial in trials],
        "best": None if best is None else best.number + 1,
        "importances": find_importances(study.study, settings.search.seed),
        "lead": lead,
    }
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    page = environment.from_string(PAGE.read_text(encoding="utf-8")).render(
        title=f"{study.folder.name}: {settings.task}",
        facts=facts,
        planned=settings.search.trials,
        said=said,
    )
    write_text(study.folder / "search.html", page)


def read_monitor(study: SharedStudy, best: FrozenTrial | None) -> str:
    """Return the name of the score that is searched for."""
    scores = read_scores(study.folder / trial_name(best.number)) if best else {}
    return str(scores.get("monitor", "score"))


def describe_setting(one: Any) -> dict[str, Any]:
    """Return what an axis of the page needs of a setting."""
    if isinstance(one.distribution, CategoricalDistribution):
        return {"name": one.name, "choices": [as_text(v) for v in one.distribution.choices]}
    distribution = one.distribution
    ends = {"low": distribution.low, "high": distribution.high, "log": distribution.log}
    return {"name": one.name, **ends}


def describe_trial(trial: FrozenTrial, folder: Path) -> dict[str, Any]:
    """Return what the page shows of a trial."""
    name = trial_name(trial.number)
    scores = read_scores(folder / name)
    choices = trial.distributions
    return {
        "number": trial.number + 1,
        "state": "stopped" if trial.state.name == "PRUNED" else trial.state.name.lower(),
        "score": trial.value if trial.state.name == "COMPLETE" else scored(scores),
        "values": {
            key: as_text(value) if isinstance(choices[key], CategoricalDistribution) else value
            for key, value in trial.params.items()
        },
        "minutes": scores.get("minutes"),
        "curve": sorted(trial.intermediate_values.items()),
        "note": trial.user_attrs.get(FAILED, "")
        or (f"after scoring {trial.user_attrs[PRUNED]}" if PRUNED in trial.user_attrs else ""),
        "link": quote(f"{name}/report.html") if (folder / name / "report.html").is_file() else "",
    }


def scored(scores: dict[str, Any]) -> float | None:
    """Return the score of a trial that did not come to its end; None: it has none."""
    return scores.get("dev", {}).get(scores.get("monitor"))


def as_text(value: object) -> str:
    """Return one of several values as config.toml has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def find_importances(study: optuna.Study, seed: int) -> dict[str, float]:
    """Return the share of the variance of the score that each setting explains, largest first.

    By fANOVA: http://proceedings.mlr.press/v32/hutter14.html. Trials that were stopped do not
    count. Empty: there are too few others, or all have the same score.

    Args:
        study: with its trials.
        seed: of the random forest.
    """
    values = [trial.value for trial in best_trials(study.get_trials(deepcopy=False))]
    if len(values) < FEWEST_TRIALS or len({*values}) == 1:
        return {}
    return get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=seed))
