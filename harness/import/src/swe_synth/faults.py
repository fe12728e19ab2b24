"""Finds candidate faults: reads {"files": {path: text}}, prints one JSON object for each fault.

The files are parsed and never run. A fault is an edit between two offsets; the rest of the text stays the same.
"""
import ast
import json
import random
import re
import sys

COMPARED = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
COMPUTED = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "//"),
    ast.Div: ("/", "*"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"), ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
RAISED = {
    "ValueError": "TypeError", "TypeError": "ValueError", "KeyError": "IndexError", "IndexError": "KeyError",
    "AttributeError": "KeyError", "StopIteration": "IndexError", "RuntimeError": "ValueError",
    "NotImplementedError": "ValueError",
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class File:
    def __init__(self, path, text):
        self.path, self.text = path, text
        # Columns of a syntax tree count bytes.
        self.lines = text.encode().splitlines(keepends=True)
        self.starts, at = [], 0
        for line in self.lines:
            self.starts.append(at)
            at += len(line.decode())

    def at(self, line, column):
        return self.starts[line - 1] + len(self.lines[line - 1][:column].decode())

    def start(self, node):
        return self.at(node.lineno, node.col_offset)

    def end(self, node):
        return self.at(node.end_lineno, node.end_col_offset)

    def source(self, node):
        return self.text[self.start(node):self.end(node)]


class Finder(ast.NodeVisitor):
    def __init__(self, file):
        self.file, self.names, self.found = file, [], []
        self.function, self.outermost, self.variables, self.documented = None, None, [], ""

    def add(self, kind, start, end, new):
        """Keeps an edit after which the file still parses and has another syntax tree."""
        if self.function is None or self.file.text[start:end] == new:
            return
        self.found.append((kind, start, end, new, self.outermost, ".".join(self.names), self.documented))

    def between(self, kind, left, right, old, new):
        start, end = self.file.end(left), self.file.start(right)
        gap = self.file.text[start:end]
        pattern = r"\b" + old.replace(" ", r"\s+") + r"\b" if old[0].isalpha() else re.escape(old)
        hits = list(re.finditer(pattern, gap))
        if len(hits) == 1 and "#" not in gap:
            self.add(kind, start + hits[0].start(), start + hits[0].end(), new)

    def visit_ClassDef(self, node):
        self.names.append(node.name)
        self.generic_visit(node)
        self.names.pop()

    def visit_FunctionDef(self, node):
        outer = self.function, self.variables, self.documented
        self.names.append(node.name)
        own = [argument.arg for argument in node.args.posonlyargs + node.args.args + node.args.kwonlyargs]
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                own.append(inner.id)
        # A nested function is reported as the outer one, which is what people call.
        if outer[0] is None:
            self.function, self.documented = node.name, ast.get_docstring(node) or ""
            first = self.file.at(node.lineno, 0)
            self.outermost = (first, self.file.end(node), "if 1:\n" if node.col_offset else "")
        else:
            self.names.pop()
        self.variables = sorted(set(own) - {"self", "cls"})
        defaults = node.args.defaults + [default for default in node.args.kw_defaults if default is not None]
        for default in defaults:
            self.default(default)
        for statement in node.body:
            self.visit(statement)
        if outer[0] is None:
            self.names.pop()
        self.function, self.variables, self.documented = outer

    visit_AsyncFunctionDef = visit_FunctionDef

    def default(self, node):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, bool):
                self.add("default", self.file.start(node), self.file.end(node), str(not node.value))
            elif isinstance(node.value, int):
                self.add("default", self.file.start(node), self.file.end(node), str(node.value + 1))

    def visit_Compare(self, node):
        if len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
            self.between("comparison", node.left, node.comparators[0], *COMPARED[type(node.ops[0])])
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:]):
            self.between("boolean operator", left, right, old, new)
        self.generic_visit(node)

    def visit_BinOp(self, node):
        of_text = any(
            isinstance(side, ast.JoinedStr) or isinstance(side, ast.Constant) and isinstance(side.value, (str, bytes))
            for side in (node.left, node.right)
        )
        if type(node.op) in COMPUTED and not of_text:
            self.between("arithmetic", node.left, node.right, *COMPUTED[type(node.op)])
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        if type(node.op) in COMPUTED and not isinstance(node.value, (ast.JoinedStr, ast.List)):
            old, new = COMPUTED[type(node.op)]
            self.between("arithmetic", node.target, node.value, old + "=", new + "=")
        self.removed(node)
        self.generic_visit(node)

    def visit_Constant(self, node):
        if isinstance(node.value, int) and not isinstance(node.value, bool) and abs(node.value) < 1000:
            start, end = self.file.start(node), self.file.end(node)
            if self.file.text[start:end].isdigit():
                self.add("off by one", start, end, str(node.value + 1))
                if node.value > 0:
                    self.add("off by one", start, end, str(node.value - 1))

    def visit_JoinedStr(self, node):
        """Offsets inside an f-string are not reliable."""

    def visit_Call(self, node):
        if len(node.args) >= 2 and not any(isinstance(one, ast.Starred) for one in node.args[:2]):
            first, second = node.args[:2]
            start, end = self.file.start(first), self.file.end(second)
            gap = self.file.text[self.file.end(first):self.file.start(second)]
            if gap.strip() == ",":
                self.add("swapped arguments", start, end, self.file.source(second) + gap + self.file.source(first))
        self.generic_visit(node)

    def negated(self, test):
        start, end = self.file.start(test), self.file.end(test)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self.add("condition", start, end, "(" + self.file.source(test.operand) + ")")
        elif isinstance(test, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
            self.add("condition", start, end, "not " + self.file.source(test))
        else:
            self.add("condition", start, end, "not (" + self.file.source(test) + ")")

    def visit_If(self, node):
        self.negated(node.test)
        leaves = isinstance(node.body[-1], (ast.Raise, ast.Return, ast.Continue, ast.Break))
        if leaves and not node.orelse:
            self.add("guard", self.file.start(node), self.file.end(node), "pass")
        is_elif = node.orelse and isinstance(node.orelse[0], ast.If)
        if node.orelse and not is_elif:
            self.add("else branch", self.file.start(node.orelse[0]), self.file.end(node.orelse[-1]), "pass")
        self.generic_visit(node)

    def visit_While(self, node):
        self.negated(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node):
        self.negated(node.test)
        self.generic_visit(node)

    def removed(self, node):
        self.add("statement", self.file.start(node), self.file.end(node), "pass")

    def visit_Expr(self, node):
        if isinstance(node.value, ast.Call):
            self.removed(node)
        self.generic_visit(node)

    def visit_Return(self, node):
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self.add("return", self.file.start(node), self.file.start(node.value), "")
        self.generic_visit(node)

    def visit_Name(self, node):
        if not isinstance(node.ctx, ast.Load) or node.id not in self.variables:
            return
        others = [name for name in self.variables if name != node.id]
        if others:
            place = self.file.start(node)
            other = others[(place * 7919 + len(node.id)) % len(others)]
            self.add("variable", place, self.file.end(node), other)

    def visit_Subscript(self, node):
        if isinstance(node.slice, ast.Slice):
            for bound in (node.slice.lower, node.slice.upper):
                if bound is not None:
                    shifted = self.file.source(bound)
                    simple = isinstance(bound, (ast.Name, ast.Constant, ast.Attribute, ast.Call))
                    shifted = f"{shifted} + 1" if simple else f"({shifted}) + 1"
                    self.add("slice bound", self.file.start(bound), self.file.end(bound), shifted)
        self.generic_visit(node)

    def visit_ExceptHandler(self, node):
        if isinstance(node.type, ast.Name) and node.type.id in RAISED:
            self.add("exception", self.file.start(node.type), self.file.end(node.type), RAISED[node.type.id])
        self.generic_visit(node)

    def visit_Raise(self, node):
        called = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if isinstance(called, ast.Name) and called.id in RAISED:
            self.add("exception", self.file.start(called), self.file.end(called), RAISED[called.id])
        self.generic_visit(node)

    def visit_Break(self, node):
        self.add("jump", self.file.start(node), self.file.end(node), "continue")

    def visit_Continue(self, node):
        self.add("jump", self.file.start(node), self.file.end(node), "break")


def means_else(file, function, start, end, new, known):
    """Whether the function still parses, to another syntax tree."""
    first, last, above = function
    if function not in known:
        known[function] = ast.dump(ast.parse(above + file.text[first:last]))
    try:
        after = ast.parse(above + file.text[first:start] + new + file.text[end:last])
    except (SyntaxError, ValueError):
        return False
    return ast.dump(after) != known[function]


def main():
    request = json.load(sys.stdin)
    draw = random.Random(request["seed"])
    for path, text in sorted(request["files"].items()):
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        file, known = File(path, text), {}
        finder = Finder(file)
        finder.visit(tree)
        for kind, start, end, new, function, name, documented in finder.found:
            order = draw.random()
            if means_else(file, function, start, end, new, known):
                print(json.dumps({
                    "path": path, "kind": kind, "start": len(text[:start].encode()), "end": len(text[:end].encode()),
                    "new": new, "name": name, "doc": documented, "order": order,
                }))


main()
