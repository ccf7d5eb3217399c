r"""
How tight is a printed constant?
================================

Lemma C.21 (i) of arXiv 2310.06771 says :math:`I(a, a) \le 5 \log(8/a)` for :math:`0 < a < 1`. The ledger finds the
constant that is sharp, and the picture shows where it is needed.
"""

import matplotlib.pyplot as plt
import numpy as np

import corrnoise as cn

[claim] = cn.claims("correlated-noise", name="Lemma C.21 (i)")
outcome = claim.check()
print(f"{claim.name}: {outcome.verdict}, sharp constant {outcome.sharp:.4f}")

# %%
# The two sides of a claim are functions, which can be drawn.

gaps = np.geomspace(1e-6, 0.999, 300)
smaller, larger = claim.sides({"a": gaps})
figure, axes = plt.subplots(figsize=(6.0, 3.0), layout="constrained")
axes.semilogx(gaps, 5 * smaller / larger, label="constant that is needed at a")
axes.axhline(5, ls="--", color="black", lw=0.8)
axes.annotate("as printed", (1e-6, 4.75))
axes.axhline(outcome.sharp, ls=":", color="black", lw=0.8)
axes.annotate("sharp", (1e-6, outcome.sharp + 0.08))
axes.set(xlabel="a", ylabel="I(a, a) / log(8/a)", ylim=(1.5, 5.4))
plt.show()
