"""An identified equation: a string that can also be typeset and computed with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from html import escape
from typing import TYPE_CHECKING, Any

from opsplit.errors import OpsplitError

if TYPE_CHECKING:
    import sympy

NAME = r"[^\W\d_][^\W_]*"
TOKEN = re.compile(
    rf"(?P<number>\d+(?:\.\d*)?(?:e[+-]?\d+)?)|(?P<function>f_\w+(?=\())"
    rf"|(?P<indexed>{NAME}_[A-Z0-9]\w*)|(?P<name>{NAME})"
    r"|(?P<axes>_[xyzt]+(?![^\W_]))"
    r"|(?P<power>\^(?:-?\d+|\(\d+/\d+\)))|(?P<mark>\|k\||[-+±().,=])"
)
WORDS = {"lap": r"\Delta", "grad": r"\nabla", "|k|": r"|k|", "±": r"\pm", ".": r"\cdot"}


class Equation(str):
    """An equation as it is printed, such as `u_t = -0.5 u_x + 0.3 u_xx`.

    Examples:
        >>> from opsplit import Equation
        >>> found = Equation("u_t = -0.5 u_x + (0.3 ± 0.01) u_xx")
        >>> found.latex
        'u_{t} = - 0.5 u_{x} + (0.3 \\\\pm 0.01) u_{xx}'
        >>> found.sympy().lhs
        Derivative(u(t, x), t)
    """

    __slots__ = ()

    @property
    def latex(self) -> str:
        """The equation in LaTeX, without dollar signs."""
        words = " ".join(_typeset(kind, text) for kind, text in tokens(self))
        return re.sub(r" (?=[_^][{]|[),])|(?<=\() ", "", words)

    @property
    def html(self) -> str:
        """The equation with indices, powers and italics, for a page without LaTeX.

        Examples:
            >>> Equation("u_t = 0.3 u_xx").html
            '<i>u</i><sub>t</sub> = 0.3 <i>u</i><sub>xx</sub>'
        """
        words = "".join(_marked_up(kind, text) for kind, text in tokens(self))
        return words.replace("( ", "(").strip()

    def _repr_latex_(self) -> str:
        return f"${self.latex}$"

    def renamed(self, names: Mapping[str, str]) -> Equation:
        """The equation of channels with other names; names that are no plain words stay.

        Examples:
            >>> Equation("u_t = 0.3 u_xx").renamed({"u": "T"})
            'T_t = 0.3 T_xx'
        """
        left, equals, right = self.partition(" = ")
        new = {k: v if re.fullmatch(NAME, v) else k for k, v in names.items()}
        # A function that has no known form depends on all channels.
        right = re.sub(r"(f_\w+)\(u\)", rf"\1({', '.join(new) or 'u'})", right)
        for old in new:
            right = re.sub(rf"(?<![^\W_]){re.escape(old)}(?![^\W_])", f"\0{old}\0", right)
        for old, name in new.items():
            right = right.replace(f"\0{old}\0", name)
        left = f"({', '.join(new.values())})" if len(new) > 1 else next(iter(new.values()), "u")
        return Equation(f"{left}_t{equals}{right}")

    def sympy(self, axes: str = "") -> sympy.Eq:
        """The equation as a `sympy.Eq`; fields are functions of t and of the space axes.

        Arguments:
            axes: names of the space axes, such as `"xyz"` (default: those of the derivatives;
                `"xy"` where the equation has a Laplacian or a gradient).

        Returns:
            An equation between expressions, or between column vectors for several channels.
            Intervals are left out.

        Raises:
            OpsplitError: if a term is not understood.

        Examples:
            >>> Equation("u_t = 0.3 u_xx").sympy().rhs
            0.3*Derivative(u(t, x), (x, 2))
        """
        from sympy import Eq

        seen = set("".join(re.findall(r"_([xyz]+)", self)))
        if not axes:
            plane = "y" in seen or re.search(r"\b(lap|grad)\b", self)
            axes = "xyz" if "z" in seen else "xy" if plane else "x"
        left, _, right = self.partition(" = ")
        if "no coefficients" in right:
            raise OpsplitError("The operators of this model have no known coefficients.")
        each = [_Parser(side, axes).whole() for side in (left, right)]
        return Eq(*each, evaluate=False)


def tokens(text: str) -> list[tuple[str, str]]:
    """Kind and text of every piece; anything unknown is `other`."""
    found, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            if not text[at].isspace():
                found.append(("other", text[at]))
            at += 1
            continue
        found.append((str(match.lastgroup), match[0]))
        at = match.end()
    return found


def _marked_up(kind: str, text: str) -> str:
    """A piece of an equation as HTML, with the space before it."""
    signs = {"-": "−", ".": "·", "lap": "Δ", "grad": "∇"}
    if kind == "number" and "e" in text:
        digits, power = text.split("e")
        return f" {digits} × 10<sup>{int(power)}</sup>"
    if kind in ("axes", "power"):
        tag = "sub" if kind == "axes" else "sup"
        return f"<{tag}>{text[1:].strip('()')}</{tag}>"
    if kind in ("name", "function", "indexed") and text not in signs:
        name, _, index = text.partition("_")
        return f" <i>{name}</i>" + (f"<sub>{index}</sub>" if index else "")
    return ("" if text in "),(" and text != "(" else " ") + escape(signs.get(text, text))


def _typeset(kind: str, text: str) -> str:
    if kind == "number" and "e" in text:
        digits, power = text.split("e")
        return rf"{digits} \times 10^{{{int(power)}}}"
    if kind in ("axes", "power"):
        return f"{text[0]}{{{text[1:].strip('()')}}}"
    if kind in ("function", "indexed"):
        name, _, index = text.partition("_")
        index = index.replace("_", r"\_")
        return rf"{name}_{{\mathrm{{{index}}}}}"
    if kind == "name":
        return WORDS.get(text, text if len(text) == 1 else rf"\mathrm{{{text}}}")
    if kind == "other":
        return "\\" + text if text in "#$%&_{}" else r"\ " if text == "\\" else text
    return WORDS.get(text, text)


class _Parser:
    """Recursive descent through one side of an equation."""

    def __init__(self, text: str, axes: str) -> None:
        import sympy

        self.sp, self.text, self.axes = sympy, text, axes
        self.tokens, self.at = tokens(text), 0
        self.space = {a: sympy.Symbol(a) for a in axes}
        self.time = sympy.Symbol("t")

    def whole(self) -> Any:
        found = self.sum()
        if self.at < len(self.tokens):
            self.fail()
        return found

    def fail(self) -> None:
        near = " ".join(text for _, text in self.tokens[self.at : self.at + 3])
        raise OpsplitError(f"{self.text!r} has no form in sympy: {near!r} is not understood.")

    def peek(self, ahead: int = 0) -> tuple[str, str]:
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else ("end", "")

    def take(self, text: str) -> bool:
        """Pass over this token if it is the next one."""
        if self.peek()[1] != text:
            return False
        self.at += 1
        return True

    def sum(self) -> Any:
        sign = -1 if self.take("-") else 1
        total = sign * self.product()
        while self.peek()[1] in ("+", "-", "±"):
            word = self.peek()[1]
            self.at += 1
            part = self.product()
            if word != "±":  # The half width of an interval is no part of the equation.
                total = total + part if word == "+" else total - part
        return total

    def product(self) -> Any:
        found = [self.factor()]
        while self.peek()[0] in ("number", "name", "function", "indexed") or self.peek()[1] in (
            "(",
            "|k|",
        ):
            found.append(self.factor())
        return reduce(lambda a, b: a * b, found)

    def factor(self) -> Any:
        kind, text = self.peek()
        self.at += 1
        if kind == "number":
            return self.sp.Float(text) if re.search(r"[.e]", text) else self.sp.Integer(text)
        if text in ("lap", "|k|"):
            power = self.power()
            return self.filtered(text, power, self.factor())
        if kind == "function":
            return self.sp.Function(text)(self.factor())
        if kind == "indexed":
            return self.sp.Symbol(text)
        if kind == "name" and (self.peek(), self.peek(1)) == (("mark", "."), ("name", "grad")):
            self.at += 2
            return self.along(text, self.factor())
        if kind == "name":
            field = self.sp.Function(text)(self.time, *self.space.values())
        elif text == "(":
            parts = [self.sum()]
            while self.take(","):
                parts.append(self.sum())
            if not self.take(")"):
                self.fail()
            field = parts[0] if len(parts) == 1 else self.sp.Matrix(parts)
        else:
            self.at -= 1
            self.fail()
        if self.peek()[0] == "axes":
            for axis in self.peek()[1][1:]:
                field = self.derivative(field, axis)
            self.at += 1
        power = self.power()
        return field if power == 1 else field**power

    def power(self) -> Any:
        if self.peek()[0] != "power":
            return self.sp.Integer(1)
        self.at += 1
        return self.sp.Rational(self.tokens[self.at - 1][1][1:].strip("()"))

    def derivative(self, field: Any, axis: str) -> Any:
        symbol = self.time if axis == "t" else self.space[axis]
        if isinstance(field, self.sp.MatrixBase):
            return field.applyfunc(lambda f: self.sp.Derivative(f, symbol))
        return self.sp.Derivative(field, symbol)

    def filtered(self, name: str, power: Any, field: Any) -> Any:
        """A Laplacian, or a function that stands for a filter without a local form."""
        if isinstance(field, self.sp.MatrixBase):
            return field.applyfunc(lambda f: self.filtered(name, power, f))
        if name == "lap" and power == 1:
            return sum(self.sp.Derivative(field, (x, 2)) for x in self.space.values())
        if name == "lap" and power > 1:
            return self.filtered(name, power - 1, self.filtered(name, self.sp.Integer(1), field))
        return self.sp.Function(f"{name}^{power}")(field)

    def along(self, name: str, field: Any) -> Any:
        """Transport by a velocity whose parts are called v_x, v_y, ..."""
        return sum(
            self.sp.Function(f"{name}_{axis}")(self.time, *self.space.values())
            * self.sp.Derivative(field, symbol)
            for axis, symbol in self.space.items()
        )
