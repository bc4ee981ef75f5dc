"""Make queries of a table with one row for each question, and columns for each of its answers.

python extras/retrieval/questions.py TABLE OUT --answers A,B,C --id "{QuestionId}_{*}"
    --text "{QuestionText} {Answer*Text}" [--link "Misconception*Id" --corpus TEXTS]

Each answer of a row is a query of its own. In names of columns `*` is the answer, and `{*}`
is the answer itself. With --link and --corpus OUT has pairs of a query and the text that its
row names, to train on; answers whose cell is empty are left out. Without them OUT has the queries,
{"id", "text"}, to search with. If OUT does not end in .jsonl, pairs are judgements in trec_eval's
format, for score.py.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the project with the needed code

from core.base.errors import InputError, command  # noqa: E402
from core.base.extras import need  # noqa: E402
from core.base.files import check_destination, write_json_lines, write_text  # noqa: E402
from extras.retrieval.vectors import read_texts  # noqa: E402

NAMES = ("id", "text")
GOLD = "id of text_b"


@command
def main() -> None:
    """Read the rows, write a record for each answer."""
    arguments = read_arguments()
    corpus = read_texts(arguments.corpus) if arguments.corpus else ()
    texts = {str(identity): text for identity, text in corpus}
    wanted = sample_ids(arguments.sample) if arguments.sample else None
    records = [
        record
        for line, row in need("competition", "rows").read_rows(arguments.table)
        for record in answer_records(line, row, arguments, texts)
        if wanted is None or record["id"] in wanted
    ]
    check_records(records, wanted, arguments)
    if arguments.out.suffix == ".jsonl":
        own = [{n: v for n, v in record.items() if n != GOLD} for record in records]
        write_json_lines(arguments.out, own)
    else:
        lines = [f"{one['id']} 0 {one[GOLD]} 1" for one in records]
        write_text(arguments.out, "\n".join(lines) + "\n")
    print(f"{arguments.out}: {len(records)} {'pairs' if texts else 'queries'}")


def read_arguments() -> argparse.Namespace:
    """Return the arguments of the command line.

    Raises:
        InputError: they don't fit together.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", metavar="TABLE", type=Path, help="a row for each question")
    parser.add_argument("out", metavar="OUT", type=Path, help=".jsonl, or judgements")
    parser.add_argument("--answers", required=True, help="what * is, as A,B,C,D")
    parser.add_argument("--id", required=True, help="template of the id of a query")
    parser.add_argument("--text", required=True, help="template of the text of a query")
    parser.add_argument("--link", help="column with the id of the text that belongs to an answer")
    parser.add_argument("--corpus", type=Path, help="the texts: records, or a table")
    parser.add_argument("--sample", type=Path, help="only queries of this sample_submission.csv")
    arguments = parser.parse_args()
    for source in filter(None, (arguments.table, arguments.corpus, arguments.sample)):
        check_destination(arguments.out, source)
    if arguments.out.suffix != ".jsonl" and not arguments.link:
        raise InputError(f"{arguments.out}: let the name end in .jsonl, or name --link.")
    if bool(arguments.link) != bool(arguments.corpus):
        raise InputError("--link and --corpus belong together: name both, or none.")
    arguments.answers = [name.strip() for name in arguments.answers.split(",")]
    try:
        for template in (arguments.id, arguments.text):
            need("competition", "text_template").template_parts(for_answer(template, "A"))
    except ValueError as error:
        raise InputError(f"{template!r}: {error}.") from error
    return arguments


def for_answer(template: str, answer: str) -> str:
    """Return a template in whose braces `*` is an answer.

    >>> for_answer("{Id}_{*}: {Answer*Text} *", "B")
    '{Id}_B: {AnswerBText} *'
    """
    return re.sub(
        r"{([^{}]*)}",
        lambda found: answer if found[1] == "*" else f"{{{found[1].replace('*', answer)}}}",
        template,
    )


def answer_records(
    line: int, row: dict[str, str], arguments: argparse.Namespace, texts: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield a pair for each answer of a row that names a text, or without texts a query for each.

    Raises:
        InputError: a column is absent, or the row names no text of the corpus.
    """
    fill, where = need("competition", "text_template").fill, f"{arguments.table}, line {line}"
    for answer in arguments.answers:
        try:
            own = {name: fill(for_answer(getattr(arguments, name), answer), row) for name in NAMES}
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
        if not texts:
            yield own
            continue
        column = arguments.link.replace("*", answer)
        if column not in row:
            raise InputError(f"{arguments.table} has no column {column!r}: correct --link.")
        if not (name := row[column].strip()):
            continue
        name = name if name in texts else whole(name)
        if name not in texts:
            raise InputError(f"{where}: {arguments.corpus} has no text with the id {name!r}.")
        yield {
            "id": own["id"],
            "group": own["id"],
            "text_a": own["text"],
            "text_b": texts[name],
            "label": "1",
            GOLD: name,
        }


def whole(cell: str) -> str:
    """Return a cell; of a number such as 1672.0, which empty cells make of 1672, the whole one."""
    return re.sub(r"^(\d+)\.0+$", r"\1", cell)


def sample_ids(sample: Path) -> set[str]:
    """Return the first cell of each row of a sample."""
    rows = need("competition", "rows").read_rows(sample)
    return {next(iter(row.values())).strip() for _, row in rows}


def check_records(
    records: list[dict[str, Any]], wanted: set[str] | None, arguments: argparse.Namespace
) -> None:
    """Check that there are records, each with an id of its own that fits, and all of a sample.

    Raises:
        InputError: it is not so.
    """
    ids = [record["id"] for record in records]
    if len({*ids}) < len(ids):
        twice, _ = Counter(ids).most_common(1)[0]
        raise InputError(f"the id {twice!r} comes twice: let --id name the row and {{*}}.")
    if left := sorted((wanted or set()) - {*ids}):
        raise InputError(f"{arguments.sample} has {left[0]!r}, which no row makes: correct --id.")
    if arguments.out.suffix != ".jsonl":
        for name in (name for record in records for name in (record["id"], record[GOLD])):
            if len(name.split()) != 1:
                raise InputError(
                    f"the id {name!r} has blanks, which separate the columns of judgements: "
                    "correct --id, or the ids of the corpus."
                )
    if not records:
        raise InputError(f"{arguments.table} has no answer with a text: correct --link.")


if __name__ == "__main__":
    main()
