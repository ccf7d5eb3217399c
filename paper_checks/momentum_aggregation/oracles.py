"""The orders of the data that the claims are searched over."""

from corrnoise.theory.participation import Participation

#: Participation by the name of its order, as domains have it.
ORDERS = {"fixed": Participation.fixed_epochs, "reshuffled": Participation.reshuffled}
