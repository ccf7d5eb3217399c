"""Drawings that share shapes: each keeps its shape, and every reference leads to a shape or a clipping path."""

import re

import numpy as np
import pytest

from corrnoise.figures import paper_figure
from corrnoise.figures.publication import svg_text
from corrnoise.support.drawings import Drawings, by_differences


@pytest.fixture(scope="module")
def whole():
    figure = paper_figure("mean_estimation")
    return svg_text(figure, figure.data())


_SIZES = {"m": 2, "l": 2, "h": 1, "v": 1, "q": 4, "c": 6, "z": 0}


def points(path):
    """The corners and control points of a path, absolute, with those of a line that ends there in one list."""
    here = np.zeros(2)
    lines, curves = [[]], []
    tokens = re.findall(r"[A-Za-z]|-?(?:\d+\.?\d*|\.\d+)(?:e-?\d+)?", path)
    place = 0
    while place < len(tokens):
        if tokens[place].isalpha():
            command = tokens[place]
            place += 1
        kind = command.lower()
        found = list(map(float, tokens[place : place + _SIZES[kind]]))
        place += _SIZES[kind]
        if kind == "z":
            continue
        if kind in "hv":
            found = [found[0], 0.0] if kind == "h" else [0.0, found[0]]
        moved = np.reshape(found, (-1, 2)) + (here if command.islower() else 0)
        here = moved[-1]
        if kind == "m":
            lines.append([here])
        elif kind in "lhv":
            lines[-1].append(here)
        else:
            curves.append(moved)
            lines.append([here])
    return [np.array(line) for line in lines if line], curves


def difference(path, other):
    """The largest distance of corners or control points of two paths."""
    found = [np.concatenate([np.concatenate(part) for part in points(one) if part]) for one in (path, other)]
    assert found[0].shape == found[1].shape
    return float(np.abs(found[0] - found[1]).max())


def test_paths_keep_their_shape(whole):
    """Coordinates are rounded to a tenth of a unit, of about 500 across the drawing."""
    paths = re.findall(r' d="([^"]*)"', whole)
    assert len(paths) > 40
    for path in paths:
        assert difference(path, by_differences(path)) < 0.13
    assert sum(map(len, map(by_differences, paths))) < 0.6 * sum(map(len, paths))


@pytest.mark.parametrize("wrong", ["M0 0l10 0 10 1", "M0 0l10 0 9 0", "M0 1h10 10", "M0 0c0 0 9 1 20 0"])
def test_another_path_is_noticed(wrong):
    right = "M 0 0 C 0 0 10 1 20 0" if "c" in wrong else "M 0 0 L 10 0 L 20 0"
    assert difference(right, by_differences(right)) == 0
    assert difference(right, wrong) > 0.5


def test_drawings_are_short_and_labelled(whole):
    drawings = Drawings()
    short = str(drawings.add(whole, "one", "A <title>"))
    assert 'aria-label="A &lt;title&gt;"' in short
    labels = dict(re.findall(r"<g id=(t\d+)>(.*)</g>", str(drawings.shapes())))
    letters = re.sub(r"<use href=#(t\d+) [^>]*/>", lambda label: labels[label[1]], short)
    assert letters.count("<use") == whole.count("<use") > short.count("<use")
    assert len(short) < 0.4 * len(whole)


def test_references_lead_somewhere(whole):
    drawings = Drawings()
    page = "".join([drawings.add(whole, "one", "One"), drawings.add(whole, "two", "Two"), drawings.shapes()])
    identifiers = re.findall(r" id=([^ >]+)", page)
    assert len(identifiers) == len(set(identifiers)) > 20
    references = set(re.findall(r"href=#([^ >]+)|url\(#([^)]+)\)", page))
    assert len(references) > 20
    assert references <= {(name, "") for name in identifiers} | {("", name) for name in identifiers}
