"""Floating vectors with Python's operators."""

from __future__ import annotations

from fl_jit.kernels.codegen.vectors import IR, Vectors, mangled


class Num:
    """A floating vector with Python's operators; Python numbers become constants of its type."""

    __slots__ = ("of", "value")

    def __init__(self, of: Vectors, value: IR) -> None:
        self.of = of
        self.value = value

    def raw(self, other: Num | float) -> IR:
        """``other`` as a vector of this type."""
        return other.value if isinstance(other, Num) else self.of.like(self.value, other)

    def new(self, value: IR) -> Num:
        """``value`` as a Num."""
        return Num(self.of, value)

    def __add__(self, other: Num | float) -> Num:
        return self.new(self.of.b.fadd(self.value, self.raw(other)))

    def __radd__(self, other: float) -> Num:
        return self + other

    def __sub__(self, other: Num | float) -> Num:
        return self.new(self.of.b.fsub(self.value, self.raw(other)))

    def __rsub__(self, other: float) -> Num:
        return self.new(self.of.b.fsub(self.raw(other), self.value))

    def __mul__(self, other: Num | float) -> Num:
        return self.new(self.of.b.fmul(self.value, self.raw(other)))

    def __rmul__(self, other: float) -> Num:
        return self * other

    def __truediv__(self, other: Num | float) -> Num:
        return self.new(self.of.b.fdiv(self.value, self.raw(other)))

    def __rtruediv__(self, other: float) -> Num:
        return self.new(self.of.b.fdiv(self.raw(other), self.value))

    def __neg__(self) -> Num:
        return self.new(self.of.b.fneg(self.value))

    def __abs__(self) -> Num:
        return self.new(self.of.unary("fabs", self.value))

    def compare(self, relation: str, other: Num | float) -> IR:
        """A mask; False where either is NaN, except for ``!=``."""
        raw = self.raw(other)
        if relation == "!=":
            return self.of.b.fcmp_unordered(relation, self.value, raw)
        return self.of.b.fcmp_ordered(relation, self.value, raw)

    def is_nan(self) -> IR:
        """A mask of the NaNs."""
        return self.of.b.fcmp_unordered("uno", self.value, self.value)

    def where(self, mask: IR, other: Num | float) -> Num:
        """This where ``mask`` holds, else ``other``."""
        return self.new(self.of.b.select(mask, self.value, self.raw(other)))

    def clip(self, low: float, high: float) -> Num:
        """Within bounds; NaN stays."""
        x = self.new(self.raw(low)).where(self.compare("<", low), self)
        return x.new(x.raw(high)).where(x.compare(">", high), x)

    def fma(self, y: Num | float, z: Num | float) -> Num:
        """``self * y + z``."""
        return self.new(self.of.fma(self.value, self.raw(y), self.raw(z)))

    def polynomial(self, coefficients: tuple[float, ...]) -> Num:
        """The value of the polynomial; the constant term is first."""
        return self.new(self.of.polynomial(coefficients, self.value))

    def round(self) -> Num:
        """The nearest integer, halves to even."""
        return self.new(self.of.unary("roundeven", self.value))

    def copysign(self, sign: Num) -> Num:
        """This magnitude with the sign of ``sign``."""
        name = f"llvm.copysign.{mangled(self.value.type)}"
        return self.new(self.of.call(name, self.value.type, self.value, sign.value))
