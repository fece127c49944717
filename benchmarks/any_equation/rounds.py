"""What the page says about the rounds of other equations."""

from __future__ import annotations

FIRST_LOOK = """The first round was a blind test once. A first look at it, at commit 4d13ec2 with
four of the test trajectories and without an encoder, was not stored. It showed these problems,
which were then worked on:

- Two channels: the same feature stood twice in the library (a derivative of the channel itself,
  once as a linear term and once as a product). Diffusion was taken as a product, and structure
  learning took minutes.
- `kdv-burgers-si`: trajectories of pure advection steepen into shocks after a few frames. Two
  environments were learned from unresolved frames, and the coefficient `a` missed its target.
- `fractional-fisher`: no fractional derivative was among the candidates; `D` missed its target.
- `warm-channel`: forecasts were right, but the terms were not printed, and a note compared the
  field of size 300 with its deviations.

Candidates for `sine-reaction` and `chemotaxis` were added before these two were measured. So the
numbers of the first round are not those of a blind test."""
SECOND_ROUND = """Second round: equations that were written down after these changes, and their
first measurement, which is kept. Nothing was changed between the two."""
AFTER = """Second round, measured again after later changes; no longer a blind test. `thin-film`
was weak until products with high derivatives could be formed of fewer modes."""
THIRD_ROUND = """Third round: equations that were written down to find weaknesses; some have noise
of 0.5 % in their training data or few trajectories. `generalized-kdv`, `beta-plane`, `benney` and
`quadratic-recovery` led to changes, and two test trajectories of most equations were seen before
these rows were measured: no blind test."""
FOURTH_ROUND = """Fourth round, first measurement: what a stranger may bring. The equations were
written down before any of them was run, and the rows are kept as they came. `nanochannel` (a box
of 1e-6, frames 1e-9 apart, fields of 1e20, 12 frames, 32 points) has 4 values of every coefficient
with 2 trajectories each; `grazing-2d` and `warm-plate` lie on grids that are not square, the
latter with a mean of 298, 3 values of every coefficient and noise of 1 % in the training frames;
`allee-front` has 512 points and coefficients of both signs; in the training data of `mixture` all
coefficients act at once; `coarse-bistable` has frames far apart; the last two lie between walls
(insulated, and fixed at zero; of the last only the later row was measured). `gierer-meinhardt`,
`grazing-2d`, `camassa-holm` and `rosenau` hold
terms that no candidate had. The machine was shared with other work, so that a minute of training
was much less than a minute of one core."""
FOURTH_AFTER = """What the first measurement showed was changed, for all data alike: data with fewer
frames than a context of the encoder were refused, although a structure needs six (`nanochannel`);
squares of fields of 1e20 overflowed; mechanisms that always act together are told apart where
their coefficients vary independently (`mixture`); fields between walls are continued beyond them
by symmetry, as forecasts always did, instead of training a network (`insulated-fisher`,
`clamped-allen-cahn`); reactions with a denominator are candidates (`gierer-meinhardt`,
`grazing-2d`, and `monod` above); among structures that are equally good the one with fewest terms
is taken; strengths are refined as long as that gets on (frames far apart, `coarse-bistable`, not
measured again). Fields of 1e20 train now, but forecasts of them still overflow and are called
unexplained (`nanochannel`). Where the minute was over before all structures were tried
(`gierer-meinhardt`), the verdict says so. One word for the boundary of an array with two axes was
refused, so that the first rows of
`grazing-2d` and `warm-plate` were measured with one word per axis. `camassa-holm`, `rosenau` and
`warm-plate` stay as they are: their verdicts say that they are weak. The rows were measured again
after these changes; no longer a blind test."""
FIFTH_ROUND = """Fifth round, first measurement. The equations were written down before any of them
was run, and the rows are kept as they came; `hot-rod` was simulated again before its first
training, with smaller steps, because the solver lost half of its test trajectories. `hot-rod` has
a mean of 300, noise of 1 % in the training frames and 4 values of every coefficient;
`landau-lifshitz` and `lorenz-line` have three channels, `burgers-3d` three channels in three
dimensions (the last two were not measured for want of time); `nano-mkdv` is measured in metres
and seconds, in a box of 2e-7; `growing-surface` has
a constant rate and coefficients of both signs; `epitaxy` lies between insulated walls; in the
training data of `threshold-mixture` all coefficients act at once. No structure has the cube of a
slope (`epitaxy`), the exponential (`ignition`) or the neighbourhood (`distant-fisher`). The machine
was shared: a minute of training was about 15 seconds of one core."""
FIFTH_AFTER = """What the first measurement showed was changed, for all data alike: structures are
compared by the error beyond the noise in the frames. Before, noise made a structure that lacks a
term seem nearly as good as the right one (`hot-rod`). Forecasts of whole unseen trajectories count
for the verdict on training, so that errors that grow are called weak. Fluxes of the slope are
candidates since then (`epitaxy`), and means of a neighbourhood later (`distant-fisher`). A row
that was measured again after these changes is no blind test. The coefficients of
`rosenzweig-macarthur` and `hot-rod` are off by more than 2 % without a note on the forecast."""
SIXTH_ROUND = """Sixth round, first measurement. The equations were written down before any of
them was run, and the rows are kept as they came. `my-equation` is the example that the whole task
began with: a reaction and diffusion, 20 environments, 128 points, a name that says nothing. The
others have cross-diffusion (`rival-diffusion`), a velocity by half an inverse Laplacian
(`quasi-geostrophic`), an inverse derivative (`rotating-waves`), fluxes that are no polynomials
(`soil`), kilometres and hours with steep fronts (`traffic`), two large means and 8 environments
of 2 trajectories each (`lake`), three dimensions (`prey-3d`), noise of 1 % (`budworm`,
`levy-flights`), walls and two channels (`walled-autocatalysis`). No structure had the inverse of
`1 - d_xx` (`long-waves`), the square in a denominator (`budworm`), the velocity of
`quasi-geostrophic` or the power 1.3 (`levy-flights`). A minute of training was one of processor
time, as other work shared the machine, and the encoder made 20 steps."""
SIXTH_AFTER = """What the first measurement showed was changed, for all data alike: inverses of
`1 - c lap` and of `1 + c lap^2`, with the length `c` by evidence, are candidates, and are preferred
to many linear terms that act like them on a few modes only; so are velocities by half an inverse
Laplacian, squares in denominators, and fluxes up to the degree 6; the number in a denominator is
found to a thousandth. `budworm` and `levy-flights`, where noise makes 30 to 70 % of the change of
a step, were measured again when noise was taken out of training frames, with two minutes of
processor time. A row that was measured again after these changes is no blind test."""
SEVENTH_ROUND = """Seventh round, first measurement. The equations were written down before any of
them was run, and the rows are kept as they came. A minute of training was one of processor time,
two were allowed, and the encoder made 20 steps. They have small viscosity (`burgers-huxley`), stiff
kinetics with a denominator (`oregonator`), a flux that saturates (`keller-segel`, whose file says
its terms), a sine beside a second channel (`sine-gordon`), derivatives of sixth order
(`nikolaevskiy`), drift waves and magnetic fields on a plane (`hasegawa-mima`, `magnetic-plane`),
four channels in a NetCDF file (`seir`), pascals and millimetres around one atmosphere with one
trajectory per value (`pore-gas`), ten frames far apart (`coarse-prey`), noise of 0.5 % on 127
points (`noisy-stripes`), a folder of CSV files of different lengths (`counter-flow`), and mixtures
on a plane that is not square (`invasion`). No structure had the flux of `keller-segel`, the
brackets of `hasegawa-mima` and `magnetic-plane`, or powers of one of two channels above the fifth
(`sine-gordon`)."""
SEVENTH_AFTER = """What the first measurement showed was changed, for all data alike. Noise is taken
out of the training frames, mode by mode, before terms are chosen (`noisy-stripes`; of the sixth
round `budworm` and `levy-flights`). Fluxes that saturate, brackets with a curvature and high powers
of one of several channels are candidates. An axis called `run` is one of trajectories, and many
candidates of four channels are compared in groups: `seir` was refused before, for its axis had been
read as space. `counter-flow` calls a coefficient `x` as the axis of its tables; in a table such a
line is still no coefficient, and a warning says at the start of the training that trajectories
change although none acts. A row that was measured again after these changes is no blind test."""
