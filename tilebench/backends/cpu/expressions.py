"""Expressions: one lane or many, with the checks that keep a wrong program from harming the process."""

from __future__ import annotations

from collections.abc import Callable

from tilebench.backends.cpu.access import Access
from tilebench.backends.cpu.indices import Site
from tilebench.backends.cpu.text import V, compute_type, vector
from tilebench.errors import InternalError, TargetError
from tilebench.ir.dtype import bool_
from tilebench.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var, int_value
from tilebench.ir.intrinsics import INTRINSICS

DIVISIONS = frozenset({"floordiv", "floormod", "truncdiv", "truncmod"})


class Expressions(Access):
    """Evaluates expressions."""

    staged: dict[int, Callable[[], V]]
    """Values of shuffles and votes of the statement under way, by the identity of the call."""

    def evaluate(self, e: Expr) -> V:
        """The value of an expression in the lanes in force."""
        match e:
            case Const():
                return self.constant(e.value, e.dtype)
            case Var():
                if e in self.inline:
                    return self.evaluate(self.inline[e])
                if e not in self.env:
                    raise InternalError("TB902", f"the variable {e.name} has no value here", at=e.loc)
                return self.env[e]
            case Load():
                return self.load(e)
            case Cast():
                return self.convert(self.evaluate(e.value), e.dtype)
            case Unary():
                value = self.evaluate(e.value)
                return self.negate(value) if e.op == "neg" else self.invert(value)
            case Binary():
                return self._binary(e)
            case Select():
                return self._select(e)
            case Call():
                return self._call(e)
            case _:
                raise InternalError("TB902", f"{type(e).__name__} is no expression that cpu knows", at=e.loc)

    def _binary(self, e: Binary) -> V:
        if e.op in ("and", "or") and self.risky(e.right):
            a = self.evaluate(e.left)
            if e.op == "and":
                no = self.constant(False, bool_)
                return self._guarded(a, e.left, (e.right,), lambda: self.evaluate(e.right), lambda: no)
            yes = self.constant(True, bool_)
            return self._guarded(a, None, (e.right,), lambda: yes, lambda: self.evaluate(e.right))
        a, b = self.evaluate(e.left), self.evaluate(e.right)
        if e.left.dtype.is_float:
            if e.op == "pow":
                return self.intrinsic("pow", [a, b], e.dtype)
            return self.arithmetic(e.op, a, b)
        if e.op in DIVISIONS:
            return self._divide(e, a, b)
        if e.op in ("shl", "shr"):
            return self._shift(e, a, b)
        if e.op == "pow":
            return self._power(e, a, b)
        return self.arithmetic(e.op, a, b)

    # -------------------------------------------------------------- integers

    def _divide(self, e: Binary, a: V, b: V) -> V:
        signed = e.dtype.kind == "int"
        known = int_value(e.right)
        if known is not None and known > 0 and known & (known - 1) == 0 and e.op.startswith("floor"):
            if e.op == "floormod":
                return self.raw("and", a, self.constant(known - 1, e.dtype))
            return self.raw("ashr" if signed else "lshr", a, self.constant(known.bit_length() - 1, e.dtype))
        a, b = self.together(a, b)
        zero = self.constant(0, e.dtype, a.w)
        if known is None or known == 0:
            self.fail_unless(self.compare("icmp ne", b, zero), Site("zero", e.loc, text=e.op))
            one = self.constant(1, e.dtype, a.w)
            if self.mask is not None:
                b = self.choose(self.compare("icmp eq", b, zero), one, b)
            if signed:
                # The lowest number by -1 wraps around to itself; the machine would trap.
                lowest = self.compare("icmp eq", a, self.constant(e.dtype.min, e.dtype))
                minus = self.compare("icmp eq", b, self.constant(-1, e.dtype))
                b = self.choose(self.raw("and", lowest, minus), one, b)
        elif known == -1:
            return self.negate(a) if e.op.endswith("div") else zero
        letter = "s" if signed else "u"
        if not signed or e.op.startswith("trunc"):
            return self.settle(self.raw(f"{letter}{'div' if e.op.endswith('div') else 'rem'}", a, b))
        rest = self.raw("srem", a, b)
        wrong = self.raw(
            "and",
            self.compare("icmp ne", rest, zero),
            self.compare("icmp slt", self.raw("xor", rest, b), zero),
        )
        if e.op == "floormod":
            return self.choose(wrong, self.raw("add", rest, b), rest)
        quotient = self.raw("sdiv", a, b)
        return self.settle(self.choose(wrong, self.raw("sub", quotient, self.constant(1, e.dtype)), quotient))

    def _shift(self, e: Binary, a: V, b: V) -> V:
        known, bits = int_value(e.right), e.left.dtype.bits
        if known is None or not 0 <= known < bits:
            b = self.convert(b, e.dtype)
            good = self.compare("icmp ult", b, self.constant(bits, e.dtype))
            self.fail_unless(good, Site("shift", e.loc, dtype=e.left.dtype), b)
            if self.mask is not None:
                b = self.choose(good, b, self.constant(0, e.dtype))
        kind = "shl" if e.op == "shl" else "ashr" if e.dtype.kind == "int" else "lshr"
        return self.settle(self.raw(kind, a, b))

    def _power(self, e: Binary, a: V, b: V) -> V:
        """By squaring; one bit of the exponent a round."""
        a, b = self.together(a, b)
        if e.dtype.kind == "int":
            good = self.compare("icmp sge", b, self.constant(0, e.dtype))
            self.fail_unless(good, Site("power", e.loc))
        total, base = self.constant(1, e.dtype, a.w), a
        known = int_value(e.right)
        rounds = e.dtype.bits if known is None else max(known, 0).bit_length()
        for place in range(rounds):
            bit = self.raw(
                "and", self.raw("lshr", b, self.constant(place, e.dtype)), self.constant(1, e.dtype)
            )
            taken = self.compare("icmp ne", bit, self.constant(0, e.dtype))
            total = self.choose(taken, self.raw("mul", total, base), total)
            base = self.raw("mul", base, base)
        return self.settle(total)

    # -------------------------------------------------------------- choices

    def _select(self, e: Select) -> V:
        condition = self.evaluate(e.condition)
        if not self.risky(e.then) and not self.risky(e.orelse):
            return self.choose(condition, self.evaluate(e.then), self.evaluate(e.orelse))
        arms = (e.then, e.orelse)
        return self._guarded(
            condition, e.condition, arms, lambda: self.evaluate(e.then), lambda: self.evaluate(e.orelse)
        )

    def _guarded(
        self,
        condition: V,
        source: Expr | None,
        arms: tuple[Expr, ...],
        then: Callable[[], V],
        orelse: Callable[[], V],
    ) -> V:
        """One of two values; the other is not evaluated (one lane), or evaluated under a mask (several)."""
        facts = conjuncts(source) if source is not None else []
        if condition.w == 1:
            w = 1 if all(self.coefficient(arm) == 0 for arm in arms) else self.lanes
            kind = vector(compute_type(arms[0].dtype), w)
            slot = self.alloca(kind)
            yes, no, end = self.fresh("then"), self.fresh("else"), self.fresh("end")
            self.branch(condition.name, yes, no)
            self.start(yes)
            self.facts.extend(facts)
            self.put(f"store {kind} {self.splat(then(), w).name}, ptr {slot}")
            self._forget(len(facts))
            self.jump(end)
            self.start(no)
            self.put(f"store {kind} {self.splat(orelse(), w).name}, ptr {slot}")
            self.start(end)
            return V(self.op(f"load {kind}, ptr {slot}"), arms[0].dtype, w)
        saved_mask = self.mask
        self.mask = condition if saved_mask is None else self.raw("and", saved_mask, condition)
        self.facts.extend(facts)
        a = then()
        self._forget(len(facts))
        other = self.invert(condition)
        self.mask = other if saved_mask is None else self.raw("and", saved_mask, other)
        b = orelse()
        self.mask = saved_mask
        return self.choose(condition, a, b)

    def _forget(self, count: int) -> None:
        if count:
            del self.facts[-count:]

    def _call(self, e: Call) -> V:
        if id(e) in self.staged:
            return self.staged[id(e)]()
        row = INTRINSICS.get(e.name)
        if row is None or (row.per_thread and e.name != "dp4a"):
            raise TargetError(
                "TB541",
                f"T.{e.name} stands where the threads of the block do not come together",
                at=e.loc,
                why="on a CPU the threads of a block take turns; a value passes between them only at a "
                "statement that all reach",
                fix="move it out of the loop or condition that differs between threads",
            )
        return self.intrinsic(e.name, [self.evaluate(a) for a in e.args], e.dtype)


def conjuncts(e: Expr) -> list[Expr]:
    """The conditions that hold when `e` does."""
    if isinstance(e, Binary) and e.op == "and":
        return conjuncts(e.left) + conjuncts(e.right)
    return [e]
