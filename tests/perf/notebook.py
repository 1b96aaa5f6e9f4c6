"""Write and run notebooks/performance.ipynb from the table that h200.py has written.

python tests/perf/notebook.py
"""

from __future__ import annotations

import base64
import io
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "notebooks" / "performance.ipynb"
CELLS = (
    """# How fast the generated kernels are

`python tests/perf/h200.py --reference FOLDER --json tests/perf/h200.json` checks every kernel on fresh
random inputs against float32 arithmetic, then races the fastest of a few configurations against cuBLAS,
cuDNN, FlashAttention 2, Triton, inductor and, where there is one, a kernel written by hand in CUDA C++.
Candidates are interleaved; each number is a median of 15 rounds, and each ratio is taken round by round.
This notebook draws what that run has written. All of it is *measured*; nothing here is predicted.""",
    """import sys
from pathlib import Path

root = next(p for p in (Path.cwd(), *Path.cwd().parents) if (p / "tests" / "perf").is_dir())
sys.path.insert(0, str(root))
from tests.perf import plots

table = plots.load()
print(plots.where(table))""",
    """## Ratios

One bar is the time of a peer over ours, a geometric mean over a row's shapes: above 1, ours is faster.""",
    "plots.ratios(table);",
    """print("\\n".join(plots.lines(table)))""",
    """## Rates

Error bars are intervals of the median (95 %).""",
    'plots.rates(table, "gemm");',
    'plots.rates(table, "attention-D128");',
    'plots.rates(table, "attention-D128-causal");',
    'plots.rates(table, "attention-D64");',
    'plots.rates(table, "attention-D64-causal");',
)  # fmt: skip


def smaller(png: str) -> str:
    """The picture with a palette of 64 colours: a third of the bytes, and drawn in flat colours anyway."""
    from PIL import Image

    out = io.BytesIO()
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    picture.quantize(64, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return base64.b64encode(out.getvalue()).decode()


def main() -> int:
    """Write the notebook and run it."""
    from nbclient import NotebookClient

    prose = ("#",)
    cells = [new_markdown_cell(text) if text.startswith(prose) else new_code_cell(text) for text in CELLS]
    for k, cell in enumerate(cells):
        cell["id"] = f"performance-{k}"
    book = new_notebook(
        cells=cells,
        metadata={"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
    )
    NotebookClient(book, timeout=120, resources={"metadata": {"path": str(PATH.parent)}}).execute()
    for cell in book.cells:
        cell.get("metadata", {}).pop("execution", None)
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", {}):
                output["data"]["image/png"] = smaller(output["data"]["image/png"])
    nbformat.write(book, PATH)
    return 0


if __name__ == "__main__":
    sys.exit(main())
