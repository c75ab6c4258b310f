"""The cells that a campaign's question names."""

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.question import Question
from scaleproof.ground.errors import UserError, did_you_mean


def cells_of_question(question: Question | None, cells: list[Cell]) -> dict[str, str | float] | None:
    """Return the question with the full names of its cells: {"is": ..., "better_than": ..., "by": ...}.

    Or "not_slower_than"; `by` is the part of the rate in question. None where the campaign asks nothing. Raises
    UserError where a name means no cell, or several.
    """
    if question is None:
        return None
    subject = _find_cell_meant("is", question.subject, question, cells).slug
    relation = "not_slower_than" if question.not_slower_than else "better_than"
    if question.better_than is question.not_slower_than is None:
        others = ", ".join(cell.slug for cell in cells if cell.slug != subject)
        raise UserError(
            f"question: {subject} is compared with nothing; give better_than: CELL, or not_slower_than: CELL with by: "
            f"5 %. Other cells: {others or 'none'}",
            ("question",),
        )
    base = _find_cell_meant(relation, question.better_than or question.not_slower_than or "", question, cells).slug
    if subject == base:
        raise UserError(f"question: {base} is compared with itself", key=("question", relation))
    return {"is": subject, relation: base, "by": question.by}


def _find_cell_meant(key: str, name: str, question: Question, cells: list[Cell]) -> Cell:
    """Return the one cell that `name` means: a slug, or a short name of cells, of which `question.on` names one.

    `key`: of the question, for the message. Raises UserError where `name` means no cell, or several.
    """
    exact = [cell for cell in cells if cell.slug == name]
    geometry = None if question.on is None else str(question.on)
    of_short_name = [cell for cell in cells if name in _short_names(cell)]
    meant = exact or [cell for cell in of_short_name if geometry in (None, str(cell.execution.geometry))]
    if len(meant) == 1:
        return meant[0]
    slugs, place = ", ".join(cell.slug for cell in meant or of_short_name or cells), ("question", key)
    if meant:
        geometries = {str(cell.execution.geometry) for cell in meant} if geometry is None else ()
        advice = f"question.on (for instance on: {meant[-1].execution.geometry}) or " if len(geometries) > 1 else ""
        raise UserError(f'question.{key}: "{name}" means several cells; give {advice}the name of one: {slugs}', place)
    if of_short_name:
        raise UserError(f"question.on: no cell of {name} is on {geometry}. Cells: {slugs}", ("question", "on"))
    names = [*dict.fromkeys(short for cell in cells for short in _short_names(cell)), *(cell.slug for cell in cells)]
    on = f" on {geometry}" if geometry else ""
    raise UserError(f'question.{key}: "{name}" is no cell{on}.{did_you_mean(name, names)} Cells: {slugs}', place)


def _short_names(cell: Cell) -> list[str]:
    """Return short names by which a question may mean a cell: its strategy, or the labels of its settings."""
    if cell.command is None:
        return [cell.execution.strategy]
    return [setting.label for setting in cell.settings.values()]
