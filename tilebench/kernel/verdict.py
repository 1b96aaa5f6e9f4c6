"""The verdict line of a report: right, wrong, or not decided, from the comparisons and the findings."""

from __future__ import annotations

from collections.abc import Sequence

from tilebench.report import DiffInfo, Finding

BOUND = "running error bound"
UNSEEN = "races-unseen"
"""The kind of the finding that says that nobody looked for races."""
NOT_RUN = "not-run"
"""The kind of the finding that says that the kernel was compiled, and nothing of it was run."""
EXPLAINED = (
    "how the verdict is reached: the oracle evaluates the program in float64 and adds up, for each element, "
    "how far rounding in the program's own types can move its value; that is the running error bound, and a "
    "right result is within it"
)


def verdict(diffs: Sequence[DiffInfo], findings: Sequence[Finding], ran: bool) -> tuple[str, bool | None]:
    """(the sentence, whether all is well; None when nothing was decided)."""
    decided = [d for d in diffs if d.verdict != "unchecked"]
    bad = [d for d in decided if d.verdict == "fail"]
    errors = [f for f in findings if f.severity == "error"]
    unseen = "; races were not looked at (--check sim does)" * any(f.kind == UNSEEN for f in findings)
    if bad:
        first = bad[0]
        text = (
            f"{first.output} is wrong: {first.wrong} of {first.checked} elements differ from {first.against} "
            f"(the rule: {first.how})"
        )
        return (f"{text}; {errors[0].text}" if errors else text), False
    if errors:
        rest = f"; {right(decided)}{unseen}" if decided else ""
        return errors[0].text + rest, False
    if decided:
        return right(decided) + unseen, True
    if not ran:
        return "not run", None
    if any(f.kind == NOT_RUN for f in findings):
        return "compiled, not run", None
    return "ran, not checked" + (f": {diffs[0].how}" if diffs else ""), None


def right(decided: Sequence[DiffInfo]) -> str:
    """'correct against torch and oracle on 128 of 256 elements: equal bit for bit'."""
    against = " and ".join(dict.fromkeys(d.against for d in decided))
    part = next((d for d in decided if d.checked < d.total - d.ambiguous), None)
    share = f" on {part.checked} of {part.total} elements" if part else ""
    return f"correct against {against}{share}: {decided[0].how}"


def explanation(diffs: Sequence[DiffInfo]) -> list[Finding]:
    """What the running error bound is, when a comparison names it."""
    if not any(BOUND in d.how for d in diffs):
        return []
    return [Finding("error-bound", "info", EXPLAINED)]
