"""After ``corrnoise warm`` designs need no other compiled function; kernels of the cache count as compiled."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
import corrnoise as cn
from corrnoise.__main__ import main

def compiled():
    modules = [(name, vars(one)) for name, one in sys.modules.items() if name.startswith("corrnoise.")]
    kernels = [(name, each) for name, names in modules for each in names.values() if hasattr(each, "py_func")]
    return {(name, each.__name__, str(one)) for name, each in kernels for one in each.signatures}

if sys.argv[1:]:
    assert main(sys.argv[1:]) == 0
before = compiled()
budget = cn.Budget(epsilon=8.0, delta=1e-5)
for order in (cn.Participation.fixed_epochs(20, epochs=4), cn.Participation.min_sep(20, 5, 3)):
    cn.design(budget, order, cn.SGD(momentum=0.9), memory=2)
cn.design(budget, cn.Participation.fixed_epochs(20, epochs=1), memory=2)
cn.design(budget, cn.Participation.fixed_epochs(12, epochs=3), memory=1, replays=2)
print(len(compiled() - before))
"""


@pytest.mark.slow
def test_warm_compiles_what_designs_need() -> None:
    found = [
        subprocess.run([sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, check=True).stdout
        for words in (["warm"], [])  # the mutant does not warm
    ]
    assert int(found[0].split()[-1]) == 0
    assert int(found[1].split()[-1]) > 10
