"""Recursive-descent parser of the CEL grammar: builds the syntax tree and expands macros.

A missing operand before an operator is reported and parsing continues; any other syntax error ends parsing. The
messages equal those of Kubernetes, which recovers from more errors and may report more of them.
"""

from __future__ import annotations

from collections.abc import Callable

from dray.api.names import CEL_RESERVED
from dray.cel import literals
from dray.cel.ast import AstNode, Call, Ident, Initializer, ListNode, Literal, MapEntry, MapNode, Select, Struct
from dray.cel.errors import CelIssue, Problems
from dray.cel.lexer import Token, tokenize
from dray.cel.literals import LiteralError
from dray.cel.macros import Copies, MacroError, MacroExpander, find_macro

MAX_DEPTH = 250

_RELATIONS = {op: f"_{op}_" for op in ("<", "<=", ">=", ">", "==", "!=")} | {"in": "@in"}
_CALCULATIONS = {"*": 2, "/": 2, "%": 2, "+": 1, "-": 1}
_AFTER_OPERANDS = {*_RELATIONS, *_CALCULATIONS, "&&", "||", "?"} - {"-"}
_OPERAND_EXPECTED = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


def parse(text: str) -> AstNode:
    """Parse an expression. Returns its syntax tree.

    Raises Problems if there are syntax errors or the tree is too deep.
    """
    tokens, problems = tokenize(text)
    parser = _Parser(tokens, problems)
    try:
        tree = parser.start()
    except _Stop as stop:
        problems.append(stop.problem)
    if problems:
        raise Problems(*problems)
    if tree.height > MAX_DEPTH:
        raise Problems(CelIssue("max recursion depth exceeded"))
    return tree


class _Stop(Exception):
    """Ends parsing at the first syntax error or when nesting is too deep; caught in `parse`."""

    def __init__(self, problem: CelIssue) -> None:
        self.problem = problem


class _Parser:
    def __init__(self, tokens: list[Token], problems: list[CelIssue]) -> None:
        self._tokens = tokens
        self._problems = problems
        self._position = 0
        self._copies = Copies()
        # Nesting is limited per grammar rule, as in Kubernetes, where a chain of operators counts as nesting.
        self._depth = {"expr": 0, "relation": 0, "calc": 0, "member": 0}

    @property
    def _token(self) -> Token:
        return self._tokens[self._position]

    def _next(self) -> Token:
        token = self._tokens[self._position]
        self._position += 1
        return token

    def _accept(self, kind: str) -> Token | None:
        return self._next() if self._token.kind == kind else None

    def _expect(self, kind: str) -> Token:
        token = self._accept(kind)
        if token is None:
            shown = kind if kind.isupper() or kind == "<EOF>" else f"'{kind}'"
            raise self._syntax_error(f"mismatched input '{self._token.text}' expecting {shown}")
        return token

    def _syntax_error(self, message: str) -> _Stop:
        return _Stop(CelIssue(f"Syntax error: {message}", self._token.offset))

    def _enter(self, rule: str) -> None:
        self._depth[rule] += 1
        if self._depth[rule] > MAX_DEPTH:
            raise _Stop(CelIssue(f"expression recursion limit exceeded: {MAX_DEPTH}"))

    def start(self) -> AstNode:
        tree = self._expr()
        if self._token.kind != "<EOF>":
            raise self._syntax_error(f"extraneous input '{self._token.text}' expecting <EOF>")
        return tree

    def _expr(self) -> AstNode:
        self._enter("expr")
        node = self._logical("||", "_||_", self._conjunction)
        question = self._accept("?")
        if question:
            truthy = self._logical("||", "_||_", self._conjunction)
            self._expect(":")
            falsy = self._expr()
            node = self._call(question.offset, "_?_:_", [node, truthy, falsy])
        self._depth["expr"] -= 1
        return node

    def _conjunction(self) -> AstNode:
        return self._logical("&&", "_&&_", self._relation)

    def _logical(self, operator: str, function: str, operand: Callable[[], AstNode]) -> AstNode:
        terms, offsets = [operand()], []
        while token := self._accept(operator):
            offsets.append(token.offset)
            terms.append(operand())
        return self._balance(function, terms, offsets, 0, len(offsets) - 1) if offsets else terms[0]

    def _balance(self, function: str, terms: list[AstNode], offsets: list[int], low: int, high: int) -> AstNode:
        """Return a chain of && or || as a balanced tree, because estimated costs depend on the shape of the tree."""
        middle = (low + high + 1) // 2
        left = terms[middle] if middle == low else self._balance(function, terms, offsets, low, middle - 1)
        right = terms[middle + 1] if middle == high else self._balance(function, terms, offsets, middle + 1, high)
        return Call(offsets[middle], function, None, [left, right], height=max(left.height, right.height))

    def _relation(self) -> AstNode:
        entered = self._depth["relation"]
        self._enter("relation")
        node = self._calc(1)
        while self._token.kind in _RELATIONS:
            operator = self._next()
            self._enter("relation")
            self._enter("relation")
            right = self._calc(1)
            self._depth["relation"] -= 1
            node = self._call(operator.offset, _RELATIONS[operator.kind], [node, right])
        self._depth["relation"] = entered
        return node

    def _calc(self, precedence: int) -> AstNode:
        entered = self._depth["calc"]
        self._enter("calc")
        node = self._unary()
        while _CALCULATIONS.get(self._token.kind, 0) >= precedence:
            operator = self._next()
            self._enter("calc")
            right = self._calc(_CALCULATIONS[operator.kind] + 1)
            node = self._call(operator.offset, f"_{operator.kind}_", [node, right])
        self._depth["calc"] = entered
        return node

    def _unary(self) -> AstNode:
        first = self._token
        if first.kind == "!":
            return self._repeated(first, "!_")
        if first.kind == "-" and self._tokens[self._position + 1].kind not in ("NUM_INT", "NUM_FLOAT"):
            return self._repeated(first, "-_")
        return self._member()

    def _repeated(self, first: Token, function: str) -> AstNode:
        count = 0
        while self._accept(first.kind):
            count += 1
        node = self._member()
        return self._call(first.offset, function, [node], nests=False) if count % 2 else node

    def _member(self) -> AstNode:
        entered = self._depth["member"]
        self._enter("member")
        node = self._primary()
        while self._token.kind in (".", "["):
            self._enter("member")
            node = self._index(node) if self._token.kind == "[" else self._dotted(node)
        self._depth["member"] = entered
        return node

    def _index(self, operand: AstNode) -> AstNode:
        bracket = self._next()
        function = "_[?_]" if self._accept("?") else "_[_]"
        index = self._expr()
        self._expect("]")
        return self._call(bracket.offset, function, [operand, index])

    def _dotted(self, operand: AstNode) -> AstNode:
        dot = self._next()
        optional = self._accept("?")
        name = self._accept("ESC_IDENTIFIER") or self._accept("IDENTIFIER")
        if name is None:
            raise self._syntax_error(f"no viable alternative at input '.{self._token.text}'")
        field = name.text[1:-1] if name.kind == "ESC_IDENTIFIER" else name.text
        if optional:
            literal = Literal(name.offset, field)
            return Call(dot.offset, "_?._", None, [operand, literal], height=operand.height + 1)
        opening = self._accept("(") if name.kind == "IDENTIFIER" else None
        if opening:
            return self._call(opening.offset, field, self._arguments(), operand)
        return Select(dot.offset, operand, field, height=operand.height + 1)

    def _arguments(self) -> list[AstNode]:
        arguments = []
        if self._token.kind != ")":
            arguments.append(self._expr())
            while self._accept(","):
                arguments.append(self._expr())
        self._expect(")")
        return arguments

    def _primary(self) -> AstNode:
        token = self._token
        match token.kind:
            case "(":
                self._next()
                node = self._expr()
                self._expect(")")
                return node
            case "[":
                return self._list(self._next())
            case "{":
                return self._map(self._next())
            case "." | "IDENTIFIER":
                return self._name()
        return self._literal()

    def _literal(self) -> AstNode:
        sign = self._accept("-")
        token = self._token
        parse_literal = _LITERALS.get(token.kind)
        if parse_literal is None or (sign and token.kind not in ("NUM_INT", "NUM_FLOAT")):
            stop = self._syntax_error(f"mismatched input '{token.text}' expecting {_OPERAND_EXPECTED}")
            if token.kind not in _AFTER_OPERANDS:
                raise stop
            self._problems.append(stop.problem)  # continue after the operator, as Kubernetes does
            return Literal(token.offset, None)
        self._next()
        offset = sign.offset if sign else token.offset
        try:
            return Literal(offset, parse_literal("-" + token.text if sign else token.text))
        except LiteralError as error:
            self._problems.append(CelIssue(str(error), offset))
            return Literal(offset, None)

    def _name(self) -> AstNode:
        dot = self._accept(".")
        name = self._expect("IDENTIFIER")
        if self._token.kind in ("{", ".") and self._is_struct():
            return self._struct(("." if dot else "") + name.text)
        if name.text in CEL_RESERVED:
            self._problems.append(CelIssue(f"reserved identifier: {name.text}", (dot or name).offset))
        text = ("." if dot else "") + name.text
        opening = self._accept("(")
        if opening:
            return self._call(opening.offset, text, self._arguments(), nests=False)
        return Ident(name.offset, text)

    def _is_struct(self) -> bool:
        """Return whether a dotted name at the current position is followed by a brace."""
        ahead = self._position
        while self._tokens[ahead].kind == "." and self._tokens[ahead + 1].kind == "IDENTIFIER":
            ahead += 2
        return self._tokens[ahead].kind == "{"

    def _struct(self, name: str) -> AstNode:
        while self._accept("."):
            name += "." + self._expect("IDENTIFIER").text
        brace = self._expect("{")
        fields: list[Initializer] = []
        while self._token.kind != "}":
            optional = self._accept("?") is not None
            escaped = self._accept("ESC_IDENTIFIER")
            field = escaped.text[1:-1] if escaped else self._expect("IDENTIFIER").text
            colon = self._expect(":")
            fields.append(Initializer(colon.offset, field, self._expr(), optional))
            if not self._accept(","):
                break
        self._expect("}")
        return Struct(brace.offset, name, fields, height=_height([one.value for one in fields]))

    def _list(self, bracket: Token) -> AstNode:
        elements: list[AstNode] = []
        optional = set()
        while self._token.kind != "]":
            if self._accept("?"):
                optional.add(len(elements))
            elements.append(self._expr())
            if not self._accept(","):
                break
        self._expect("]")
        return ListNode(bracket.offset, elements, frozenset(optional), height=_height(elements))

    def _map(self, brace: Token) -> AstNode:
        entries: list[MapEntry] = []
        while self._token.kind != "}":
            optional = self._accept("?") is not None
            key = self._expr()
            colon = self._expect(":")
            entries.append(MapEntry(colon.offset, key, self._expr(), optional))
            if not self._accept(","):
                break
        self._expect("}")
        parts = [part for entry in entries for part in (entry.key, entry.value)]
        return MapNode(brace.offset, entries, height=_height(parts))

    def _call(
        self, offset: int, function: str, args: list[AstNode], target: AstNode | None = None, *, nests: bool = True
    ) -> AstNode:
        height = _height(args if target is None else [target, *args]) + nests
        macro = find_macro(function, len(args), target is not None)
        if macro is not None:
            try:
                expanded = macro(MacroExpander(offset, self._copies), target, args)
            except MacroError as error:
                self._problems.append(CelIssue(str(error), error.offset))
                return Literal(offset, None, height=height)
            if expanded is not None:
                expanded.height = height
                return expanded
        return Call(offset, function, target, args, height=height)


def _height(nodes: list[AstNode]) -> int:
    return max((node.height for node in nodes), default=0)


_LITERALS: dict[str, Callable[[str], object]] = {
    "NUM_INT": literals.integer,
    "NUM_UINT": literals.unsigned,
    "NUM_FLOAT": literals.double,
    "STRING": literals.string,
    "BYTES": literals.octets,
    "true": lambda _: True,
    "false": lambda _: False,
    "null": lambda _: None,
}
