"""Whether conda's own tool reads the recipe, and whether it says the same as pyproject.toml.

    python .ci/recipe.py TREE

It renders the recipe for conda-forge's Pythons. Building it takes packages of conda-forge.
"""

import sys
import tomllib
from pathlib import Path

from rattler_build import Stage0Recipe, VariantConfig

VARIANTS = {
    "python": ["3.11.* *_cpython", "3.12.* *_cpython", "3.13.* *_cp313"],
    "c_stdlib": ["sysroot"],
    "c_stdlib_version": ["2.17"],
}


def main(tree: Path) -> None:
    project = tomllib.loads((tree / "pyproject.toml").read_text())
    names: dict[str, str] = {}
    exec((tree / "mtlmon" / "_version.py").read_text(), names)
    recipe = Stage0Recipe.from_file(tree / "conda" / "recipe.yaml")
    rendered = recipe.render(VariantConfig(VARIANTS))
    assert len(rendered) == len(VARIANTS["python"])
    for one in rendered:
        found = one.recipe.to_dict()
        require_same("version", [found["package"]["version"]], {names["__version__"]})
        needs = found["requirements"]
        wanted = {f"python {project['project']['requires-python']}"}
        wanted |= {need.replace(">", " >", 1) for need in project["project"]["dependencies"]}
        require_same("run", needs["run"], wanted)
        wanted = {need.replace(">", " >", 1) for need in project["build-system"]["requires"]}
        require_same("host", needs["host"], wanted | {"python", "pip"})


def require_same(what: str, found: list[str], wanted: set[str]) -> None:
    if set(found) != wanted:
        sys.exit(f"conda/recipe.yaml: {what} is {sorted(found)}, but {sorted(wanted)} elsewhere")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
