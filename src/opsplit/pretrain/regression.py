"""Least squares on integrals between frames: which terms, with which weights.

Between two frames `u(b) - u(a) = sum_j w_j int_a^b T_j(u) dt`; the integrals follow from the terms
on the stored frames by quadrature of fourth order. Everything is compared mode by mode, on modes
that hold more than rounding or noise, so that high derivatives do not amplify either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from opsplit.fourier import spectrum_of
from opsplit.grid import Grid
from opsplit.operators.spectral.filters import filter_symbol
from opsplit.operators.spectral.products import Products, parse
from opsplit.pretrain.library import Atom
from opsplit.pretrain.limit import Limit
from opsplit.search.screen import integration_weights

FLOOR = 1e-5
"""Modes whose amplitude is below this share of the largest are left out."""
NOISE = 5.0
"""Modes must stand out of the median of the upper third by this factor."""
ROUNDING = 2e-7
"""Changes below this share of the field are rounding of stored numbers."""
QUIET = 0.1
"""Transitions that change less than this share of the usual change count less."""
WORTH = 0.9
"""One more term must leave less than this share of what was left before."""
NEARLY = 1.25
"""A structure with fewer terms is taken where it leaves at most this much more."""
NEGLIGIBLE = 1e-10
"""Shares of the squared change that nobody explains: stored numbers are rounded."""
FEW = 24
"""So many candidates, or fewer, are also tried all at once, and those not needed dropped."""
MOST = 3_000_000
"""Numbers of all terms on all frames that are held at once."""


@dataclass(frozen=True)
class Units:
    """Units of an operator that come from the data."""

    wavenumber: float
    centre: tuple[float, ...] = ()
    """Mean of every channel, where it is large against the deviations (empty: 0)."""


@dataclass(frozen=True)
class Moments:
    """Inner products of terms and changes, for every environment and channel.

    `gram` `(E, C, J, J)`, `share` `(E, C, J)`, `whole` `(E, C)`.
    """

    gram: Tensor
    share: Tensor
    whole: Tensor

    def solve(self, channel: int, chosen: Sequence[int]) -> Tensor:
        """Best weights `(E, m)` of the chosen terms in the rate of a channel."""
        index = torch.tensor(list(chosen), dtype=torch.long)
        gram = self.gram[:, channel][:, index][:, :, index]
        size = gram.diagonal(dim1=1, dim2=2).clamp_min(1e-300).sqrt()
        even = gram / size[:, :, None] / size[:, None]
        inverse = torch.linalg.pinv(even, hermitian=True, rtol=1e-13)
        return torch.einsum("eij,ej->ei", inverse, self.share[:, channel, index] / size) / size

    def left(self, channel: int, chosen: Sequence[int], weights: Tensor) -> Tensor:
        """What these weights leave `(E,)`, as a share of the change of all channels, squared."""
        index = torch.tensor(list(chosen), dtype=torch.long)
        gram = self.gram[:, channel][:, index][:, :, index]
        explained = 2 * (weights * self.share[:, channel, index]).sum(1)
        explained = explained - torch.einsum("ei,eij,ej->e", weights, gram, weights)
        rest = (self.whole[:, channel] - explained).clamp_min(0)
        return rest / self.whole.sum(1).clamp_min(1e-300)


@dataclass(frozen=True)
class Choice:
    """Terms of one channel that explain a mechanism, and what they leave on unseen fields."""

    terms: tuple[int, ...]
    left: float
    """Mean over environments of the unexplained share of the change, squared."""


def select(fit: Moments, held_out: Moments, channel: int, allowed: Sequence[int]) -> Choice:
    """Terms chosen one by one on training fields, as many as unseen fields support.

    All environments share the terms and have their own weights.
    """
    chosen: list[int] = []
    path = [Choice((), _typical(held_out.left(channel, (), _none(held_out))))]
    while len(chosen) < min(len(allowed), 12):
        rest = [j for j in allowed if j not in chosen]
        scores = _extended(fit, channel, chosen, rest)
        chosen = [*chosen, rest[int(scores.argmin())]]
        chosen = _swapped(fit, channel, chosen, allowed)
        weights = fit.solve(channel, chosen)
        left = _typical(held_out.left(channel, chosen, weights))
        path.append(Choice(tuple(chosen), left))
        if len(path) > 3 and left > WORTH * path[-3].left:
            break
    best = min(choice.left for choice in path)
    first = next(c for c in path if c.left <= NEARLY * best + NEGLIGIBLE)
    grown = _shortened(fit, held_out, channel, first)
    if len(allowed) > FEW:
        return grown
    # Terms that help only together are never picked one by one.
    left = _typical(held_out.left(channel, allowed, fit.solve(channel, allowed)))
    shrunk = _shortened(fit, held_out, channel, Choice(tuple(allowed), left))
    return shrunk if NEARLY * shrunk.left + NEGLIGIBLE < grown.left else grown


def _typical(left: Tensor) -> float:
    """The mean; an environment in which everything fails counts as one that nothing explains."""
    return float(left.clamp_max(1.0).mean())


def _none(moments: Moments) -> Tensor:
    return moments.whole.new_zeros(len(moments.whole), 0)


def _extended(fit: Moments, channel: int, chosen: Sequence[int], rest: Sequence[int]) -> Tensor:
    """Logarithm of what is left with each of the other terms added, mean over environments."""
    index, others = (torch.tensor(list(x), dtype=torch.long) for x in (chosen, rest))
    gram, share = fit.gram[:, channel], fit.share[:, channel]
    columns = gram[:, others][:, :, index]
    own = gram.diagonal(dim1=1, dim2=2)[:, others]
    size = gram.diagonal(dim1=1, dim2=2)[:, index].clamp_min(1e-300).sqrt()
    even = gram[:, index][:, :, index] / size[:, :, None] / size[:, None]
    inverse = torch.linalg.pinv(even, hermitian=True, rtol=1e-13)
    inverse = inverse / size[:, :, None] / size[:, None]
    base = torch.einsum("eij,ej->ei", inverse, share[:, index])
    # A term that the chosen ones make up adds nothing.
    fresh = own - torch.einsum("eri,eij,erj->er", columns, inverse, columns)
    rest_share = share[:, others] - torch.einsum("eri,ei->er", columns, base)
    new = fresh > 1e-10 * own
    gain = torch.where(new, rest_share.square() / torch.where(new, fresh, 1.0), 0.0)
    explained = (share[:, index] * base).sum(1, keepdim=True) + gain
    left = (fit.whole[:, channel, None] - explained).clamp_min(0)
    left = left / fit.whole.sum(1, keepdim=True).clamp_min(1e-300)
    return (left + 1e-14).log().mean(0)


def _swapped(fit: Moments, channel: int, chosen: list[int], allowed: Sequence[int]) -> list[int]:
    """Replace earlier terms by others where that explains more: the first pick may mislead."""
    if len(chosen) < 2:
        return chosen
    for place in range(len(chosen) - 1):
        others = chosen[:place] + chosen[place + 1 :]
        rest = [j for j in allowed if j not in others]
        scores = _extended(fit, channel, others, rest)
        best = int(scores.argmin())
        if rest[best] != chosen[place] and scores[best] < scores[rest.index(chosen[place])] - 0.1:
            chosen = [*others[:place], rest[best], *others[place:]]
    return chosen


def _shortened(fit: Moments, held_out: Moments, channel: int, choice: Choice) -> Choice:
    """Drop terms as long as unseen fields do not miss them."""
    terms, left = list(choice.terms), choice.left
    while len(terms) > 1:
        shorter = []
        for j in terms:
            rest = [i for i in terms if i != j]
            found = held_out.left(channel, rest, fit.solve(channel, rest))
            shorter.append((_typical(found), rest))
        least, rest = min(shorter)
        if least > NEARLY * left + NEGLIGIBLE:
            break
        terms, left = rest, min(left, least)
    return Choice(tuple(terms), left)


def moments(
    environments: Sequence[Tensor], atoms: Sequence[Atom], grid: Grid, dt: float, units: Units,
    limit: Limit | None = None,
) -> Moments | None:  # fmt: skip
    """Inner products over trajectories `(trajectory, time, channel, *space)` of environments.

    None once it is foreseen that the time does not suffice.
    """
    limit = limit or Limit()
    began, parts = limit.left(), []
    for done, u in enumerate(environments):
        # Environments take about as long as those before them.
        usual = (began - limit.left()) / done if done else 0.0
        if limit.end < math.inf and limit.left() < usual * (len(environments) - done):
            limit.hit = True
            return None
        parts.append(_environment(u.double(), atoms, grid, dt, units))
    gram, share, whole = (torch.stack(x) for x in zip(*parts, strict=True))
    return Moments(gram, share, whole)


def _environment(
    u: Tensor, atoms: Sequence[Atom], grid: Grid, dt: float, units: Units
) -> tuple[Tensor, Tensor, Tensor]:
    spectrum = spectrum_of(u, grid.ndim)
    count = (mode_counts(grid).to(u) * resolved_modes(spectrum, grid)).flatten()
    kept = count > 0
    root = count[kept].sqrt()
    few = max(1, MOST // max(1, len(atoms) * int(kept.sum()) * u.shape[1]))
    u, spectrum = u[:few], spectrum[:few]
    modes = spectrum.flatten(3)[..., kept] * root
    change = modes[:, 1:] - modes[:, :-1]
    # Every transition counts alike, however much the field changes in it; rounding does not count.
    size = change.abs().square().sum((2, 3))
    rounding = ROUNDING**2 * modes[:, 1:].abs().square().sum((2, 3))
    weight = (size + rounding + QUIET**2 * size.mean()).clamp_min(1e-300).rsqrt()
    change = change * weight[..., None, None]
    quadrature = integration_weights(torch.arange(u.shape[1]).double()) * dt
    products = _products(spectrum, atoms, grid, units, kept) * root
    gram, share = [], []
    for c in range(u.shape[2]):
        features = []
        for j, atom in enumerate(atoms):
            if atom.linear:
                symbol = filter_symbol(atom.text, grid, units.wavenumber, u).flatten()[kept]
                features.append(symbol * modes[:, :, c])
            else:
                features.append(products[:, :, j])
        held = torch.stack(features)
        held = torch.einsum("tf,jnfm->jntm", quadrature + 0j, held) * weight[..., None]
        flat = torch.view_as_real(held).flatten(1)
        gram.append(flat @ flat.T)
        share.append(flat @ torch.view_as_real(change[:, :, c].contiguous()).flatten())
    return torch.stack(gram), torch.stack(share), change.abs().square().sum((0, 1, 3))


def _products(
    spectrum: Tensor, atoms: Sequence[Atom], grid: Grid, units: Units, kept: Tensor
) -> Tensor:
    """Modes of all products `(trajectory, time, term, mode)`; zero for linear terms."""
    out = spectrum.new_zeros(*spectrum.shape[:2], len(atoms), int(kept.sum()))
    named = [(j, atom.text) for j, atom in enumerate(atoms) if not atom.linear]
    if not named:
        return out
    unit = units.wavenumber
    bank = Products(tuple(text for _, text in named), dealias=1.0, centre=units.centre)
    weights = torch.zeros(1, spectrum.shape[2], len(named), dtype=torch.float64)
    tensors = bank.prepare({"products": weights}, grid, unit)
    for place, (j, text) in enumerate(named):
        value = bank.evaluate(tensors, spectrum.flatten(0, 1)[None], grid, [place])[0, :, 0]
        modes = spectrum_of(value, grid.ndim) * filter_symbol(parse(text).outer, grid, unit, value)
        out[:, :, j] = modes.flatten(1)[:, kept].unflatten(0, spectrum.shape[:2])
    return out


def mode_counts(grid: Grid) -> Tensor:
    """How often every stored mode of a real field stands in its full spectrum, once or twice."""
    n = grid.shape[-1]
    twice = torch.full((n // 2 + 1,), 2.0, dtype=torch.float64)
    twice[0] = 1.0
    if n % 2 == 0:
        twice[-1] = 1.0
    return twice.expand(*grid.shape[:-1], -1).contiguous()


def resolved_modes(spectrum: Tensor, grid: Grid) -> Tensor:
    """Modes that hold more than rounding and noise, of spectra `(..., channel, *modes)`."""
    size = spectrum.abs().flatten(0, 1).square().mean(0)
    size = (size / size.flatten(1).sum(1).clamp_min(1e-300).reshape(-1, *[1] * grid.ndim)).sum(0)
    amplitude = size.sqrt()
    upper = amplitude.flatten().sort().values[: max(1, amplitude.numel() // 3)]
    largest = amplitude.flatten()[1:].max().clamp_min(1e-300)
    return amplitude > torch.maximum(FLOOR * largest, NOISE * upper.median())
