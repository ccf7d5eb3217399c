"""Drawings that share shapes: each keeps its shape, and every reference leads to a shape or a clipping path."""

import re

import pytest

from corrnoise.figures import paper_figure
from corrnoise.figures.publication import svg_text
from corrnoise.paper_checks.machinery.drawings import Drawings


@pytest.fixture(scope="module")
def whole():
    figure = paper_figure("mean_estimation")
    return svg_text(figure, figure.data())


def numbers(svg):
    paths = re.findall(r'<path[^>]* d="([^"]*)"', svg)
    return [float(number) for path in paths for number in re.findall(r"-?\d+(?:\.\d+)?", path)]


def test_drawings_keep_their_shape(whole):
    """Coordinates are rounded to a tenth of a unit, of about 500 across the drawing."""
    drawings = Drawings()
    short = str(drawings.add(whole, "one", "A <title>"))
    assert 'aria-label="A &lt;title&gt;"' in short
    exact, rounded = numbers(whole), numbers("".join([short, drawings.shapes()]))
    assert len(rounded) > 1000
    assert {f"{number:.1f}" for number in exact} == {f"{number:.1f}" for number in rounded}
    assert short.count("<use") == whole.count("<use")
    assert len(short) < 0.6 * len(whole)


def test_what_two_drawings_share_is_written_once(whole):
    drawings = Drawings()
    first = drawings.add(whole, "one", "One")
    shapes = drawings.shapes()
    second = drawings.add(whole, "two", "Two")
    assert drawings.shapes() == shapes
    assert second.replace("two-", "one-").replace("Two", "One") == first


def test_references_lead_somewhere(whole):
    drawings = Drawings()
    page = "".join([drawings.add(whole, "one", "One"), drawings.add(whole, "two", "Two"), drawings.shapes()])
    identifiers = re.findall(r'id="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers)) > 20
    assert set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', page)) <= {(name, "") for name in identifiers} | {
        ("", name) for name in identifiers
    }


def test_groups_without_attributes_around_shapes_are_left_out(whole):
    short = str(Drawings().add(whole, "one", "One"))
    assert not re.search(r"<g>\s*<use[^>]*/>\s*</g>", short)
    assert short.count("<g") == short.count("</g>")
