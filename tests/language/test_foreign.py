"""Functions of other libraries in a kernel: an error says which of the language's is meant."""

import pytest

from tests.language.reading import refused_body


@pytest.mark.parametrize(
    ("called", "fix"),
    [
        ("math.exp(A[0, 0])", "T.exp(...)"),
        ("np.exp(A[0, 0])", "T.exp(...)"),
        ("np.maximum(A[0, 0], 0, 0, 0)", "T.max(...)"),
        ("math.gcd(A[0, 0], 3)", "dir(T)"),
    ],
)
def test_the_language_s_own_function_is_named(called: str, fix: str) -> None:
    error = refused_body(f"import math, numpy as np\nA[0, 0] = {called}")
    assert error.code == "TB211"
    assert "not known yet" in error.why
    assert fix in error.fix


def test_of_the_language_s_own_functions_that_is_not_said() -> None:
    assert "not known yet" not in refused_body("x = T.copy(A)").why


def test_an_index_that_is_no_whole_number_is_quoted() -> None:
    error = refused_body("A[64 / 2, 0] = 1")
    assert "index 0 is 32.0, a float" in error.what
    assert "//" in error.fix
