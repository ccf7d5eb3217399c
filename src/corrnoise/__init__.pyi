__all__: list[str]

from . import datasets as datasets
from . import jax as jax
from . import losses as losses
from . import mechanisms as mechanisms
from . import opacus as opacus
from . import papers as papers
from . import privacy as privacy
from . import torch as torch
from .designs.design import Design as Design
from .designs.make import design as design
from .designs.storage import load as load
from .designs.storage import save as save
from .paper_checks import claims as claims
from .simulations.audit import audit as audit
from .simulations.quadratic import simulate as simulate
from .simulations.run.batches import batches as batches
from .simulations.run.private import PrivateRun as PrivateRun
from .solvers.optimise import optimise as optimise
from .solvers.optimum import Optimum as Optimum
from .support.version import __version__ as __version__
from .theory.participation import Participation as Participation
from .theory.privacy import Budget as Budget
from .theory.problems.quadratic import LinearRegression as LinearRegression
from .theory.problems.quadratic import MeanEstimation as MeanEstimation
from .theory.problems.strongly_convex import StronglyConvex as StronglyConvex
from .theory.workloads import SGD as SGD
