"""The files of a release agree with one another: version, addresses, papers, dependencies, extras, commands."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from corrnoise.paper_checks import papers

yaml = pytest.importorskip("yaml")  # which Dask brings

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HOME = PROJECT["urls"]["Homepage"]
CONDA = {"matplotlib": "matplotlib-base", "lazy_loader": "lazy-loader"}  #: names that differ on conda-forge


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def parsed(name: str) -> Any:
    return yaml.safe_load(read(name))


def commands(workflow: Any) -> list[str]:
    """The lines that the steps of a workflow run."""
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    return [line for step in steps for line in step.get("run", "").splitlines()]


def test_all_files_are_of_one_version_and_one_place() -> None:
    citation, recipe = parsed("CITATION.cff"), parsed("recipe/recipe.yaml")
    assert PROJECT["version"] == citation["version"] == recipe["context"]["version"]
    assert f"\n## [{PROJECT['version']}]" in read("CHANGELOG.md")
    assert citation["repository-code"] == recipe["about"]["homepage"] == HOME
    assert all(url.startswith(HOME) for url in PROJECT["urls"].values())
    assert parsed(".github/ISSUE_TEMPLATE/config.yml")["contact_links"][0]["url"].startswith(HOME)


def test_the_citation_names_the_papers_of_the_ledger() -> None:
    cited = {
        one["title"]: [author["family-names"] for author in one["authors"]]
        for one in parsed("CITATION.cff")["references"]
    }
    of_others = [paper for paper in papers() if "corrnoise" not in paper.authors]
    assert cited == {paper.title: paper.authors.split(", ") for paper in of_others}
    assert len(cited) == 4


def test_the_recipe_has_the_dependencies_of_the_package() -> None:
    recipe = parsed("recipe/recipe.yaml")
    wanted = [re.fullmatch(r"([\w-]+)(>=.*)", one) for one in PROJECT["dependencies"]]
    expected = [f"{CONDA.get(one[1], one[1])} {one[2]}" for one in wanted if one]
    assert recipe["requirements"]["run"] == [f"python {PROJECT['requires-python']}", *expected]
    assert recipe["build"]["python"]["entry_points"] == [f"{k} = {v}" for k, v in PROJECT["scripts"].items()]
    assert recipe["about"]["license_file"] == PROJECT["license-files"]
    assert recipe["about"]["license"] == PROJECT["license"]


def test_workflows_run_what_is_written_for_people() -> None:
    workflow = parsed(".github/workflows/tests.yml")
    jobs = workflow["jobs"]
    told = read("README.md") + read("CONTRIBUTING.md")
    assert commands({"jobs": {"suite": jobs["suite"]}}) == ["bash .ci/run"]
    lines = commands({"jobs": {name: jobs[name] for name in ("ends", "proofs")}})
    lines = [line for line in lines if line != "pip install uv"]
    assert len(lines) == 7
    assert [line for line in lines if line not in told] == []
    tested = {
        f"Programming Language :: Python :: {version}" for version in jobs["suite"]["strategy"]["matrix"]["python"]
    }
    assert tested == {line for line in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", line)}
    assert "python -m build" in commands(parsed(".github/workflows/release.yml"))


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_forms_and_workflows_are_read(path: Path) -> None:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    for field in found.get("body", []):  # of the form of an issue
        assert field["type"] in ("input", "textarea")
        assert field["attributes"]["label"]


def test_extras_are_those_that_errors_name_and_all_has_all() -> None:
    extras = PROJECT["optional-dependencies"]
    own = set(extras) - {"all", "test", "docs"}
    [everything] = extras["all"]
    brought = set(re.findall(r"\w+", everything)) - {"corrnoise"}
    assert brought == own
    named = set()
    floors = ("theory", "solvers", "simulations", "figures", "paper_checks")
    for floor in (*floors, "src/corrnoise/support", "src/corrnoise/commands"):
        for path in (ROOT / floor).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            named |= set(re.findall(r"corrnoise\[(\w+)\]", text)) | set(
                re.findall(r'extra_module\("[\w.]+", "(\w+)"\)', text)
            )
    assert {"cluster", "data", "jax", "ledger", "parallel", "torch"} <= named <= own
