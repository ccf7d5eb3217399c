__all__: list[str]

from . import correlated_noise as correlated_noise
from . import momentum_aggregation as momentum_aggregation
from . import noise_cancellation as noise_cancellation
from . import shuffled_gradients as shuffled_gradients
