"""Tables as programs print them, the forms of the library tabulate among them: all are read alike."""

import pytest
from tabulate import tabulate, tabulate_formats

from scaleproof.auditor.audit import NoResult, audit_paths

HEADER = ["GPUs", "Strategy", "samples/s", "Speedup"]
ROWS = [[1, "ddp", 100.5, "1.00x"], [2, "ddp", 190.3, "1.89x"], [4, "ddp", 361.8, "3.60x"]]
NAMED = {"asciidoc", "mediawiki"}  # forms that are not read, and named
NOT_READ = {"textile"}
TEXTS = {
    "gnuplot.dat": "# GPUs samples/s Speedup\n1 100.5 1.00\n2 190.3 1.89\n4 361.8 3.60\n",
    "blanks.txt": "GPUs Strategy samples/s Speedup\n1 ddp 100.5 1.00x\n2 ddp 190.3 1.89x\n4 ddp 361.8 3.60x\n",
    "python.txt": "".join(f"{{'gpus': {n}, 'samples_per_sec': {rate}}}\n" for n, _, rate, _ in ROWS),
    "page.txt": tabulate(ROWS, HEADER, tablefmt="html"),
}


@pytest.mark.parametrize("form", [form for form in tabulate_formats if form not in NAMED | NOT_READ])
def test_each_form_of_tabulate_is_read(tmp_path, form):
    path = tmp_path / "results.txt"
    path.write_text(f"Results\n\n{tabulate(ROWS, HEADER, tablefmt=form)}\n")
    audit = audit_paths([path])
    assert [line.speedup for line in audit.scaling] == ["", "1.89x", "3.6x"]
    assert [row.published for row in audit.readings] == [row[-1] for row in ROWS]


@pytest.mark.parametrize("form", NAMED)
def test_other_forms_are_named(tmp_path, form):
    path = tmp_path / "results.txt"
    path.write_text(tabulate(ROWS, HEADER, tablefmt=form))
    with pytest.raises(NoResult, match="which is not read: give a row a line"):
        audit_paths([path])


@pytest.mark.parametrize("name", TEXTS)
def test_what_other_programs_print_is_read(tmp_path, name):
    (tmp_path / name).write_text(TEXTS[name])
    assert [line.speedup for line in audit_paths([tmp_path / name]).scaling] == ["", "1.89x", "3.6x"]


@pytest.mark.parametrize(
    "text",
    [
        "we ran it on\n1 2 3 4\n5 6 7 8\n",  # words above figures, of no kind
        "a || b || c\nif x || y || z\n1 || 2 || 3\n",  # bars of a program
        "{'gpus': 8}\n{'gpus': 4}\n",  # without results
        "GPUs samples/s\n1 100.5 then\n2 190.3 again and again\n",  # no row has as many words
    ],
)
def test_other_texts_are_no_tables(tmp_path, text):
    (tmp_path / "notes.txt").write_text(text)
    with pytest.raises(NoResult):
        audit_paths([tmp_path / "notes.txt"])
