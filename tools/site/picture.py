"""Draw the picture of the README: ``python -m tools.site.picture`` runs the first example and keeps what it drew."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs/examples/plot_1_running_sums.py"
PICTURE = ROOT / "docs/pictures/noise.svg"


def main(path: Path = PICTURE) -> int:
    """Write the picture to ``path``; letters stay letters, and identifiers do not change from run to run."""
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "corrnoise", "font.family": "sans-serif"})
    import matplotlib.pyplot as plt

    runpy.run_path(str(EXAMPLE))
    plt.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close("all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
