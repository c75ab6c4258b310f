"""Edits of source code by a grammar: what an opponent might do to a statement or an expression, and from when on."""

import ast
import copy
import importlib
import inspect
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import scaleproof

PACKAGE = Path(scaleproof.__file__).parent
WHEN = ("always", "in the window", "once in ten")
# How often an operation is drawn, for each time that another one is: what changes figures more often.
OFTEN = {"swap": 4, "rescale": 4, "drop": 3, "skip": 3, "shorten": 2, "cast": 2, "relabel": 2}
HELPER = "_opponent"  # the name under which edited code calls what is below
OPERATORS: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
OPPOSITES = (("max", "min"), ("mean", "median"), ("any", "all"), ("low", "high"), ("first", "last"), ("a", "b"))
OPPOSITE = {one: other for pair in OPPOSITES for one, other in (pair, pair[::-1])}


class Opponent:
    """What edited code calls while it runs. `window_open`: set around the timed window by who runs the edit."""

    def __init__(self) -> None:
        self.window_open = False
        self._calls: dict[str, int] = {}
        self._values: dict[str, Any] = {}
        self._delayed: dict[str, Callable[[], Any]] = {}

    def now(self, place: str, when: str) -> bool:
        """Whether the edit at `place` acts in this call of it."""
        self._calls[place] = self._calls.get(place, 0) + 1
        return self.window_open if when == "in the window" else self._calls[place] % 10 == 0

    def cached(self, place: str, make: Callable[[], Any]) -> Any:
        """The first value that was made at `place`."""
        if place not in self._values:
            self._values[place] = make()
        return self._values[place]

    def later(self, place: str, act: Callable[[], Any]) -> None:
        """Do what the call before this one should have done at `place`."""
        before, self._delayed[place] = self._delayed.get(place), act
        if before:
            before()

    def half(self, value: Any) -> Any:
        """The first half of what can be cut; anything else as it is."""
        if isinstance(value, str | bytes | dict) or not hasattr(value, "__getitem__") or not hasattr(value, "__len__"):
            return value
        return value if getattr(value, "ndim", 1) == 0 or len(value) < 2 else value[: len(value) // 2]

    def coarse(self, value: Any) -> Any:
        """A number, array or tensor rounded as bf16 or float16 does; anything else as it is."""
        import numpy as np
        import torch

        if isinstance(value, torch.Tensor):
            return value.bfloat16().to(value.dtype) if value.is_floating_point() else value
        if isinstance(value, np.ndarray):
            return value.astype(np.float16).astype(value.dtype) if value.dtype.kind == "f" else value
        return float(f"{value:.1e}") if isinstance(value, float) else value

    def scaled(self, value: Any, factor: float) -> Any:
        """`factor` times a number, array or tensor of numbers; anything else as it is."""
        import numpy as np
        import torch

        if isinstance(value, bool):
            return value
        if isinstance(value, int):
            return round(factor * value)
        is_number = isinstance(value, float)
        is_array = isinstance(value, np.ndarray | np.floating) and value.dtype.kind == "f"
        is_tensor = isinstance(value, torch.Tensor) and value.is_floating_point()
        return factor * value if is_number or is_array or is_tensor else value


@dataclass
class Site:
    """A place in a tree that an operation can change: `parent.field`, or `parent.field[index]`."""

    function: str  # qualified name
    operation: str
    parent: ast.AST
    field: str
    index: int | None
    before: ast.AST
    after: ast.AST

    def put(self, node: ast.AST) -> None:
        """Replace what stands at this site: of `reorder` it is two statements."""
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            end = self.index + (2 if self.operation == "reorder" else 1)
            getattr(self.parent, self.field)[self.index : end] = [node]


@dataclass(frozen=True)
class Edit:
    """One change of one function; `number`: of its site among those of its operation in the file."""

    file: str  # below src/scaleproof
    operation: str
    number: int
    when: str

    def site(self, tree: ast.Module) -> Site:
        """Where it is in the tree of its file."""
        return [site for site in sites(tree) if site.operation == self.operation][self.number]

    def line(self, site: Site) -> str:
        """The edit as a line for a reader."""
        return (
            f"{self.file}:{_line_of(site)} {site.function}: {self.operation} {self.when}: "
            f"{_short(site.before)} -> {_short(site.after)}"
        )


def apply(edits: Sequence[Edit], helper: Opponent) -> None:
    """Change the functions of this process as if the package had been edited. Raises ValueError where that cannot be.

    Whoever has a function already runs its new code.
    """
    for file in {edit.file for edit in edits}:
        tree = ast.parse((PACKAGE / file).read_text())
        chosen = [(edit, edit.site(tree)) for edit in edits if edit.file == file]
        for edit, site in chosen:
            place = f"{file}:{site.function}:{edit.operation}:{edit.number}"
            site.put(site.after if edit.when == "always" else _guarded(site, place, edit.when))
        code = compile(ast.fix_missing_locations(tree), str(PACKAGE / file), "exec")
        module = importlib.import_module("scaleproof." + file.removesuffix(".py").replace("/", "."))
        vars(module)[HELPER] = helper
        for _, site in chosen:
            _function(module, site.function).__code__ = next(_codes(code, site.function))


def in_words(edits: Sequence[Edit]) -> str:
    """The edits in words."""
    return "\n         and ".join(edit.line(edit.site(ast.parse((PACKAGE / edit.file).read_text()))) for edit in edits)


def _function(module: Any, name: str) -> Any:
    """The plain function of a qualified name, below what decorators have made of it."""
    value = module
    for part in name.split("."):
        value = inspect.getattr_static(value, part)
    for wrapper in ("fget", "func", "__func__"):
        value = getattr(value, wrapper, value)
    return inspect.unwrap(value)


def _codes(code: CodeType, name: str) -> Iterator[CodeType]:
    """The code of the function of a qualified name, within that of its module."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_qualname == name:
                yield constant
            yield from _codes(constant, name)


def _line_of(site: Site) -> int:
    return int(getattr(site.before, "lineno", 0))


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).replace(f"{HELPER}.", "").split())
    return text if len(text) <= 90 else f"{text[:60]} ... {text[-25:]}"


def _guarded(site: Site, place: str, when: str) -> ast.AST:
    """Both versions of a site, of which the edited one acts at some times."""
    test = _call("now", ast.Constant(place), ast.Constant(when))
    if isinstance(site.before, ast.stmt):
        after, before = site.after, site.before
        assert isinstance(after, ast.stmt)
        return ast.If(test, [after], [before])
    assert isinstance(site.before, ast.expr)
    assert isinstance(site.after, ast.expr)
    return ast.IfExp(test, site.after, site.before)


def _call(helper: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name(HELPER, ast.Load()), helper, ast.Load()), list(arguments), [])


def sites(tree: ast.Module) -> Iterator[Site]:
    """Every change that the grammar allows in the functions of a module, in a fixed order."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield from _in_function(node, node.name)
        for method in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(method, ast.FunctionDef):
                yield from _in_function(method, f"{node.name}.{method.name}")  # type: ignore[attr-defined]


def _in_function(function: ast.FunctionDef, name: str) -> Iterator[Site]:
    """The sites in the body of a function. A function that yields is left alone: it may be no plain function."""
    skipped = {id(node) for s in function.body if _is_docstring(s) or isinstance(s, ast.Import) for node in ast.walk(s)}
    for statement in function.body:
        for parent in ast.walk(statement) if statement is not function.body[0] or id(statement) not in skipped else ():
            for field, value in ast.iter_fields(parent):
                for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
                    if isinstance(node, ast.stmt):
                        following = value[index + 1 : index + 2] if isinstance(value, list) else []
                        yield from _of_statement(name, parent, field, index, node, following)
                    elif isinstance(node, ast.expr) and _is_read(node) and field not in ("annotation", "func"):
                        for operation, after in _of_expression(node, f"{name}:{node.lineno}:{node.col_offset}"):
                            yield Site(name, operation, parent, field, index, node, after)
    for index, node in enumerate(function.body):
        if id(node) not in skipped:
            yield from _of_statement(name, function, "body", index, node, function.body[index + 1 : index + 2])


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_read(node: ast.expr) -> bool:
    is_object = isinstance(node, ast.Name) and node.id in ("self", "np", "torch", "dist")
    is_part = isinstance(node, ast.Starred | ast.JoinedStr | ast.FormattedValue)
    return isinstance(getattr(node, "ctx", ast.Load()), ast.Load) and not is_object and not is_part


def _of_statement(
    name: str, parent: ast.AST, field: str, index: int | None, node: ast.stmt, following: list[ast.stmt]
) -> Iterator[Site]:
    """Skip, repeat and delay what acts; a block is skipped or repeated as a whole. Two neighbours change places."""

    def site(operation: str, after: ast.AST, before: ast.AST = node) -> Site:
        return Site(name, operation, parent, field, index, before, after)

    if isinstance(node, ast.Expr | ast.AugAssign | ast.For | ast.If):
        yield site("skip", ast.copy_location(ast.Pass(), node))
        yield site("repeat", _block([node, node]))
    if isinstance(node, ast.Expr) and not any(isinstance(part, ast.Yield) for part in ast.walk(node)):
        act = ast.Lambda(ast.arguments([], [], None, [], [], None, []), node.value)
        yield site("overlap", ast.Expr(_call("later", ast.Constant(f"{name}:{node.lineno}"), act)))
    both = [node, *following]
    if len(both) > 1 and all(isinstance(one, ast.Expr | ast.AugAssign | ast.Assign) for one in both):
        yield site("reorder", _block(both[::-1]), _block(both))


def _block(statements: list[ast.stmt]) -> ast.stmt:
    return ast.copy_location(ast.If(ast.Constant(True), statements, []), statements[0])


def _of_expression(node: ast.expr, place: str) -> Iterator[tuple[str, ast.expr]]:
    """What a value can be made into: half, rounded, scaled, that of the first time; other operands, fewer arguments."""
    if isinstance(node, ast.Name | ast.Call | ast.BinOp | ast.Attribute | ast.Subscript):
        yield "shorten", _call("half", node)
        yield "cast", _call("coarse", node)
        for factor in (0.8, 1.25):
            yield "rescale", _call("scaled", node, ast.Constant(factor))
    if isinstance(node, ast.Call):
        make = ast.Lambda(ast.arguments([], [], None, [], [], None, []), node)
        yield "cache", _call("cached", ast.Constant(place), make)
        for keyword in node.keywords:
            yield "drop", _with(node, keywords=[other for other in node.keywords if other is not keyword])
        for left, right in zip(node.keywords, node.keywords[1:], strict=False):
            exchanged = [ast.keyword(left.arg, right.value), ast.keyword(right.arg, left.value)]
            others = [keyword for keyword in node.keywords if keyword not in (left, right)]
            yield "relabel", _with(node, keywords=[*others, *exchanged])
        if len(node.args) > 1:
            yield "swap", _with(node, args=[node.args[1], node.args[0], *node.args[2:]])
    if isinstance(node, ast.Dict) and len(node.values) > 1 and None not in node.keys:
        yield "relabel", _with(node, values=[*node.values[1:], node.values[0]])
    if isinstance(node, ast.List | ast.Tuple | ast.Set) and len(node.elts) > 1:
        yield "drop", _with(node, elts=node.elts[:-1])
    if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp) and node.generators[0].ifs:
        first = _with(node.generators[0], ifs=[])
        yield "drop", _with(node, generators=[first, *node.generators[1:]])
    yield from _of_operators(node)


def _of_operators(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The opposite of an operator, or of a name that has one."""
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in OPERATORS:
        yield "swap", _with(node, op=OPERATORS[type(node.op)]())
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OPERATORS:
        yield "swap", _with(node, ops=[OPERATORS[type(node.ops[0])](), *node.ops[1:]])
    if isinstance(node, ast.Attribute) and node.attr in OPPOSITE:
        yield "swap", _with(node, attr=OPPOSITE[node.attr])
    if isinstance(node, ast.Name) and node.id in ("max", "min", "any", "all"):
        yield "swap", _with(node, id=OPPOSITE[node.id])
    if isinstance(node, ast.IfExp):
        yield "swap", _with(node, body=node.orelse, orelse=node.body)


def _with(node: Any, **fields: Any) -> Any:
    """A copy of a node with other fields; what is below is shared."""
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


Lines = dict[str, set[int]]  # file below src/scaleproof -> numbers of its lines that ran


def note_lines(log: Path, part: str = "-") -> None:
    """Have this process write to `log` which lines of the package it runs, from now on, as of a `part` of the work."""
    seen: set[tuple[str, int]] = set()
    file = log.open("a", buffering=1)

    def note(frame: FrameType, event: str, argument: Any) -> Any:
        line = (frame.f_code.co_filename, frame.f_lineno)
        if not line[0].startswith(str(PACKAGE)):
            return None
        if event == "line" and line not in seen:
            seen.add(line)
            file.write(f"{Path(line[0]).relative_to(PACKAGE).as_posix()} {line[1]} {part}\n")
        return note

    sys.settrace(note)


def read_lines(log: Path, folders: Sequence[str], part: str = "-") -> Lines:
    """What `note_lines` has written of a part, of files right in some folders of the package."""
    lines: Lines = {}
    for text in log.read_text().splitlines():
        file, number, of_part = text.split()
        if of_part == part and file.rpartition("/")[0] in folders:
            lines.setdefault(file, set()).add(int(number))
    return lines


def drawn(chance: random.Random, ran: Lines, timed: bool) -> Edit:
    """A random edit of a line that runs: a file by how many of its lines do, then operation and place.

    `timed`: there is a window.
    """
    files = sorted(ran)
    while True:
        file = chance.choices(files, [len(ran[name]) for name in files])[0]
        numbers: dict[str, list[int]] = {}
        seen: Counter[str] = Counter()
        for site in sites(ast.parse((PACKAGE / file).read_text())):
            if _line_of(site) in ran[file]:
                numbers.setdefault(site.operation, []).append(seen[site.operation])
            seen[site.operation] += 1
        if numbers:
            operations = sorted(numbers)
            operation = chance.choices(operations, [OFTEN.get(name, 1) for name in operations])[0]
            when = chance.choice(WHEN if timed else (*["always"] * 5, "once in ten"))
            return Edit(file, operation, chance.choice(numbers[operation]), when)
