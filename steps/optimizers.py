"""Step rules, rates and schedules: from a gradient to new weights; no data, no batches, no penalty lives here.

A rule sees the gradient g (p,) of the loss alone; the penalty enters by its proximal operator, with the same step:

    w+ = prox(w - s * d, s)            d (p,) is what the rule makes of g; s a number, or one number per coordinate

so that the minimum of loss + penalty is where every rule comes to rest: there w = prox(w - s * g, s) for every s > 0.
Sums over coordinates are NumPy's, not BLAS dot products, whose bits depend on the number of threads.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ConfigError, StateError
from shoal.models import Array, Prox, proximal_step
from shoal.settings.config import SCHEDULES

Memory = dict[str, NDArray[Any]]

WARM_START = 0.1  # share of the rate that warm-up begins with: at 0 the first steps would do nothing
FORGETTING = 0.999  # of Adam's mean square, a step
EPSILON = 1e-8  # of the largest root mean square: what a coordinate that hardly ever has a gradient is divided by
TELLING = 1e-4  # of the weights: a move that is shorter says nothing of the curvature in single precision
LEAST_SHARE = 2.0**-30  # of a rate, however curved
SMALLEST = 1e-280  # gradients under this are none: a rate over less than that might not be finite

# Numbers that grow without bound are for the caller to see in the weights, not a warning on the way there.
unbounded = np.errstate(over="ignore", invalid="ignore")


class StepRule(ABC):
    """How a gradient moves the weights w (p,); `memory` is all that it keeps between steps, for checkpoints."""

    name: ClassVar[str]

    def __init__(self, width: int, momentum: float = 0.9) -> None:
        if not 0 <= momentum < 1:
            raise ConfigError(
                f"Expected momentum to be at least 0 and less than 1, got {momentum!r}. Give a number such as 0.9."
            )
        self.width = width
        self.momentum = momentum
        self.memory = self.blank()

    def blank(self) -> Memory:
        """What the rule remembers before its first step: float64 or int64 arrays by name."""
        return {}

    @abstractmethod
    def step(self, w: Array, gradient: Array, rate: float, prox: Prox) -> Array:
        """The new weights (p,), from w (p,) and the gradient (p,) at query(w); w itself is left as it is."""

    def query(self, w: Array) -> Array:
        """The point (p,) at which the next gradient is wanted."""
        return w

    @abstractmethod
    def safe_rate(self, curvature: float, scale: float) -> float:
        """A rate that does not diverge.

        curvature: L, an upper bound of a batch's curvature (`batch_curvature`);
        scale:     max |Xs'y| / n, the size that weights can have.
        """

    def reach(self, rate: float, top: float) -> float:
        """The largest part of a distance to the optimum that a step at this rate, and what follows of it, takes away.

        top: the largest eigenvalue of the loss. 1 is all of it, which no safe rate goes beyond.
        """
        return 1.0

    def state(self) -> Memory:
        """A copy of everything that a checkpoint needs to go on with the same bits."""
        return {name: array.copy() for name, array in self.memory.items()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        blank = self.blank()
        shapes = {name: np.shape(array) for name, array in state.items()}
        expected = {name: array.shape for name, array in blank.items()}
        if shapes != expected:
            raise StateError(
                f"Expected the state of the step rule '{self.name}' for {self.width} weights ({expected}), got "
                f"{shapes}. Go on with the step rule and columns that the checkpoint was made with, or start anew."
            )
        self.memory = {name: np.array(state[name], dtype=blank[name].dtype) for name in blank}

    def reset(self) -> None:
        """Forget everything, as before the first step."""
        self.memory = self.blank()

    def of_width(self, width: int) -> Self:
        """The same rule for so many weights, before its first step."""
        other = copy.copy(self)
        other.width = width
        other.memory = other.blank()
        return other


class PartwiseRule(StepRule):
    """A rule whose coordinates know of one another no more than one number, the largest of some: parts of the vector
    can be stepped apart, each with its part of the memory, and have the bits of all at once."""

    needs_peak: ClassVar[bool] = False  # else `look` has nothing to tell, and `move` nothing to be told

    def look(self, gradient: Array) -> float:
        """Take the gradient of the part into the memory; what `move` is to be told the largest of, over all parts."""
        return 0.0

    @abstractmethod
    def move(self, w: Array, gradient: Array, rate: float, prox: Prox, peak: float) -> Array:
        """The new weights of the part, after `look`."""

    @unbounded
    def step(self, w: Array, gradient: Array, rate: float, prox: Prox) -> Array:
        return self.move(w, gradient, rate, prox, self.look(gradient))


class SGD(PartwiseRule):
    """w+ = prox(w - rate g, rate)."""

    name = "sgd"

    def move(self, w: Array, gradient: Array, rate: float, prox: Prox, peak: float) -> Array:
        return proximal_step(w, gradient, rate, prox)

    def reach(self, rate: float, top: float) -> float:
        return rate * top

    def safe_rate(self, curvature: float, scale: float) -> float:
        """1 / L: the mean squared distance e = w - w* to the minimum shrinks for every rate under 2 / L, most at 1 / L.

        Noise keeps E e'He at rate / (2 - rate L) E |g(w*)|^2 or less, so the excess loss under the least loss itself.
        """
        return _inverse(curvature)


class Momentum(PartwiseRule):
    """Heavy ball: w+ = prox(w - rate g + beta m, rate), m+ = w+ - w, with beta = momentum (Ochs et al. 2014, iPiano).

    The usual sum of gradients v+ = beta v + g, w+ = prox(w - rate v+, rate) rests at another place: there
    v = g / (1 - beta), so the loss would weigh 1 / (1 - beta) times as much against the penalty.
    """

    name = "momentum"

    def blank(self) -> Memory:
        return {"moved": np.zeros(self.width)}

    def move(self, w: Array, gradient: Array, rate: float, prox: Prox, peak: float) -> Array:
        new = prox(w - rate * gradient + self.momentum * self.memory["moved"], rate)
        self.memory["moved"] = new - w
        return new

    def safe_rate(self, curvature: float, scale: float) -> float:
        """(1 - beta) / L: one gradient moves w by rate / (1 - beta) in all, which is to be what SGD may do."""
        return (1 - self.momentum) * _inverse(curvature)

    def reach(self, rate: float, top: float) -> float:
        return rate * top / (1 - self.momentum)


class AdaGrad(PartwiseRule):
    """r+ = sqrt(r^2 + g^2), s = rate / r+, w+ = prox(w - s g, s); all (p,) (Duchi, Hazan and Singer 2011).

    The penalty's operator belongs to the same diagonal metric, hence a step per coordinate in it.
    """

    name = "adagrad"
    needs_peak = True

    def blank(self) -> Memory:
        return {"root": np.zeros(self.width)}

    def look(self, gradient: Array) -> float:
        self.memory["root"] = np.hypot(self.memory["root"], gradient)
        return float(self.memory["root"].max(initial=0.0))

    def move(self, w: Array, gradient: Array, rate: float, prox: Prox, peak: float) -> Array:
        return proximal_step(w, gradient, _steps(rate, self.memory["root"], peak), prox)

    def safe_rate(self, curvature: float, scale: float) -> float:
        """scale / L: the first step is the rate in every coordinate, whatever the gradient. Where columns are alike
        (L of about p) these p moves add up, and 1 / L of the scale each is what the data ask for."""
        return (scale or 1.0) * _inverse(curvature)


class Adam(PartwiseRule):
    """m+ = beta m + (1 - beta) g, r+ = sqrt(c r^2 + (1 - c) g^2), w+ = prox(w - s M, s); all (p,).

    M = m+ / (1 - beta^t), s = rate sqrt(1 - c^t) / r+ at step t = 1, 2, ...; beta = momentum, c = FORGETTING
    (Kingma and Ba 2015; r is their sqrt(v), kept as a root because squares leave the range of a float64 early).
    """

    name = "adam"
    needs_peak = True

    def blank(self) -> Memory:
        return {"mean": np.zeros(self.width), "root": np.zeros(self.width), "steps": np.zeros(1, np.int64)}

    def look(self, gradient: Array) -> float:
        beta, memory = self.momentum, self.memory
        memory["steps"] = memory["steps"] + 1
        memory["mean"] = beta * memory["mean"] + (1 - beta) * gradient
        memory["root"] = np.hypot(math.sqrt(FORGETTING) * memory["root"], math.sqrt(1 - FORGETTING) * gradient)
        return float(memory["root"].max(initial=0.0)) if self.needs_peak else 0.0

    def move(self, w: Array, gradient: Array, rate: float, prox: Prox, peak: float) -> Array:
        t, memory = int(self.memory["steps"][0]), self.memory
        steps = _steps(rate * math.sqrt(1 - FORGETTING**t), memory["root"], peak)
        return proximal_step(w, memory["mean"] / (1 - self.momentum**t), steps, prox)

    def safe_rate(self, curvature: float, scale: float) -> float:
        """(1 - beta) scale / L: AdaGrad's first step, by as much smaller as one gradient has a longer effect."""
        return (1 - self.momentum) * (scale or 1.0) * _inverse(curvature)


class AdamW(Adam):
    """Adam as PyTorch has it, with decoupled weight decay: w+ = prox((1 - rate decay) w - s M, s).

    s = rate / (r+ / sqrt(1 - c^t) + EPSILON), in the gradient's units (Loshchilov and Hutter 2019): gradients of
    networks are of a size for which that was chosen, and whoever knows a learning rate from there can keep it.
    """

    name = "adamw"
    needs_peak = False

    def __init__(self, width: int, momentum: float = 0.9, weight_decay: float = 0.0) -> None:
        super().__init__(width, momentum)
        self.weight_decay = weight_decay

    def move(self, w: Array, gradient: Array, rate: float, prox: Prox, peak: float) -> Array:
        t = int(self.memory["steps"][0])
        steps = rate / (self.memory["root"] / math.sqrt(1 - FORGETTING**t) + EPSILON)
        mean = self.memory["mean"] / (1 - self.momentum**t)
        return proximal_step((1 - rate * self.weight_decay) * w, mean, steps, prox)


class Accelerated(StepRule):
    """FISTA with gradient restart, for full gradients: q = w + lead m, w+ = prox(q - rate g(q), rate), m+ = w+ - w.

    t+ = (1 + sqrt(1 + 4 t^2)) / 2 and lead = (t - 1) / t+ (Beck and Teboulle 2009). Where the last move went uphill,
    (q - w+)'(w+ - w) > 0, t begins again at 1 (O'Donoghue and Candes 2015), which gives the linear rate of a strongly
    convex problem, about 1 - sqrt(1 / condition number) a step, without knowing its constant.
    """

    name = "accelerated"

    def blank(self) -> Memory:
        return {"moved": np.zeros(self.width), "lead": np.zeros(1), "t": np.ones(1)}

    def query(self, w: Array) -> Array:
        lead = float(self.memory["lead"][0])
        return w + lead * self.memory["moved"] if lead else w

    @unbounded
    def step(self, w: Array, gradient: Array, rate: float, prox: Prox) -> Array:
        at = self.query(w)
        new = proximal_step(at, gradient, rate, prox)
        moved, t = new - w, float(self.memory["t"][0])
        if float(((at - new) * moved).sum()) > 0:
            self.reset()
        else:
            longer = (1 + math.sqrt(1 + 4 * t * t)) / 2
            self.memory = {"moved": moved, "lead": np.array([(t - 1) / longer]), "t": np.array([longer])}
        return new

    def safe_rate(self, curvature: float, scale: float) -> float:
        """1 / L with L of all rows; with the longest lead it is stable up to 4 / (3 L), room for an estimated L."""
        return _inverse(curvature)


class Careful(Accelerated):
    """The same where L is known near some points only: it is looked at along every move, and steps get shorter.

    With gradients g of full passes at queries q, (g - g-)'(q - q-) / |q - q-|^2 is the curvature between two of them.
    Where that is more than 1 / (share * rate), `share` is halved until it is not. Moves that are too small to tell
    curvature from rounding are not looked at.
    """

    name = "careful"

    def blank(self) -> Memory:
        last = {"at": np.zeros(self.width), "slope": np.zeros(self.width), "known": np.zeros(1)}
        return {**super().blank(), **last, "share": np.ones(1)}

    @unbounded
    def step(self, w: Array, gradient: Array, rate: float, prox: Prox) -> Array:
        at, share = self.query(w), self._share(self.query(w), gradient, rate)
        new = proximal_step(at, gradient, rate * share, prox)
        moved, t = new - w, float(self.memory["t"][0])
        lead, longer = 0.0, 1.0
        if float(((at - new) * moved).sum()) <= 0 and share == float(self.memory["share"][0]):
            longer = (1 + math.sqrt(1 + 4 * t * t)) / 2
            lead = (t - 1) / longer
        self.memory = {
            "moved": moved if lead else np.zeros(self.width), "lead": np.array([lead]), "t": np.array([longer]),
            "at": at, "slope": gradient, "known": np.ones(1), "share": np.array([share]),
        }  # fmt: skip
        return new

    def _share(self, at: Array, gradient: Array, rate: float) -> float:
        share, apart = float(self.memory["share"][0]), at - self.memory["at"]
        far = float((apart * apart).sum())
        if not self.memory["known"][0] or far <= TELLING**2 * float((at * at).sum()):
            return share
        curved = float(((gradient - self.memory["slope"]) * apart).sum())
        while curved * rate * share > far * (1 + TELLING) and share > LEAST_SHARE:
            share /= 2
        return share


STEP_RULES: dict[str, type[StepRule]] = {rule.name: rule for rule in (SGD, Momentum, AdaGrad, Adam, AdamW)}


def schedule(
    name: str, rate: float, *, epoch: float, epochs: int, warmup: float, decay: float, decay_every: float
) -> float:
    """The rate at a (fractional) epoch, from 0 to `epochs`; a pure function, so that a resumed run goes on with it.

    First `warmup` epochs of linear growth from WARM_START * rate. Then, with x = (epoch - warmup) / decay_every:

        constant     rate
        step         rate * decay^floor(x)
        exponential  rate * decay^x
        inverse      rate / (1 + (1 / decay - 1) x)         the 1/t that stochastic gradients need to converge
        cosine       rate * (1 + cos(pi * share)) / 2       share of the epochs after warm-up, 0 at the last

    so `decay` is for three of them what is left of the rate after `decay_every` epochs.
    """
    _check_schedule(name, decay, decay_every)
    if epoch < warmup:
        return rate * (WARM_START + (1 - WARM_START) * max(epoch, 0.0) / warmup)
    since = epoch - warmup
    x = since / decay_every
    if name == "step":
        return rate * decay ** math.floor(x)
    if name == "exponential":
        return float(rate * decay**x)
    if name == "inverse":
        return rate * decay / (decay + (1 - decay) * x)
    if name == "cosine" and epochs > warmup:
        return rate * (1 + math.cos(math.pi * min(1.0, since / (epochs - warmup)))) / 2
    return rate


def batch_curvature(n: int, batch: int, top: float, row: float) -> float:
    """L of batches of B = `batch` rows: E[H_B^2] <= L H with H_B = X_B'X_B / B of a batch, H = Xs'Xs / n of all rows.

        L(B) = n (B - 1) / (B (n - 1)) * top + (n - B) / (B (n - 1)) * row

    for B rows drawn without replacement (Gower et al. 2019, "SGD: general analysis and improved rates").
    top: the largest eigenvalue of H; row: the largest squared norm of a row of Xs. L(1) = row, L(n) = top.
    """
    size = min(max(batch, 1), n)
    if size >= n:
        return top
    return (n * (size - 1) * top + (n - size) * row) / (size * (n - 1))


def stale_rate(rate: float, staleness: float) -> float:
    """rate / (1 + staleness), for a gradient that is `staleness` versions old (Zhang et al. 2016).

    Gradient descent with delay d on curvature L is stable for rates under 2 sin(pi / (4 d + 2)) / L, which falls like
    pi / (2 d L): a rate that is safe without delay stays so if it falls as fast, and 1 / (1 + d) is under that bound
    for every d when rate <= 1 / L.
    """
    return rate / (1 + max(staleness, 0.0))


def _check_schedule(name: str, decay: float, decay_every: float) -> None:
    if name not in SCHEDULES:
        raise ConfigError(f"Expected a schedule out of {', '.join(SCHEDULES)}, got {name!r}. Choose one of these.")
    if not (0 < decay <= 1 and decay_every > 0):
        raise ConfigError(
            f"Expected decay to be more than 0 and at most 1, and decay_every more than 0 epochs, got {decay!r} and "
            f"{decay_every!r}. Give numbers such as 0.5 and 10."
        )


def _inverse(curvature: float) -> float:
    """1 / L; without any curvature every rate is safe."""
    return 1 / curvature if curvature > 0 else 1.0


def _steps(rate: float, root: Array, largest: float) -> Array:
    """rate / (r + EPSILON max r) for roots r (p,) in the gradient's units; 0 if there was no gradient at all yet.

    A fixed epsilon, as is usual, would stop the weights of a target that is measured in very small units.
    """
    return np.zeros_like(root) if largest == 0 else rate / np.maximum(root + EPSILON * largest, SMALLEST)
