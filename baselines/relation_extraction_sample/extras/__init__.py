"""Optional features: any folder here can be deleted. core/base/extras.py imports them."""

import core  # noqa: F401  it sets TensorFlow up, which must come after it

# Hook and its arguments -> who asks, and what it returns.
HOOKS = {
    "prepare(training)": "core/training.py, all: nothing; changes any part of a Training",
    "begin_checks(checks)": "extras/doctor, all: nothing; its part of check.py's options",
    "check_training(checks)": "extras/doctor, all: nothing; adds findings about the model",
    "make_strategy(settings)": "core/devices: a tf.distribute.Strategy",
    "open_records(path, fields, read_one)": "core/data/records.py: the examples of a file",
    "open_stream(path, stream)": "extras/competition and formats: the examples of a reader",
    "open_batches(kind, examples, arguments)": "core/fast/batch_plan.py: batches encoded before",
    "find_config(folder)": "core/encoders: the file that describes an encoder",
    "load_backbone(settings, folder)": "core/encoders: the encoder of a folder",
    "load_tokenizer(name, folder, settings)": "core/encoders: the tokenizer of an encoder",
    "encoder_windows(settings)": "core/encoders: the windows in which long texts are encoded",
    "restore_base(settings, folder, models, tokenizer)": "core/prediction: nothing; reads the "
    "frozen weights of a run",
    "read_flags(parser)": "predict.py: its arguments, and those of an extra",
    "predict_in_chunks(describe, examples)": "predict.py: the records to write, chunk by chunk",
    "build_models(encoder, labels, settings)": "task/model.py: other models than the task's",
}

# What a settings module may define besides its table.
DECLARATIONS = {
    "STRATEGIES": "names that `strategy` may have with this extra",
    "FREE": "settings that may change while a training is interrupted: none changes a weight",
    "FILES": "settings that name a file which a training learns from",
    "complain": "a function of the settings: why they don't fit together, or None",
    "complete": "a function of the settings that sets what follows from its table",
}
