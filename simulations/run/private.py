"""A private training run: the batch of each step, and its noise, once each, also through crashes.

    budget = cn.Budget(epsilon=5.0, delta=1e-5, clip_norm=1.0)
    epochs = cn.Participation.fixed_epochs(400, epochs=20)
    order = batches(epochs, 1437, 71)
    with PrivateRun(budget, epochs, cn.mechanisms.NuFTRL(0.02), size, batches=order, folder="digits") as run:
        for batch in run:
            noisy = run.add_noise(sum_of_clipped_gradients(model, batch))

The run has the noise multiplier of the program that really makes the noise, under the participation that is stated,
which must cover its batches.  It hands out a batch only for a step whose noise is still to come, and noise only for a
batch that was handed out.  Without batches it hands out the numbers of the steps, and the caller keeps to the
participation.  It ends with the last step that the multiplier covers.  Under a sampled participation the run draws its
batches from its own secret: sizes vary, and an empty batch gets noise like any other.

With a ``folder`` the same command starts the run, resumes it after a crash, and does nothing once it is finished.  A
step that was started before a crash is not started again; with kept releases its noisy sum is returned again, otherwise
it is skipped.  This is covered: a gradient may be taken at any earlier model.  Without a folder nothing survives.

==========  ==============  ===============================================  ===========================
state       event           condition                                        next
==========  ==============  ===============================================  ===========================
ready       next batch      steps are left                                   handed
ready       next batch      none is left                                     finished
handed      add_noise       the sum is sound                                 ready, one step on
handed      an exception    while the step is noted or the noise is made     broken: only ``close``
ready       close                                                            closed for ever
finished    iterate                                                          finished, without a batch
any         any             another process, a copy, a call from within      refused
==========  ==============  ===============================================  ===========================
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.run import draws
from corrnoise.simulations.run.arithmetic import Arithmetic
from corrnoise.simulations.run.batches import AnyBatches, check_kept
from corrnoise.simulations.run.durable import Carry, Durable
from corrnoise.simulations.run.engines import Choice, Memory, checked_mechanism, found_mechanism, streaming
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.guard import Guarded
from corrnoise.simulations.run.model_noise import ModelNoise, NoiseMaker
from corrnoise.simulations.run.ranks import Alone, Ranks
from corrnoise.simulations.run.sampled import SampledBatches
from corrnoise.simulations.run.secret import Secret
from corrnoise.simulations.run.sums import Grid, Release, Sums
from corrnoise.simulations.run.termination import Termination
from corrnoise.support.process import this_process
from corrnoise.support.serialise import plain
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.program import TOTAL_VARIATION, Program, SamplingAccountant
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.rounding import Dtype
from corrnoise.theory.objectives.workloads import MomentumAverage
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

if TYPE_CHECKING:
    from corrnoise.simulations.run.account import Account
    from corrnoise.theory.profile import Profile

_TERMINATED_STATUS = 143  # exit status after SIGTERM


class PrivateRun(Guarded):
    """The batches of a training run and its correlated noise.

    Parameters
    ----------
    budget : Budget
        The privacy budget of the whole run, with the clipping norm.  The standard deviation of the independent noise
        must lie in [1e-30, 1e30], because noise is float32.
    participation : Participation
        The steps of each example.  For a sampled kind the accountant uses the sampling; of any other random order the
        worst case counts (``participation.worst``).
    mechanism : Mechanism or callable
        The noise; a product with a long memory is replaced by rational noise (``program.mechanism``).  Or a function
        ``(participation, budget) -> Mechanism``, such as ``cn.default_noise``, which is called once, for a new run.
        The folder keeps its result, and a resumed run takes the stored noise and calls nothing.
    size : int
        Number of parameters of the model, over all arrays.
    batches : Batches or SampledBatches, optional
        The examples of each step, whose participation must be covered by ``participation``; None for a loop that
        makes its batches itself and keeps to it.  Under a sampled participation those of
        ``cn.batches(participation, examples)`` for exactly this one, which the run draws from its own secret.
    folder : path or Folder, optional
        Where the run is kept, a path or a ``Folder``: the same command then starts the run or resumes it.  None
        for a run that ends with the process.
    carry : Carry, optional
        Content of checkpoints besides the noise, usually the model and its optimizer: ``save()`` returns arrays by
        their names, and ``load(arrays)`` restores them.  It is called between two steps.
    settings : dict, optional
        Further facts that a restart must repeat, such as signs of the data: values of JSON types by
        their names.  A message shows two that differ, but not those whose name ends with "digest".
    asked : str, optional
        A digest of the arguments of the search that found the mechanism, such as ``design.asked``.  A restart with the
        same one uses the mechanism in the folder, because a search may find other last digits on another
        processor.  None for a mechanism that is compared bit for bit.
    dtype : {"float64", "float32", "exact"}, optional
        ``"float32"`` or ``"float64"`` for the memory of the noise; None for the shorter that is proved to do.  Proved
        releases have ``"exact"`` numbers, and no other.
    threads : int, optional
        How many threads make the noise; None for one a core.
    memory : {"ring", "replay"}, default "ring"
        ``"replay"`` for ``FiniteNoise`` that makes its last draws again at each step, and keeps none of them.
    prefetch : bool, default False
        Whether the independent draw of the next step is made while the caller computes gradients, in the memory of one
        more vector, and of the new dithers of proved noise.  With a folder its steps must be noted ahead,
        ``Folder(…, ahead=2)`` or more.
    maker : callable, optional
        What makes the noise, a ``NoiseMaker``, for other devices than the host: ``torch_noise.TorchNoise`` and
        ``jax_noise.JaxNoise`` with their device.
    ranks : Ranks, optional
        The processes of the run, such as ``corrnoise.torch.Group``, which make the same calls: each adds the noise of
        its own coordinates.  None for one process.
    sums : {"float32", "exact"}, default "float32"
        ``"exact"`` for sums that are integers on the grid of the run (``run.grid``), whose sensitivity is exactly the
        clipping norm; ``"float32"`` for sums of floats, whose rounding errors a margin of the clipping norm covers.
    release : {"float", "grid", "proved"}, default "float"
        ``"grid"`` for noisy sums on the grid of exact sums, which are post-processing of the Gaussian mechanism for
        real normals and memory; ``"proved"`` for the same with the integers that real normals and memory give, up to a
        total variation of 2⁻²⁵⁶, for few poles, buffers, trees, delay lines and substitution on the host;
        ``"float"`` for sums of floats, where this is true for real numbers only.
    account : Account, optional
        The account of the data set, which the run pays in full before its first step.  A resumed run needs the same.
    accountant : SamplingAccountant, optional
        ``cn.privacy.MonteCarlo(…)`` for balls in bins and b-min-sep sampling, whose failure is a part of δ; None for
        certified bounds.  The folder keeps its evidence, which a resumed run checks again.

    Raises
    ------
    ValueError
        If an argument is out of its range, the mechanism or the batches do not fit the participation, the sensitivity
        is not bounded, or the folder is damaged, outdated, a copy, or has a run with other settings.
    TypeError
        If an argument has another type.
    BlockingIOError
        Another run uses the folder.

    Examples
    --------
    >>> import numpy as np
    >>> import corrnoise as cn
    >>> epochs = cn.Participation.fixed_epochs(20, epochs=2)
    >>> run = cn.PrivateRun(cn.Budget(epsilon=2.0, delta=1e-6), epochs, cn.mechanisms.NuFTRL(0.05), 3)
    >>> model = np.zeros(3)
    >>> for step in run:
    ...     total = np.zeros(3)  # the sum of the clipped gradients of the examples of the step
    ...     model -= 0.1 * run.add_noise(total) / 10
    >>> run.position
    20
    """

    _next_call = "for batch in run: noisy_sum = run.add_noise(sum_of_clipped_gradients)"

    def __init__(
        self,
        budget: Budget,
        participation: Participation,
        mechanism: Mechanism | Choice,
        size: int,
        *,
        batches: AnyBatches | None = None,
        folder: str | os.PathLike[str] | Folder | None = None,
        carry: Carry | None = None,
        settings: Mapping[str, Any] | None = None,
        asked: str | None = None,
        dtype: Dtype | None = None,
        threads: int | None = None,
        memory: Memory = "ring",
        prefetch: bool = False,
        maker: Callable[..., NoiseMaker] = ModelNoise,
        ranks: Ranks | None = None,
        sums: Sums = "float32",
        release: Release = "float",
        account: Account | None = None,
        accountant: SamplingAccountant | None = None,
    ) -> None:
        super().__init__()
        self._budget = checks.instance("budget", budget, Budget)
        promised = checks.instance("participation", participation, Participation)
        checked_mechanism(mechanism)
        if asked is not None and (checks.instance("asked", asked, str) == "" or not asked.isalnum()):
            raise ValueError(f"asked must be a digest, of letters and digits, or None, got {asked!r:.80}")
        self._size = checks.integer("size", size, 1)
        check_kept(batches, promised)
        self._batches = batches
        self._arithmetic = Arithmetic(sums, release, with_batches=batches is not None)
        self._steps = promised.steps if self._batches is None else self._batches.steps
        self._position = self._examples = 0
        self._handed = self._closed = False
        self._termination = Termination()
        self._ranks: Ranks = Alone() if ranks is None else ranks
        own = (self._budget, promised, self._size)
        if (first := self._ranks.share(lambda: own)) != own:
            raise ValueError(f"budget, participation and size must agree with the first process, {first}, got {own}")
        where = folder if folder is None or isinstance(folder, Folder) else Folder(folder)
        if release == "proved":
            if maker is not ModelNoise or dtype not in (None, "exact"):
                raise ValueError(
                    "release must be 'grid' in a run with noise on a device, or with another dtype than 'exact', got "
                    f"'proved' with dtype={dtype!r}"
                )
            dtype = "exact"
        self._prefetch = checks.boolean("prefetch", prefetch)
        if prefetch and where is not None and where.ahead == 1:
            raise ValueError("prefetch must be False where steps are not noted ahead, by Folder(…, ahead=2) or more")
        if where is None and carry is not None:
            raise ValueError("folder must be given where there is something to carry")
        self._account, self._accountant = account, accountant
        said = {
            **({} if settings is None else settings),
            **{"sums": sums, "release": release, "account": None if account is None else account.identity},
            "accountant": None if accountant is None else plain(accountant),
        }
        self._durable = (
            None if where is None else Durable(where, carry, self._budget, promised, self._size, said, self._ranks)
        )
        try:
            if release == "proved":
                from corrnoise.simulations.run.proved import ProvedNoise

                maker = ProvedNoise
            self._open(promised, mechanism, asked, dtype, partial(maker, threads=threads, memory=memory))
        except BaseException:
            if self._durable is not None:
                self._durable.home.close()
            raise

    def _open(
        self,
        promised: Participation,
        mechanism: Mechanism | Choice,
        asked: str | None,
        dtype: Dtype | None,
        noise_of: Callable[..., NoiseMaker],
    ) -> None:
        """Make the noise of a new run, or resume the noise of the folder."""
        durable = self._durable
        if durable is None:
            self._program = self._ranks.share(
                lambda: streaming(found_mechanism(mechanism, promised, self._budget), promised, dtype)
            )
            self._batches = self._ranks.share(lambda: self._batches)
        else:
            self._batches = durable.batches(self._batches)
            self._program = durable.program(mechanism, asked, dtype)
        chosen = self._program if durable is None else durable
        # A random multiplier is the one of the first process; a folder shares it already.
        share = self._ranks.share if durable is None else Alone().share
        self._multiplier = share(lambda: chosen.multiplier(self._budget, accountant=self._accountant))
        largest = None if self._batches is None else self._batches.largest_batch
        self._arithmetic.bound(self._program, self.scale, self._budget.clip_norm, largest, self._size)
        self._noise = noise_of(self._program, self._size, spans=self._ranks.spans, **self._arithmetic.of_noise)
        self._ranks.share(self._check_account)
        if durable is None:
            self._secret = Secret(self._ranks.share(lambda: draws.fresh(draws.KEY_BYTES)))
        else:
            wide = self._arithmetic.on_grid
            self._position = durable.start(self._noise, self._multiplier, self._made, self._steps, wide=wide)
            self._secret = durable.home.secret
        if isinstance(self._batches, SampledBatches):
            self._batches = self._batches.bound(self._secret, self._arithmetic.generator)
        self._ranks.share(self._pay)

    def _check_account(self) -> None:
        """Refuse a new run that the account does not cover, before its folder is made."""
        if self._account is not None and (self._durable is None or self._durable.is_new):
            self._account.check(self.profile())

    def _pay(self) -> None:
        """Charge the whole run, or find it paid."""
        if self._account is not None:
            self._account.admit(self._name, self.profile(), started=self._released > 0)

    @property
    def _name(self) -> str:
        return f"run {draws.derived(self._secret, b'identity').hex()}"

    @property
    def _released(self) -> int:
        """Number of steps whose noisy sum was returned, also by an earlier process, or was skipped."""
        return max(self._position, 0 if self._durable is None else self._durable.begun)

    # -- guarantees ------------------------------------------------------------------------------------------------

    @property
    def program(self) -> Program:
        """The noise that is really made, and the sensitivity that covers it."""
        return self._program

    @property
    def position(self) -> int:
        """Number of steps whose noise was made."""
        return self._position

    @property
    def skipped(self) -> int:
        """Number of steps that were skipped at the opening, because they were started before a crash."""
        return 0 if self._durable is None else self._durable.skipped

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self._size

    @property
    def largest_batch(self) -> int:
        """The largest number of examples that a batch can have; a run without batches has none."""
        if self._batches is None:
            raise ValueError("run must have batches here, got one without")
        return self._batches.largest_batch

    @property
    def device(self) -> Any:
        """The device of noise and sums; None for arrays of NumPy."""
        return self._noise.device

    @property
    def ranks(self) -> Ranks:
        """The processes of the run, and the coordinates of this one."""
        return self._ranks

    @property
    def budget(self) -> Budget:
        """The budget of the run."""
        return self._budget

    @property
    def participation(self) -> Participation:
        """The participation that the noise covers."""
        return self.program.participation

    @property
    def batches(self) -> AnyBatches | None:
        """The examples of each step; None where the caller makes the batches."""
        return self._batches

    @property
    def steps(self) -> int | None:
        """Length of the run; None for any length."""
        return self._steps

    @property
    def multiplier(self) -> float:
        """Standard deviation of the independent noise in units of the clipping norm."""
        return self._multiplier

    @property
    def scale(self) -> float:
        """Standard deviation of the independent noise behind the correlated noise."""
        return self._multiplier * self._budget.clip_norm

    def noise_deviation(self, step: int) -> float:
        """Standard deviation of one coordinate of the noise of a step in the noisy mean gradient.

        It is ``scale`` times the root of (N Nᵀ)_tt over the batch size, before the rounding to a grid.  The number is
        public: it does not depend on the data.

        Parameters
        ----------
        step : int
            t, the number of the step, from 0.

        Returns
        -------
        float
            The standard deviation, to about 12 digits; O(t) for Toeplitz noise and time-varying buffers, O(t²) memory
            for trees, matrices and factors of steps.

        Raises
        ------
        ValueError
            The run has no batches, or no such step.
        """
        if self._batches is None:
            raise ValueError("run must have batches here, got one without: the deviation is divided by the batch size")
        count = checks.integer("step", step, 0, largest=self._batches.steps - 1) + 1
        variances = self._program.mechanism.leading(count).errors(MomentumAverage(count, alpha=1.0))
        return self.scale * float(np.sqrt(variances[-1])) / self._batches.batch_size

    @property
    def sums(self) -> Sums:
        """``"exact"`` where sums are integers on the grid of the run, otherwise ``"float32"``."""
        return self._arithmetic.sums

    @property
    def release(self) -> Release:
        """``"grid"`` or ``"proved"`` where noisy sums are on the grid of the sums, otherwise ``"float"``."""
        return self._arithmetic.release

    @property
    def grid(self) -> Grid | None:
        """The grid of exact sums; None where sums are floats."""
        return self._arithmetic.grid

    @property
    def level(self) -> str:
        """The arithmetic that the guarantee is about: ``"idealised"``, ``"exact sums"``, ``"grid"`` or ``"proved"``."""
        return self._arithmetic.level

    @property
    def total_variation(self) -> float | None:
        """The distance of proved releases from post-processing of the Gaussian mechanism, for random bits."""
        return TOTAL_VARIATION if self.release == "proved" else None

    def seed(self, purpose: str) -> int:
        """A secret number for further draws in the step to come, such as dropout; 64 bits.

        Parameters
        ----------
        purpose : str
            A name, which has a number of its own in each step and process.

        Returns
        -------
        int
        """
        place = (number.to_bytes(8, "little") for number in (self._position, self._ranks.rank))
        return int.from_bytes(draws.derived(self._secret, b"loop", purpose.encode(), *place, size=8), "little")

    def report(self) -> dict[str, Any]:
        """The guarantee of the run and its costs, values of JSON types by their names.

        Returns
        -------
        dict
        """
        budget, grid = self._budget, self.grid
        private = {name: value for name, value in budget.arguments().items() if value is not None}
        return {
            **private,
            "participation": self.participation.summary(),
            "multiplier": self._multiplier,
            "accountant": "certified" if self._accountant is None else plain(self._accountant),
            "level": self.level,
            "total variation": self.total_variation,
            "generator": self._arithmetic.generator,
            "refined": self._noise.refined,
            "grid exponent": None if grid is None else grid.exponent,
            "type of sums": "float32 or float64" if grid is None else grid.dtype,
            "type of noise": self._program.dtype,
            "bytes of memory": self._noise.rows * self._noise.size * np.dtype(self._noise.dtype).itemsize,
            "parameters": self._size,
            "steps": self.steps,
            "position": self.position,
        }

    def profile(self, step: int | None = None) -> Profile:
        """The privacy profile of the whole run, or of its first steps.

        Parameters
        ----------
        step : int, optional
            0 <= t <= n: the first t steps; None for the whole run.

        Returns
        -------
        Profile
        """
        from corrnoise.simulations.run.summary import profile_of

        return profile_of(self._program, self._budget, self._multiplier, step)

    def spent(self, delta: float) -> float:
        """The ε of everything that the run has released so far, at δ.

        Steps whose noise was made count as released, also where a crash skipped them.

        Parameters
        ----------
        delta : float
            0 < δ < 1.

        Returns
        -------
        float
            ε >= 0, rounded up; 0 before the first step, and the ε of ``profile()`` after the last.

        Notes
        -----
        It is the privacy of a stop that was fixed beforehand.  Whoever stops by looking at releases has the privacy of
        the whole run, and may spend the rest in another Gaussian run within the same budget.
        """
        found = self.profile(self._released).epsilon_at(delta)
        epsilon, least = self._budget.epsilon, self._budget.delta
        if self._accountant is None or epsilon is None or least is None or delta < least:
            return found
        return min(found, epsilon)  # random draws verify the whole run alone

    def settle(self) -> None:
        """End the run for ever, and give its account back the privacy of the steps that were not made.

        The run cannot be resumed.  Sampled runs are paid in full; others pay for the steps that were made or skipped.

        Raises
        ------
        ValueError
            The run has no account.
        """
        ended = False
        try:
            with self._alone():
                account = self._account
                if account is None:
                    raise ValueError("run must have an account to settle, got none: give PrivateRun(…, account=…)")
                self._check_open()
                paid = self.profile() if self.participation.sampled else self.profile(self._released)
                ended = True  # an interrupted refund may be on the disk
                self._ranks.share(lambda: account.settle(self._name, paid))
        finally:
            if ended:
                self._close(saves=False)

    def __str__(self) -> str:
        return self.summary()

    def summary(self) -> str:
        """The guarantee of the whole run and its state, in at most 15 lines.

        Returns
        -------
        str
        """
        from corrnoise.simulations.run.summary import summary_of

        return summary_of(self, self._next_call)

    def _repr_html_(self) -> str:
        from corrnoise.simulations.run.summary import summary_of

        return summary_of(self, self._next_call, html=True)

    # -- batches and noise ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Number of steps to come."""
        if self.steps is None:
            raise TypeError("a run of any length has no number of steps to come")
        return self.steps - self.position

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches of the steps to come, numbers of examples; without batches the numbers of the steps.

        Where a run with a folder is sent SIGTERM in the loop, and the process has no handler of its own, the run ends
        cleanly before the next step, with ``SystemExit(143)``.  Where the loop ends before that, by ``break`` or an
        exception, the run ends cleanly there, with the state that ``carry.save`` then returns, and the signal ends the
        process.  A run of several processes writes no checkpoint there.
        """
        if self._durable is not None:
            self._termination.begin()
        try:
            with self._alone():
                self._handed = False  # a batch that an earlier loop left is handed out again
            while (batch := self._following()) is not None:
                step = self.position
                yield batch
                if self.position != step + 1:
                    raise RuntimeError(f"step {step} has got no noise, or another loop uses this run")
        except GeneratorExit:  # the loop was left, by ``break`` or an exception
            if self._termination.sent and self._ranks.count == 1:
                self._close(saves=True)
            raise
        finally:
            if self._durable is not None:
                self._termination.end()

    @property
    def closed(self) -> bool:
        """Whether the run was closed: no further step is made with this object."""
        return self._closed

    @property
    def handed(self) -> Any:
        """The batch that was handed out last, or the number of its step; None once it has its noise."""
        if not self._handed:
            return None
        return self._position if self._batches is None else self._batches.batch(self._position)

    def _following(self) -> Any:
        """Hand out the batch of the next step; None after the last one."""
        with self._alone():
            step = self.position
            if self._handed:
                raise RuntimeError(f"the batch of step {step} has got no noise: noise is added once to each batch")
            if self._is_over():
                return None
            self._handed = True
            if self._batches is None:
                return step
            batch = self._batches.batch(step)
            self._examples = batch.size
            return batch

    def _is_over(self) -> bool:
        """Whether all steps were made; work that is due between two steps is done."""
        if self._durable is None or not self._durable.home.closed:
            self._check_open()
            self._between_steps()
        return self.position == self.steps

    def next_batch(self) -> Any:
        """The batch of the next step, whose noise is then to be made; the number of the step without batches.

        Returns
        -------
        array of int or int

        Raises
        ------
        RuntimeError
            All steps were made, or the batch that was handed out last has got no noise.
        """
        batch = self._following()
        if batch is None:
            raise RuntimeError(f"the run has made its {self.steps} steps: a further one is not covered by its noise")
        return batch

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the run is closed: the same command resumes a run that has a folder")

    def _between_steps(self) -> None:
        """Write the checkpoint that is due; end the run after its last step, or after SIGTERM."""
        if self._durable is None:
            return
        last = self.position == self.steps
        self._durable.save(self.position, due=last)
        if last:
            with self._making():
                self._durable.finish()
        if self._ranks.share(lambda: self._termination.sent):
            self._termination.obey()
            self._end(saves=True)
            raise SystemExit(_TERMINATED_STATUS)

    def add_noise(self, total: Any, *, examples: int | None = None) -> NDArray[Any]:
        """The sum of the clipped gradients of a step plus its noise.

        Parameters
        ----------
        total : array
            The sum over the batch that was handed out last, shape (size,), of float32 or float64, or of the integers of
            ``run.grid``; its coordinates of this process, where there are several.
        examples : int, optional
            The number of examples in it, where the run has no batches: then its norm is checked, too.

        Returns
        -------
        array

        Raises
        ------
        ValueError
            The sum is not finite, longer than that of so many clipped gradients, of another type than the run has, or
            of one whose rounding errors are more than 2⁻¹⁰ standard deviations of the noise.  The step can be made with
            another sum.
        RuntimeError
            No batch was handed out for this step, the run is closed or over, or another process uses it.
        """
        with self._alone():
            self._check_open()
            if not self._handed:
                raise RuntimeError(f"no batch was handed out for step {self.position}: noise is added once to each")
            if self._batches is not None:
                if examples not in (None, self._examples):
                    raise ValueError(f"examples must be the {self._examples} of the batch, got {examples}")
                examples = self._examples
            values = self._arithmetic.checked(total, self._noise, self.position, examples)
            with self._making():
                noisy = self._noisy(self.position, values)
                self._position += 1
                self._handed = False
            return noisy

    def _made(self, secret: Secret, step: int, nonce: bytes) -> NDArray[Any]:
        """The noise of a step."""
        return self._noise.made(secret, step, nonce, self.scale, wide=self._arithmetic.on_grid)

    def _noisy(self, step: int, values: NDArray[Any]) -> NDArray[Any]:
        """The noisy sum of a step, noted before its noise is drawn."""
        durable = self._durable
        nonce = b"" if durable is None else durable.nonce(step)
        noisy = self._noise.added(
            values, self._secret, step, nonce, self.scale, self.grid, on_grid=self._arithmetic.on_grid
        )
        following = b"" if durable is None else durable.noted(step + 1)
        if self._prefetch and step + 1 != self.steps and following is not None:
            self._noise.prefetch(self._secret, step + 1, following, wide=self._arithmetic.on_grid)
        if durable is None:
            return noisy
        if not durable.keeps:
            return durable.released(step, nonce, noisy)
        return self._noise.on_device(durable.released(step, nonce, self._noise.on_host(noisy)))

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End cleanly between two steps: a checkpoint is written, and steps noted ahead are free again.

        What ``carry.save`` returns must be the state after the last step.  The object cannot be used again.  A SIGTERM
        that was sent in a loop, and that no step has obeyed, then ends the process.
        """
        self._close(saves=True)

    def _close(self, *, saves: bool) -> None:
        if this_process() != self._process:
            return  # the files belong to the other process
        try:
            with self._entered():
                self._end(saves=saves)
        finally:
            self._termination.stop()
            self._termination.deliver()

    def _end(self, *, saves: bool) -> None:
        """Give the folder back, after a checkpoint where it ``saves``."""
        durable = None if self._closed else self._durable
        self._closed = True
        self._noise.close()
        if durable is None or durable.home.closed:
            return
        try:
            if not self._broken:
                if saves:
                    durable.save(self.position)
                durable.clean()
                if saves and self.position == self.steps:
                    durable.finish()
        finally:
            durable.home.close()

    def __enter__(self) -> PrivateRun:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self._close(saves=kind is None)

    def __repr__(self) -> str:
        return (
            f"PrivateRun({self._budget!r}, {self.participation!r}, {self._program.mechanism!r:.60}, size={self._size}, "
            f"position={self.position} of {self.steps}, multiplier={self._multiplier!r})"
        )
