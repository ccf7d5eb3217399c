"""Figures of shuffled gradients: the curves are the accountants, the exact runs and the experiments."""

from typing import Any

import numpy as np
import pytest

from corrnoise.figures import paper_figure
from corrnoise.figures.publication import Data
from corrnoise.figures.shuffled_gradients import counterexample as shuffled_counterexample
from corrnoise.figures.shuffled_gradients import experiments as shuffled_experiments
from corrnoise.figures.shuffled_gradients import privacy_figure as shuffled_privacy
from corrnoise.figures.shuffled_gradients.experiments import EPSILONS, LOOKS
from corrnoise.simulations.papers.shuffled_gradients.data import BUNDLED, task
from corrnoise.simulations.papers.shuffled_gradients.experiments import ALGORITHMS, Setting
from corrnoise.theory.papers.shuffled_gradients.task import Task
from tests.figure_entries import check_entry

# -- privacy -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def privacy() -> Data:
    return shuffled_privacy.data(5)


@pytest.mark.slow
def test_the_privacy_figure_is_drawn_and_reported(privacy: Data) -> None:
    figure = shuffled_privacy.draw(privacy)
    figure.draw_without_rendering()
    assert [len(ax.lines) for ax in figure.axes] == [7, 4]
    check_entry(paper_figure("shuffled_privacy"), privacy)
    report = shuffled_privacy.report(shuffled_privacy.data(3))
    assert "whole run, reshuffled" in report
    assert max(map(len, report.splitlines())) <= 120


# -- the counterexample ------------------------------------------------------------------------------------------------


def test_the_published_bound_falls_away_and_the_corrected_one_stays_above() -> None:
    data = shuffled_counterexample.data(12)
    exact, published, corrected = data
    ratio = exact.y / published.y
    assert ratio[0] < 1 < ratio[-1]
    assert (np.diff(ratio) > 0).all()
    assert ratio[-1] > 3000
    assert (corrected.y > exact.y).all()
    figure = shuffled_counterexample.draw(data)
    figure.draw_without_rendering()
    assert len(figure.axes[0].lines) == 3
    check_entry(paper_figure("shuffled_counterexample"), data)
    report = shuffled_counterexample.report(data)
    first = exact.x[exact.y > published.y][0]
    assert f"from K = {first:g} on" in report


# -- experiments -------------------------------------------------------------------------------------------------------

SMALL: dict[str, Any] = {"learning_rates": (1e-3, 1e-4), "runs": 2, "epochs": 3}


@pytest.fixture(scope="module")
def experiments() -> Data:
    return shuffled_experiments.data(Setting(), **SMALL, jobs=1)


@pytest.mark.parametrize(
    "setting",
    [
        Setting("given"),
        Setting("shuffled once"),
        Setting(private_share=0.25),
        Setting(accounting="sharp"),
        Setting(two_rates=True),
    ],
    ids=["given", "shuffled once", "p = 0.25", "sharp", "two rates"],
)
def test_settings_reach_the_experiments(setting: Setting, experiments: Data) -> None:
    """With a setting of its own a figure differs from Figure 2 where it should, and not for public records only."""
    name = "diabetes by sex (stand-in)"
    data = shuffled_experiments.data(setting, [name], **SMALL, jobs=1)
    usual = {(s.panel, s.method, s.kind): s for s in experiments}
    same = {s.method for s in data if s.kind == "mean" and s == usual[s.panel, s.method, s.kind]}
    expected = {"Public only"}
    if setting.private_share != 0.5:
        expected |= {"DP-ShuffleG", "Noise at the end"}
    if setting.two_rates:
        expected = set(ALGORITHMS) - {"Priv-Pub", "Pub-Priv"}
    assert same == expected


@pytest.mark.slow
def test_experiments_are_drawn_and_reported(experiments: Data) -> None:
    figure = shuffled_experiments.draw(experiments)
    figure.draw_without_rendering()
    assert len(figure.axes) == len(BUNDLED) * len(EPSILONS)
    for axes in figure.axes:  # drawn in the usual style, with titles in the middle
        assert len(axes.lines) == len(axes.collections) == len(LOOKS)
        assert "stand-in" in axes.get_title()
        low, high = axes.get_ylim()
        assert all(low <= line.get_ydata()[-1] for line in axes.lines)  # type: ignore[index,operator]
        assert low < high
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(LOOKS)
    entry = paper_figure("shuffled_experiments")
    check_entry(entry, experiments)
    assert "stand-ins" in " ".join(entry.parameters)
    report = shuffled_experiments.report(experiments)
    assert all(p in report for p in {s.panel for s in experiments})
    assert f"of {len(BUNDLED) * len(EPSILONS)}" in report


def test_companions_name_the_figures_that_they_repeat() -> None:
    sources = {name: entry.source for name, entry in shuffled_experiments.FIGURES.items()}
    assert sources["shuffled_given_order"].startswith("Figure 3 of")
    assert sources["shuffled_once"].startswith("Figure 4 of")
    assert sources["shuffled_quarter"] == sources["shuffled_three_quarters"]
    assert sources["shuffled_quarter"].startswith("Figures 5 and 6 of")


@pytest.mark.slow
def test_figures_say_that_their_data_are_stand_ins_and_have_the_papers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``--list`` shows names the stand-ins; ``--download`` asks for the paper's data sets, and for no other."""
    asked = []

    def fetched(name: str, *, download: bool) -> Task:
        asked.append((name, download))
        return task("diabetes by sex (stand-in)")

    monkeypatch.setattr(shuffled_experiments, "task", fetched)
    original = shuffled_experiments.ORIGINAL
    assert original == ("MNIST-69", "CIFAR-10", "Crime", "COMPAS", "CreditCard")
    for name, entry in shuffled_experiments.FIGURES.items():
        assert entry.source.endswith(", on stand-ins for its data")
        assert entry.on_original_data is not None
        other = entry.on_original_data()
        assert (other.name, other.source + ", on stand-ins for its data") == (f"{name}_original", entry.source)
        assert other.on_original_data is None
        assert not any("stand-in" in text for text in (*other.parameters, *other.panels, other.source))
    found = shuffled_experiments.data(Setting(), original, download=True, **SMALL, jobs=1)
    assert set(asked) == {(name, True) for name in original}
    assert "the paper's own" in shuffled_experiments.report(found)
