"""The notebook of the documentation shows what its cells compute."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"


def _shown(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """What each cell of code shows."""
    return [
        [output.get("data") or output for output in cell["outputs"]]
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def test_notebook_shows_what_it_computes(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    pytest.importorskip("pandas", reason="pandas is not installed")
    written = nbformat.read(NOTEBOOK, as_version=4)
    notebook = copy.deepcopy(written)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    client = nbclient.NotebookClient(
        notebook, timeout=100, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    assert _shown(notebook) == _shown(written)
    assert all(_shown(written)), "every cell of code shows something"
