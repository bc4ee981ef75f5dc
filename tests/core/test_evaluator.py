"""What a scoring leaves in the run's folder."""

import keras

from core.base.files import read_json, write_json
from core.base.settings import CoreSettings
from core.runs.run_folder import Run
from core.train.scoring import Evaluation, Evaluator, OwnWeights


def test_a_better_scoring_forgets_the_scores_of_other_files(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    settings = CoreSettings.model_construct(evaluate_steps=0, patience=0)
    evaluator = Evaluator(
        Run(tmp_path), None, model, "f1", {"seed": 1}, None, settings, OwnWeights()
    )
    for f1, best, kept in ((0.5, 0.5, False), (0.4, 0.5, True), (0.6, 0.6, False)):
        path = tmp_path / "scores.json"
        scores = {"dev": {"f1": 0.5}, "monitor": "f1", "seed": 1, "test": {"f1": 0.3}}
        write_json(path, scores)
        evaluator.keep_if_best(Evaluation({"f1": f1}, [{"id": "a"}], []))
        assert read_json(path)["dev"]["f1"] == best
        assert ("test" in read_json(path)) == kept
    assert (tmp_path / "best.weights.h5").is_file()
