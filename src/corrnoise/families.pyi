__all__: list[str]

from .solvers.families.base import Family as Family
from .solvers.families.registry import DEFAULT as DEFAULT
from .solvers.families.registry import by_name as by_name
from .solvers.families.registry import names as names
