"""How many operations of a training step does a GPU start? Counted without one, in the graph.

To start an operation on a GPU takes some 10 microseconds, often longer than to compute it. What XLA
compiles counts as one. By default that is the optimizer's step, as in a short training on a GPU.

python benchmarks/launches.py --project build/relation_extraction_sample [--precision ... --xla ...]
"""

import collections
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from project_parts import open_training, write_results

# Operations that start nothing on a GPU: they only name, reshape or describe tensors, or invert the
# few constant numbers of a transposition.
FREE = {
    *("Const", "Identity", "IdentityN", "NoOp", "Placeholder", "_Arg", "_Retval", "StopGradient"),
    *("ReadVariableOp", "StatefulPartitionedCall", "PartitionedCall", "If", "StatelessIf", "While"),
    *("StatelessWhile", "Shape", "ShapeN", "Size", "Rank", "StridedSlice", "Pack", "Reshape"),
    *("ExpandDims", "Squeeze", "BroadcastGradientArgs", "ConcatOffset", "Prod", "Bitcast"),
    "InvertPermutation",
}


def main() -> None:
    """Count and write."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--project", type=Path, required=True, help="a generated project")
    parser.add_argument("--encoder", help="folder of the encoder; none: that of the project")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--xla", default="optimizer")
    parser.add_argument("--output", type=Path, help="JSON file of the results")
    arguments = parser.parse_args()
    flags = ["--devices.precision", arguments.precision, "--devices.xla", arguments.xla]
    flags += ["--strategy", "single", "--run_name", "launches", "--overwrite", "true"]
    flags += ["--encoder", str(Path(arguments.encoder).resolve())] if arguments.encoder else []
    training = open_training(arguments.project.resolve(), flags)
    found = count_launches(training)
    results = {
        "question": "operations of a training step that a GPU starts",
        "project": arguments.project.name,
        "precision": arguments.precision,
        "xla": arguments.xla,
        "weights": len(training.models.training.trainable_variables),
        "launches": found.total(),
        "by_operation": dict(found.most_common(30)),
    }
    write_results(results, arguments.output)


def count_launches(training: Any) -> collections.Counter[str]:
    """Return how often each operation that starts something occurs in a step."""
    import tensorflow as tf

    from core.fast import one_pass

    one_pass.has_gpu = lambda: True  # a GPU gets the operations that a CPU computes in one pass
    batch = next(iter(training.batches.to_dataset()))
    step = tf.function(lambda inputs: training.models.training.train_step(inputs))
    graph = step.get_concrete_function(batch).graph.as_graph_def()
    functions = {function.signature.name: function for function in graph.library.function}
    found: collections.Counter[str] = collections.Counter()

    def count(nodes: Any) -> None:
        for node in nodes:
            called = [v.func.name for v in node.attr.values() if v.func.name in functions]
            if any(functions[name].attr["_XlaMustCompile"].b for name in called):
                found["XlaLaunch"] += 1
                continue
            for name in called:
                count(needed_nodes(functions[name]))
            if node.op not in FREE:
                found[node.op] += 1

    count(graph.node)
    return found


def needed_nodes(function: Any) -> list:
    """Return the nodes of a function on which its results or its effects depend.

    TensorFlow removes all others before the function runs for the first time.
    """
    nodes = {node.name: node for node in function.node_def}
    wanted = [*function.ret.values(), *function.control_ret.values()]
    found: dict[str, Any] = {}
    while wanted:
        name = wanted.pop().lstrip("^").split(":")[0]
        if name in nodes and name not in found:
            found[name] = nodes[name]
            wanted += nodes[name].input
    return [*found.values()]


if __name__ == "__main__":
    main()
