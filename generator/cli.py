"""The command `baselines`. The commands import lazily, so `--help` answers at once."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from generator import InputError

app = typer.Typer(
    help="Bake, build, check and reproduce the baselines of this repository.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
data_app = typer.Typer(help="List and fetch data sets.", no_args_is_help=True)
app.add_typer(data_app, name="data")

LocalCopy = Annotated[
    Path | None,
    typer.Option("--from", help="Take the files from this local copy instead of the network."),
]


def main() -> None:
    """Run the command line; an `InputError` becomes one sentence and exit code 1."""
    try:
        app()
    except InputError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        if error.errno is None:
            raise
        where = f"{error.filename}: " if error.filename else ""
        sys.exit(f"error: {where}{error.strerror}: check the path and the disk.")
    except SystemExit as ending:
        # Typer turns Ctrl-C into this, silently.
        if ending.code == 130:
            print("\ninterrupted: run the same command again to resume.", file=sys.stderr)
        raise


@data_app.command("list")
def list_data() -> None:
    """List the data sets with their licences."""
    from generator.data_sets.registry import DATA_SETS

    for data_set in DATA_SETS.values():
        print(f"{data_set.name}: {data_set.summary} ({data_set.language})")
        print(f"    task     {data_set.task}")
        print(f"    source   https://github.com/{data_set.repository} at {data_set.commit[:12]}")
        print(f"    licence  {data_set.licence}")


@data_app.command("get")
def get_data(
    name: Annotated[str, typer.Argument(help="Name of the data set, see `baselines data list`.")],
    to: Annotated[Path, typer.Option(help="Folder for the converted files.")],
    from_: LocalCopy = None,
    cache: Annotated[Path | None, typer.Option(help="Folder that keeps the downloads.")] = None,
) -> None:
    """Fetch a data set and convert it to train.jsonl, dev.jsonl and test.jsonl."""
    from generator.data_sets.convert import get_data_set

    get_data_set(name, to, from_, cache)


@data_app.command("convert")
def convert_data(
    format_: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="squad, cmrc2018, drcd, knowledgenet, finre, phee, fewfc, e2e, csl_title, selqa, "
            "wnut17, weibo, emobank, redocred, semeval2010, ukpconvarg; duie, docred, duee, clue, "
            "cluener, semeval, cmeee, brat, doccano, label_studio or conll",
        ),
    ],
    source: Annotated[Path, typer.Argument(metavar="IN", help="Your file, in that format.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The JSON Lines file to write.")],
    task: Annotated[
        str, typer.Option(help="Of the records, where brat or a tool holds those of several.")
    ] = "",
    text_field: Annotated[str, typer.Option(help="Label Studio: the field with the text.")] = "",
    label_field: Annotated[str, typer.Option(help="Label Studio: that of the labels.")] = "",
    labels: Annotated[str, typer.Option(help="Of a text: one or several; else as found.")] = "",
    token_column: Annotated[int, typer.Option(help="conll: from 1.")] = 1,
    tag_column: Annotated[int, typer.Option(help="conll: from 1; -1 is the last.")] = -1,
    join: Annotated[str, typer.Option(help="conll: auto, space or none, between tokens.")] = "auto",
) -> None:
    """Convert your own file in the format of one of the data sets, of a host or of a tool."""
    from generator.data_sets.convert import convert_file, host_options

    fields, columns = (text_field, label_field, labels), (token_column, tag_column)
    options = host_options(format_, task, fields, columns, join)
    convert_file(format_, source, out, options)


@app.command()
def new(
    answers: Annotated[
        list[str] | None,
        typer.Argument(help="Answers instead of the defaults, such as extras=all."),
    ] = None,
    task: Annotated[str | None, typer.Option(help="The template, instead of the menu.")] = None,
    to: Annotated[Path, typer.Option(help="Folder that gets the project's folder.")] = Path(),
    no_input: Annotated[
        bool, typer.Option("--no-input", help="Ask nothing: what is not answered gets its default.")
    ] = False,
) -> None:
    """Ask the questions of a template and make a project, as cookiecutter does with a clone."""
    from generator.files import find_repository
    from generator.new import make_project
    from generator.recipes import read_arguments

    make_project(find_repository(), task, to, read_arguments(answers), no_input)


@app.command("bake")
def bake_project(
    name: Annotated[str, typer.Argument(help="Name of the baseline.")],
    to: Annotated[Path, typer.Option(help="Folder that gets the project's folder.")],
    answers: Annotated[
        list[str] | None,
        typer.Argument(help="Changed answers, such as extras=all or project_slug=mine."),
    ] = None,
) -> None:
    """Make the project of a baseline in DIR/NAME, with its settings and encoder."""
    from generator.bake import keep_origin
    from generator.baselines import find_baselines
    from generator.files import find_repository
    from generator.recipes import bake_whole, describe_next, read_arguments

    root = find_repository()
    [baseline] = find_baselines(root, [name])
    project = bake_whole(root, baseline, to, read_arguments(answers))
    keep_origin(root, project)
    print(describe_next(baseline, project))


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Name of the extra, a folder of templates/extras.")],
    to: Annotated[Path, typer.Option(help="The project's folder.")],
) -> None:
    """Add an extra to a project; print its settings for config.toml."""
    from generator.add import add_extra
    from generator.files import find_repository

    print(add_extra(find_repository(), name, to))


@app.command("update")
def update_project(
    project: Annotated[Path, typer.Argument(help="The project's folder.")] = Path("."),
    to: Annotated[
        str | None,
        typer.Option(
            help="A release, a commit, or a folder of the repository; by default this one."
        ),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", help="The same of the version that the project was made from, if it is lost."
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Print what would change; exit 1 if anything would.")
    ] = False,
) -> None:
    """Merge another version of the templates into a project; what you changed stays."""
    from generator.files import find_repository
    from generator.update import update

    if not update(find_repository(), project, to, from_, check):
        sys.exit(1)


@app.command("release")
def release_baselines(
    to: Annotated[Path, typer.Option(help="Folder for the zips and SHA256SUMS.")],
    names: Annotated[list[str] | None, typer.Argument(help="Baselines; all by default.")] = None,
) -> None:
    """Zip the project of each baseline with its results, for offline machines."""
    from generator.files import require_clone
    from generator.release import release

    release(require_clone(), to, names)


@app.command()
def build() -> None:
    """Write all generated files: baselines of the samples, pages of the recipes, tables."""
    from generator.build import build_repository
    from generator.files import require_clone

    build_repository(require_clone())


@app.command()
def check() -> None:
    """Print how the repository differs from what `build` would write; exit 1 if it differs."""
    from generator.build import differences
    from generator.files import require_clone

    found = differences(require_clone())
    print("".join(found), end="")
    if found:
        sys.exit("error: the repository differs from what is built: run `baselines build`.")
    print("everything that is generated is as it would be built.")


@app.command()
def smoke(
    names: Annotated[list[str] | None, typer.Argument(help="Baselines; all by default.")] = None,
) -> None:
    """Bake every baseline into a temporary folder; train two steps, predict and evaluate."""
    from generator.files import require_clone
    from generator.smoke import smoke_baselines

    smoke_baselines(require_clone(), names)


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(help="Name of the baseline.")],
    from_: LocalCopy = None,
    seeds: Annotated[
        str | None,
        typer.Option(help="1,2,3: added to the scored ones; by default all seeds, again."),
    ] = None,
    encoder: Annotated[
        Path | None, typer.Option(help="A local folder that holds the baseline's encoder.")
    ] = None,
) -> None:
    """Fetch the data of a baseline, train and score every seed, and record the scores."""
    from generator.files import require_clone
    from generator.reproduce import parse_seeds, reproduce_baseline

    reproduce_baseline(require_clone(), name, from_, parse_seeds(seeds), encoder)


@app.command()
def confirm(
    name: Annotated[str, typer.Argument(help="Name of the baseline.")],
    from_: LocalCopy = None,
    encoder: Annotated[
        Path | None, typer.Option(help="A local folder that holds the baseline's encoder.")
    ] = None,
) -> None:
    """Train a baseline's first steps: are they still those of the scored code?"""
    from generator.confirm import confirm_baseline
    from generator.files import require_clone

    confirm_baseline(require_clone(), name, from_, encoder)


@app.command()
def ablate(
    studies: Annotated[
        list[str] | None, typer.Argument(help="Studies of ablations.toml; all by default.")
    ] = None,
    from_: LocalCopy = None,
    encoder: Annotated[
        Path | None, typer.Option(help="A local folder that holds the baseline's encoder.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Seeds, such as 1,2,3; by default those of each study.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this variant; may be given several times.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folders of the runs.")] = False,
) -> None:
    """Train a baseline with one setting after the other changed: what does each gain and cost?"""
    from generator.ablation.run import ablate as train_variants
    from generator.files import require_clone
    from generator.reproduce import parse_seeds

    train_variants(require_clone(), studies, from_, encoder, parse_seeds(seeds), only, keep)


@app.command()
def scores() -> None:
    """Write the tables of README.md and docs/, and the pages of the baselines."""
    from generator.document_tables import update_documents
    from generator.files import require_clone

    update_documents(require_clone())
