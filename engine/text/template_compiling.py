"""Compiles a template: refuses syntax that no chat template needs, and routes operations through the sandbox."""

from __future__ import annotations

from typing import Any

from jinja2 import Template, nodes
from jinja2.visitor import NodeTransformer

from engine.errors import SafelightError
from engine.text.template_budget import LimitError, TemplateBudget
from engine.text.template_sandbox import Sandbox, current

MOST_SOURCE = 2**17  # characters; published templates have up to 30 000
MOST_NODES = 10_000  # of the syntax tree; published templates have up to 3 000

_NODES = (
    nodes.Template, nodes.Output, nodes.For, nodes.If, nodes.Macro, nodes.CallBlock, nodes.FilterBlock, nodes.With,
    nodes.Assign, nodes.AssignBlock, nodes.Continue, nodes.Break, nodes.Name, nodes.NSRef, nodes.Literal, nodes.Pair,
    nodes.Keyword, nodes.CondExpr, nodes.Filter, nodes.Test, nodes.Call, nodes.Getitem, nodes.Getattr, nodes.Slice,
    nodes.Concat, nodes.Compare, nodes.Operand, nodes.BinExpr, nodes.UnaryExpr,
)  # fmt: skip


def _by(name: str, node: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


class _Rewriting(NodeTransformer):
    """Routes operations that Jinja would compile to plain Python through our filters."""

    def visit_For(self, node: nodes.For) -> nodes.For:
        self.visit_Macro(node)
        if node.test is not None:  # runs for skipped items, too
            node.test = nodes.And(self._cost([node.test]), node.test, lineno=node.lineno)
        return node

    def visit_Macro(self, node: nodes.Macro | nodes.For) -> nodes.Macro | nodes.For:
        cost = self._cost(node.body)
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(cost, lineno=node.lineno))
        return node

    visit_CallBlock = visit_Macro  # noqa: N815

    @staticmethod
    def _cost(body: list[Any]) -> nodes.Filter:
        """Returns the cost of one iteration of a body, by the number of its nodes."""
        size = sum(1 for part in body for _ in part.find_all(nodes.Node))
        return _by(" turn", nodes.Const(1 + size // 8, lineno=body[0].lineno if body else 1))

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Const:
        return nodes.Const(node.data, lineno=node.lineno)  # so that it is written and charged like other output

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:
        self.generic_visit(node)
        return _by(" joined", nodes.List(node.nodes, lineno=node.lineno))

    def visit_Compare(self, node: nodes.Compare) -> nodes.Expr:
        self.generic_visit(node)
        if [operand.op for operand in node.ops] in (["in"], ["notin"]):
            found = _by(" within", node.expr)
            found.args = [node.ops[0].expr]
            return found if node.ops[0].op == "in" else nodes.Not(found, lineno=node.lineno)
        holds = any(operand.op in ("in", "notin") for operand in node.ops)
        node.expr = _by(" read", node.expr)
        for operand in node.ops:
            operand.expr = _by(" holder" if holds else " read", operand.expr)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Getitem:
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            node.node = _by(" look", node.node)
        return node

    def visit_List(self, node: Any) -> nodes.Expr:
        self.generic_visit(node)
        return node if getattr(node, "ctx", "load") == "store" else _by(" made", node)

    visit_Tuple = visit_List  # noqa: N815

    def visit_Dict(self, node: nodes.Dict) -> nodes.Filter:
        self.generic_visit(node)
        for pair in node.items:
            pair.key = _by(" read", pair.key)
        return _by(" made", node)

    def visit_Call(self, node: Any) -> nodes.Expr:
        self.generic_visit(node)
        for spread in ("dyn_args", "dyn_kwargs"):
            if getattr(node, spread) is not None:
                setattr(node, spread, _by(" look", getattr(node, spread)))
        return node  # type: ignore[no-any-return]

    visit_Filter = visit_Test = visit_Call  # noqa: N815


_SANDBOX = Sandbox()


def compile_template(source: str) -> Template:
    """Compiles a template for ``render``.

    Raises:
        SafelightError: it is not a template, or uses syntax that chat templates do not need.
    """
    if len(source) > MOST_SOURCE:
        raise SafelightError(
            f"the model's chat template is longer than {MOST_SOURCE:,} characters, the most that is read"
        )
    try:
        tree = _SANDBOX.parse(source)
        found = 1
        for node in tree.find_all(nodes.Node):
            found += 1
            if not isinstance(node, _NODES):
                raise LimitError(f"it has a {type(node).__name__.lower()}, which chat templates have no use for")
        if found > MOST_NODES:
            raise LimitError(f"it has more than {MOST_NODES:,} parts")
        tree = _Rewriting().visit(tree)
        tree.set_environment(_SANDBOX)
        return _SANDBOX.from_string(tree)
    except Exception as error:  # nested too deeply for Jinja or Python, which raise several types
        raise SafelightError(f"the model's chat template is damaged: {_why(error)}") from error


def names_in(source: str) -> frozenset[str]:
    """Returns the names of attributes, and the texts, that a template which compiles has in its expressions."""
    tree = _SANDBOX.parse(source)
    texts = {node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str)}
    return frozenset(texts | {node.attr for node in tree.find_all(nodes.Getattr)})


def render(template: Template, budget: TemplateBudget, values: dict[str, Any]) -> str:
    """Renders a template within a budget.

    Raises:
        SafelightError: the template refuses the values, or takes too much.
    """
    token = current.set(budget)
    try:
        for value in values.values():
            budget.weigh(value)
        return template.render(values)
    except Exception as error:  # a template may raise anything
        raise SafelightError(f"the model's chat template refuses this conversation: {_why(error)}") from error
    finally:
        current.reset(token)


def _why(error: Exception) -> str:
    if isinstance(error, RecursionError | MemoryError):
        return "it is nested too deeply"
    return str(error) or type(error).__name__
