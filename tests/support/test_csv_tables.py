"""Tables as text, and back."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.support.csv_tables import read_table, table_text

CELLS = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=5).map(lambda text: f"x{text}")


@given(rows=st.lists(st.tuples(CELLS, st.floats(allow_nan=False)), max_size=4))
def test_what_is_written_is_read(rows: list[tuple[str, float]], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = Path(tmp_path_factory.mktemp("table"), "table.csv")
    path.write_text(table_text(["name", "number"], rows, ["a comment", "another"]), encoding="utf-8", newline="")
    columns, read = read_table(path)
    assert columns == ["name", "number"]
    assert [(name, float(number)) for name, number in read] == rows


def test_the_text() -> None:
    assert table_text(["a", "b"], [[1, None], ["x,y", 0.1]], ["first"]) == '# first\na,b\n1,\n"x,y",0.1\n'
