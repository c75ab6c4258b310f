"""The formal question of a campaign: which cells it is about."""

from scalebench.campaign.cells import Cell
from scalebench.campaign.config import Question
from scalebench.errors import UserError, nearest


def cells_of_question(question: Question | None, cells: list[Cell]) -> dict[str, str | float] | None:
    """Names of the cells (`is`, `better_than`) and by how much one must be better (`by`).

    Raises UserError where a name means no cell, or several.
    """
    if question is None:
        return None
    subject = _meant("is", question.subject, question, cells).slug
    base = _meant("better_than", question.better_than, question, cells).slug
    if subject == base:
        raise UserError(f"question: {base} is compared with itself", key=("question", "better_than"))
    return {"is": subject, "better_than": base, "by": question.by}


def _meant(key: str, name: str, question: Question, cells: list[Cell]) -> Cell:
    """The one cell that is meant by a slug or a strategy."""
    exact = [cell for cell in cells if cell.slug == name]
    geometry = None if question.on is None else str(question.on)
    of_strategy = [cell for cell in cells if cell.execution.strategy == name]
    meant = exact or [cell for cell in of_strategy if geometry in (None, str(cell.execution.geometry))]
    if len(meant) == 1:
        return meant[0]
    names = [cell.slug for cell in meant or cells]
    problem = "means several cells" if meant else f"is no cell{f' on {geometry}' if geometry else ''}"
    hint = "" if meant else nearest(name, names)
    raise UserError(f'question.{key}: "{name}" {problem}.{hint} Cells: {", ".join(names)}', key=("question", key))
