"""The cells that a campaign's question names."""

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.question import Question
from scaleproof.ground.errors import UserError, did_you_mean


def cells_of_question(question: Question | None, cells: list[Cell]) -> dict[str, str | float] | None:
    """Return the question with the full names of its cells: {"is": ..., "better_than": ..., "by": ...}.

    "not_slower_than" may stand in place of "better_than"; "by" is a fraction of the rate. Returns None where the
    campaign has no question. Raises UserError where a name means no cell, or several.
    """
    if question is None:
        return None

    subject_cell = _find_cell_meant("is", question.subject, question, cells)
    subject = subject_cell.slug
    relation = "not_slower_than" if question.not_slower_than else "better_than"
    base_name = question.not_slower_than if question.better_than is None else question.better_than
    if base_name is None:
        others = ", ".join(cell.slug for cell in cells if cell.slug != subject) or "none"
        advice = f"give better_than: CELL, or not_slower_than: CELL with by: 5 %. Other cells: {others}"
        raise UserError(f"question: {subject} is compared with nothing; {advice}", ("question",))

    base_cell = _find_cell_meant(relation, base_name, question, cells)
    base = base_cell.slug
    if subject == base:
        raise UserError(f"question: {base} is compared with itself", key=("question", relation))
    if subject_cell.command is None:
        _check_same_model(subject_cell, base_cell)
    return {"is": subject, relation: base, "by": question.by}


def _check_same_model(subject: Cell, base: Cell) -> None:
    """Raise UserError where the models of two cells differ in parameters, so that their rates would not be compared."""
    models = [str(cell.workload.model) for cell in (subject, base)]
    if len(set(models)) > 1:
        fault = f"{subject.slug} and {base.slug} have different models, {' and '.join(models)}"
        raise UserError(f"question: {fault}, whose rates are not compared; ask about cells of one model", ("question",))
    rows = [cell.vocab_size for cell in (subject, base)]
    if len(set(rows)) > 1:
        fault = f"{subject.slug} and {base.slug} have vocab_size {rows[0]} and {rows[1]}, so other parameters"
        cure = f"give both one: workload.vocab_size: {max(rows)}"
        raise UserError(f"question: {fault}, and would not be compared; {cure}", ("question",))


def _find_cell_meant(key: str, name: str, question: Question, cells: list[Cell]) -> Cell:
    """Return the one cell that `name` means, by its slug or by a short name.

    Several cells may have one short name; `question.on` then chooses the cell by its geometry. `key`: the key of the
    question that gives the name, for the message. Raises UserError where `name` means no cell, or several.
    """
    with_name = [cell for cell in cells if cell.slug == name] or [cell for cell in cells if name in _short_names(cell)]
    matches = [cell for cell in with_name if question.on in (None, cell.execution.geometry)]
    if len(matches) == 1:
        return matches[0]

    slugs = ", ".join(cell.slug for cell in matches or with_name or cells)
    place = ("question", key)
    if matches:
        geometries = [cell.execution.geometry for cell in matches]
        can_choose = question.on is None and len(set(geometries)) > 1
        advice = f"question.on (for instance on: {geometries[-1]}) or " if can_choose else ""
        raise UserError(f'question.{key}: "{name}" means several cells; give {advice}the name of one: {slugs}', place)
    if with_name:
        raise UserError(f"question.on: no cell of {name} is on {question.on}. Cells: {slugs}", ("question", "on"))

    names = [*dict.fromkeys(short for cell in cells for short in _short_names(cell)), *(cell.slug for cell in cells)]
    where = "" if question.on is None else f" on {question.on}"
    raise UserError(f'question.{key}: "{name}" is no cell{where}.{did_you_mean(name, names)} Cells: {slugs}', place)


def _short_names(cell: Cell) -> list[str]:
    """Return the short names of a cell in a question: its strategy, or the labels of its command's settings."""
    if cell.command is None:
        return [cell.execution.strategy]
    return [setting.label for setting in cell.settings.values()]
