"""The notebooks of the documentation, run cell by cell without a server: `python tests/notebooks.py` writes outputs.

In a cell, the last expression is shown, as Jupyter does; data frames as tables as well.
"""

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
NOTEBOOKS = sorted((REPOSITORY / "docs/notebooks").glob("*.ipynb"))
Output = dict[str, Any]


def run(path: Path, folder: Path) -> dict[str, Any]:
    """Return the notebook with the outputs of its cells, run in `folder`, where `results` is that of the repository."""
    notebook: dict[str, Any] = json.loads(path.read_text())
    (folder / "results").symlink_to(REPOSITORY / "results")
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    with contextlib.chdir(folder):
        for number, cell in enumerate(cells, start=1):
            cell |= {"execution_count": number, "outputs": _outputs("".join(cell["source"]), names, number)}
    return notebook


def _outputs(source: str, names: dict[str, Any], number: int) -> list[Output]:
    """Run the source of the cell `number` among `names`; return what it printed, and its last expression."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if isinstance(last, ast.Expr) else None
    outputs: list[Output] = []
    if text := printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        outputs.append({"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data})
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
    return outputs


def main() -> None:
    os.environ["COLUMNS"] = "80"
    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            path.write_text(json.dumps(run(path, Path(folder)), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
