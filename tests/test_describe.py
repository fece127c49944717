"""`opsplit describe`: what it says of a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

import opsplit
from opsplit import OpsplitWarning
from opsplit.cli import main
from opsplit.hypernetwork.config import ModelConfig
from opsplit.io.survey import chosen_frames, survey
from opsplit.physics import AdvectionDiffusion
from opsplit.predict.compatibility import Code, compatibility
from opsplit.predict.describe import bundled_configs, gaps
from opsplit.trajectories import Trajectories

Cli = Callable[[str], str]


@pytest.fixture
def waves(tmp_path: Path) -> np.ndarray:
    """A travelling wave on a line of length 16, saved as `waves.npy`."""
    x, t = np.arange(256) / 16, np.arange(20) * 0.1
    u = 3 + 2 * np.sin(np.pi * (x[None] - t[:, None]) / 4)
    np.save(tmp_path / "waves.npy", u)
    return u


def test_words(cli: Cli, waves: np.ndarray) -> None:
    out = cli("describe waves.npy --dt 0.1 --extent 16")
    for words in (
        "waves.npy: npy",
        "shape: trajectory 1, time 20, channel 1, x 256",
        "Read as (time 20, x 256), a guess from the lengths.",
        "times: 0 to 1.9, dt 0.1\n",
        "x: 256 points, length 16, spacing 0.0625",
        "boundary periodic (a guess: the jump across the ends is",
        "channels (20 frames, 0 missing)",
        "u: min 1, max 5, mean 3, std 1.414, 0 NaN or infinite",
        "(spectral) explains 100.000 % of the change",
        "combined (spectral) fits in shape",
        "gray-scott (spectral) does not fit: The model knows 2-D fields, these are 1-D",
    ):
        assert words in out


def test_data(cli: Cli, waves: np.ndarray, tmp_path: Path) -> None:
    waves[3] = np.nan
    waves[5, 7:9] = np.nan, np.inf
    times = np.delete(np.arange(21) * 0.1, 10)
    np.savez(tmp_path / "a.npz", u=waves, t=times, D=0.5)
    held = json.loads(cli("describe a.npz --json"))
    assert held["shape"] == {"trajectory": 1, "time": 20, "channel": 1, "x": 256}
    assert held["times"]["gaps"] == [{"after frame": 9, "missing": 1}]
    assert not held["times"]["regular"] and held["times"]["dt"] == pytest.approx(0.1)
    assert held["missing frames"] == 1 and held["channels"]["u"]["nans"] == 2
    assert held["channels"]["u"]["max"] == pytest.approx(np.nanmax(waves[:5]), rel=1e-3)
    assert held["coefficients"] == {"D": {"min": 0.5, "max": 0.5}}
    model = held["models"]["advection-diffusion (spectral)"]
    assert model["fits"]
    assert "extent-guessed" in {issue["code"] for issue in model["issues"]}


def test_ends_that_do_not_meet(cli: Cli, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.exp(np.linspace(0, 2, 64)) * np.ones((9, 1)))
    assert "boundary not periodic (a guess: the jump across the ends is" in cli("describe a.npy")
    np.save(tmp_path / "a.npy", np.linspace(0, 1, 64) * np.ones((9, 1)))
    assert "boundary dirichlet:dirichlet=1 (a guess" in cli("describe a.npy")


def test_all_missing_is_valid_json(cli: Cli, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.full((9, 16), np.nan))
    held = json.loads(cli("describe a.npy --json"))
    assert held["missing frames"] == 9 and held["channels"]["u"]["mean"] is None


def test_models_and_their_reasons() -> None:
    configs = bundled_configs()
    line, plane = configs["advection-diffusion (unet)"], configs["gray-scott (spectral)"]
    u = np.zeros((20, 250))

    def codes(config: ModelConfig, data: opsplit.Recording) -> list[tuple[Code, bool]]:
        return [(issue.code, issue.blocks) for issue in compatibility(config, data)]

    fine = opsplit.read(u, axes="t,x", dt=0.1, extent=16, boundary="periodic")
    assert codes(line, fine) == []
    walls = opsplit.read(u, dt=0.1, extent=16, boundary="reflect")
    assert codes(line, walls) == [(Code.BOUNDARY, True)]
    assert (Code.NDIM, True) in codes(plane, fine)
    silent = opsplit.read(u, extent=16)
    assert codes(line, silent) == [(Code.DT_UNKNOWN, True)]
    square = opsplit.read(np.zeros((20, 2, 64, 64)), dt=1, extent=1, channels="A,B")
    assert codes(plane, square) == []
    turned = opsplit.read(np.zeros((20, 2, 64, 64)), dt=1, extent=1, channels="B,A")
    assert codes(plane, turned) == [(Code.CHANNEL_ORDER, False)]
    wrong = opsplit.read(np.zeros((20, 2, 64, 64)), dt=1, extent=1, channels="B,C")
    assert codes(plane, wrong) == [(Code.CHANNEL_NAMES, True)]
    other = opsplit.read(np.zeros((20, 2, 64, 64)), dt=1, extent=1, channels="X,Y")
    assert codes(plane, other) == [(Code.CHANNEL_NAMES, False)]
    far = opsplit.read(np.zeros((20, 2, 64, 64)), dt=100, extent=64)
    assert codes(plane, far) == []
    assert codes(plane, far.load()) == codes(plane, far)


def test_describe_and_fit_guess_alike(tmp_path: Path) -> None:
    """Arrays that could be a plane or several lines are read the way the model reads them."""
    u = AdvectionDiffusion().generate("A+D", 3, seed=905, frames=16).data[:, :, 0, ::4].numpy()
    assert u.shape == (3, 16, 64)
    np.save(tmp_path / "a.npy", u)
    told = {one.model: one for one in opsplit.describe(tmp_path / "a.npy", dt=10 / 99).models}
    for config in ("advection-diffusion (spectral)", "combined (spectral)"):
        issues = told[config].issues
        splitter = opsplit.OperatorSplitter(config.split(" ")[0])
        with pytest.warns(OpsplitWarning, match="Nothing says how large the box is"):
            splitter.fit(tmp_path / "a.npy", 10 / 99, trajectory=0)
        assert told[config].fits
        about = (Code.COEFFICIENT, Code.UNCERTAIN)
        found = [i.code for i in splitter.issues_ if i.code not in about]
        assert [i.code for i in issues] == found
        guess = next(i.text for i in issues if i.code is Code.EXTENT_GUESSED)
        assert guess in splitter.notes_ and splitter.coefficient_intervals_ == {}


def test_describe_takes_what_fit_takes(waves: np.ndarray) -> None:
    made = Trajectories.from_numpy(waves, dt=0.1, extent=16)
    by_array = opsplit.describe(waves, dt=0.1, extent=16, boundary="periodic").to_json()
    for data in (made, opsplit.read(made)):
        found = opsplit.describe(data).to_json()
        for key in ("shape", "times", "grid", "models", "channels"):
            assert found[key] == by_array[key]
    assert "length ?" in str(opsplit.describe(waves, dt=0.1))


@pytest.mark.parametrize(
    "times, expected",
    [
        ([0, 1, 2, 3, 4], []),
        ([0, 1, 2, 4, 5], [(2, 1)]),
        ([0, 3, 4, 5, 6, 7, 9], [(0, 2), (5, 1)]),
        ([0, 1, 2, 3.5, 4.5], []),
    ],
)
def test_gaps_are_whole_steps(
    times: list[float], expected: list[tuple[int, int]], tmp_path: Path
) -> None:
    np.savez(tmp_path / "a.npz", u=np.zeros((len(times), 16)), t=times)
    assert gaps(opsplit.read(tmp_path / "a.npz")) == expected


def test_a_large_file_is_sampled(cli: Cli, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        values = np.ones((100, 10, 2**14), np.float32)
        file.create_dataset("tensor", data=values, chunks=(1, 1, 2**14), compression="gzip")
        file["t-coordinate"], file["x-coordinate"] = np.arange(10.0), np.arange(2.0**14)
    recording = opsplit.read(tmp_path / "a.h5")
    seen = survey(recording, budget_mb=1)
    assert seen.total == 1000 and 2 <= seen.frames <= 1 / recording.frame_mb
    taken = {t for t, _ in chosen_frames(recording, 1)}
    assert {0, 99} <= taken


def test_a_sample_of_everything_is_everything() -> None:
    recording = opsplit.read(np.arange(5 * 7 * 16.0).reshape(5, 7, 16), axes="n,t,x")
    frames = [(t, i) for t, block in chosen_frames(recording, 256) for i in block]
    assert frames == [(t, i) for t in range(5) for i in range(7)]
    seen = survey(recording)
    assert seen.whole and seen.mean[0] == pytest.approx(279.5) and seen.high[0] == 559


def test_trajectories_of_our_own(cli: Cli, tmp_path: Path, waves: np.ndarray) -> None:
    made = Trajectories.from_numpy(
        np.stack([waves, waves])[:, :, None], dt=0.1, extent=16, coefficients={"c": [1, 2]}
    )
    made.save(tmp_path / "a.npz")
    out = cli("describe a.npz")
    assert "npz (trajectories)" in out and "coefficient c: 1 to 2" in out
    assert "boundary periodic (stored or given)" in out


def test_wrong_input_ends_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.zeros((9, 16)))
    for line, words in {
        "describe": "Name a file",
        "describe none.npy": "No such file: none.npy",
        "describe a.npy --axes t,q": "not understood",
        "describe a.npy --dt -1": "--dt must be a positive number",
        "describe a.npy --ndim 2": "cannot be read as fields over time",
        "check a.npy --boundary wet": "wet",
        "check a.npy --model nothing": "Unknown model 'nothing'",
    }.items():
        with pytest.raises(SystemExit) as end:
            main(line.split())
        out, err = capsys.readouterr()
        assert end.value.code == 2 and out == "" and err.count("\n") == 1 and words in err
