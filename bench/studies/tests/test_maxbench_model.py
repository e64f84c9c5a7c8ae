"""The parts of MaxBench's model on data of known parameters: fits, characteristics, limits, selections."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from warpmill_bench.maxbench import characteristics, fits, limits
from warpmill_bench.maxbench.fits import FitError, Handling, Line, Link

SIZES = [4e3, 6.4e4, 1e6, 1.6e7, 2.5e8, 4e9]

positive = st.floats(1e-3, 1e3)


@given(bmax=st.floats(1e8, 1e12), s0=st.floats(1e2, 1e9))
def test_a_link_is_found_again(bmax: float, s0: float) -> None:
    true = Link(bmax, s0)
    found = fits.link(SIZES, true.seconds(SIZES).tolist())
    assert found.bmax == pytest.approx(bmax, rel=1e-5)
    # s0 shows in small transfers only: it is as exact as the part that it has of the smallest one.
    assert found.s0 == pytest.approx(s0, rel=1e-4, abs=1e-3)
    assert found.bandwidth(found.s0) == pytest.approx(found.bmax / 2)
    assert found.bandwidth(found.size_at(0.9)) == pytest.approx(0.9 * found.bmax)
    assert float(found.seconds(0)) == 0.0
    # Each of several copies has its own s0.
    assert float(true.seconds(1e6, 10)) == pytest.approx(10 * float(true.seconds(1e5)))


@given(bmax=st.floats(1e9, 1e12), s0=st.floats(1e3, 1e8), seed=st.integers(0, 1000))
def test_noise_moves_a_link_as_little_as_it_is_itself(bmax: float, s0: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = np.repeat(SIZES, 20)
    seconds = Link(bmax, s0).seconds(sizes) * random.uniform(0.97, 1.03, sizes.size)
    found = fits.link(sizes.tolist(), seconds.tolist())
    predicted = found.seconds(SIZES)
    assert np.abs(predicted / Link(bmax, s0).seconds(SIZES) - 1).max() < 0.03


@given(a=st.floats(1e-12, 1e-6), b=st.floats(0, 1.0))
def test_a_line_is_found_again(a: float, b: float) -> None:
    found = fits.line(SIZES, Line(a, b).seconds(SIZES).tolist())
    assert found.seconds(SIZES) == pytest.approx(Line(a, b).seconds(SIZES), rel=1e-6)
    assert found.a >= 0
    assert found.b >= 0


@given(st.lists(st.tuples(st.floats(1, 1e9), st.floats(1e-6, 10)), min_size=2, max_size=8))
def test_bounds_hold_and_no_line_within_them_is_better(points: list[tuple[float, float]]) -> None:
    sizes, seconds = (np.array(values) for values in zip(*points, strict=True))
    assume(len(np.unique(sizes)) > 1)
    found = fits.line(sizes.tolist(), seconds.tolist())
    assert found.a >= 0
    assert found.b >= 0

    def error(line: Line) -> float:
        return float((((line.seconds(sizes) - seconds) / seconds) ** 2).sum())

    best = error(found)
    for a, b in ((1.01, 1.0), (0.99, 1.0), (1.0, 1.01), (1.0, 0.99)):
        assert error(Line(found.a * a, found.b * b)) >= best - 1e-6 * (1 + best)


def test_what_does_not_determine_a_curve_is_refused() -> None:
    with pytest.raises(FitError, match="1 size: a line needs two"):
        fits.line([5.0, 5.0], [1.0, 2.0])
    with pytest.raises(FitError, match="2 sizes for 1 times"):
        fits.line([1.0, 2.0], [1.0])
    with pytest.raises(FitError, match="more than 0"):
        fits.line([1.0, 2.0], [0.0, 1.0])
    with pytest.raises(FitError, match="more than 0"):
        fits.line([1.0, 2.0], [float("nan"), 1.0])
    with pytest.raises(FitError, match="do not grow"):
        fits.link([1.0, 2.0], [2.0, 1.0])
    # A time that does not depend on size has no slope, and is no error.
    assert fits.line([1.0, 2.0, 4.0], [3.0, 3.0, 2.9]).a == 0.0


@given(st.floats(0, 1), st.floats(0, 1), st.lists(st.tuples(positive, positive), min_size=3, max_size=20))
def test_handling_is_found_again(part: float, each: float, times: list[tuple[float, float]]) -> None:
    computing, copying = (np.array(values) for values in zip(*times, strict=True))
    copies = np.arange(1.0, len(times) + 1)
    true = Handling(part, each)
    total = true.total(computing, copying, copies)
    found = fits.handling(computing.tolist(), copying.tolist(), copies.tolist(), total.tolist())
    # Short times do not determine both: their sum is what matters.
    assert found.total(computing, copying, copies) == pytest.approx(total, rel=1e-6)
    alone = fits.handling(computing.tolist(), copying.tolist(), [0.0] * len(times), (total - each * copies).tolist())
    assert alone.overlap == pytest.approx(part, abs=1e-6)
    assert alone.each == 0.0


def test_handling_keeps_its_bounds() -> None:
    assert fits.handling([1.0], [1.0], [0.0], [3.0]) == Handling(0.0, 0.0)
    assert fits.handling([2.0], [1.0], [1.0], [0.5]) == Handling(1.0, 0.0)
    later = fits.handling([1.0, 1.0], [1.0, 1.0], [1.0, 2.0], [3.0, 4.0])
    assert (later.overlap, later.each) == pytest.approx((0.0, 1.0))
    with pytest.raises(FitError, match="no run has copies"):
        fits.handling([], [], [], [])


@given(
    st.lists(st.floats(0.1, 10), min_size=3, max_size=3),
    st.lists(st.tuples(positive, positive), min_size=4, max_size=12, unique=True),
)
def test_parts_of_times_are_found_again_and_never_negative(
    weights: list[float], rows: list[tuple[float, float]]
) -> None:
    columns = np.array([(*row, 1.0) for row in rows])
    found = fits.parts(columns.tolist(), (columns @ weights).tolist())
    assert columns @ found == pytest.approx(columns @ weights, rel=1e-5)
    falling = fits.parts([(1.0, 1.0), (2.0, 1.0), (3.0, 1.0)], [3.0, 2.0, 1.0])
    assert (falling >= 0).all()
    assert falling[0] == 0.0


@given(
    st.lists(st.floats(1e-12, 1e-7), min_size=2, max_size=12),
    st.lists(st.floats(1.0, 100.0), min_size=1, max_size=6),
)
def test_characteristics_of_rank_one_are_found_again(complexity: list[float], speeds: list[float]) -> None:
    efficiency = np.array(speeds) / min(speeds)
    slopes = np.outer(complexity, 1 / efficiency)
    queries, devices = [f"q{at}" for at in range(len(complexity))], [f"d{at}" for at in range(len(speeds))]
    found = characteristics.characterize(slopes, queries, devices)
    assert found.complexity == pytest.approx(np.array(complexity), rel=1e-6)
    assert found.efficiency == pytest.approx(efficiency, rel=1e-6)
    assert found.share == pytest.approx(1.0)
    assert found.largest_error < 1e-6
    assert found.slope("q1", "d0") == pytest.approx(slopes[1, 0])


@given(seed=st.integers(0, 500))
def test_missing_entries_follow_from_the_others(seed: int) -> None:
    random = np.random.default_rng(seed)
    complexity, efficiency = random.uniform(1e-11, 1e-9, 8), np.array([1.0, 2.0, 5.0])
    true = np.outer(complexity, 1 / efficiency)
    holes = true.copy()
    # One hole a row at most, and each device is connected to the others through complete rows.
    for row in range(4):
        holes[row, random.integers(0, 3)] = np.nan
    found = characteristics.characterize(holes, [str(at) for at in range(8)], ["a", "b", "c"])
    assert np.outer(found.complexity, 1 / found.efficiency) == pytest.approx(true, rel=1e-6)


def test_a_matrix_of_rank_two_is_said_to_be_none_of_rank_one() -> None:
    slopes = np.array([[1.0, 4.0], [4.0, 1.0], [2.0, 2.0]])
    found = characteristics.characterize(slopes, ["a", "b", "c"], ["x", "y"])
    assert found.largest_error > 0.5
    assert found.share < 0.9
    assert found.errors_by_rank[0] == pytest.approx(found.median_error)
    assert found.errors_by_rank[1] == pytest.approx(0, abs=1e-9)
    assert characteristics.of_rank(slopes, 2) == pytest.approx(slopes)
    assert np.abs(characteristics.of_rank(slopes, 1) / slopes - 1).max() > 0.5


def test_slopes_that_are_none_are_refused() -> None:
    with pytest.raises(FitError, match="no slope of query 'b'"):
        characteristics.characterize(np.array([[1.0, 2.0], [np.nan, np.nan]]), ["a", "b"], ["x", "y"])
    with pytest.raises(FitError, match="more than 0"):
        characteristics.characterize(np.array([[1.0, 0.0]]), ["a"], ["x", "y"])
    with pytest.raises(FitError, match="for 1 queries and 1 devices"):
        characteristics.characterize(np.array([[1.0, 2.0]]), ["a"], ["x"])
    with pytest.raises(FitError, match="no probe"):
        characteristics.efficiency_by_probes(np.array([1.0]), np.array([np.nan]))


def test_probes_tell_how_fast_a_device_is() -> None:
    complexity = np.array([1.0, 2.0, 3.0])
    assert characteristics.efficiency_by_probes(complexity, complexity / 4) == pytest.approx(4)
    assert characteristics.efficiency_by_probes(complexity, np.array([0.5, np.nan, 0.75])) == pytest.approx(8**0.5)


@given(slope=st.floats(1e-12, 1e-8), bandwidth=st.floats(1e9, 1e12), factor=st.floats(1.1, 10))
def test_limits_are_what_large_sizes_come_to(slope: float, bandwidth: float, factor: float) -> None:
    size, line, link = 1e18, Line(slope, 0.01), Link(bandwidth, 1e6)
    copying, computing = float(link.seconds(size)), float(line.seconds(size))
    assert limits.transfer_share(slope, bandwidth) == pytest.approx(copying / (copying + computing), rel=1e-6)
    faster = Link(bandwidth * factor, 1e6)
    after = float(faster.seconds(size)) + computing / 2
    measured = (copying + computing) / after
    assert limits.speedup((slope, bandwidth), (slope / 2, bandwidth * factor)) == pytest.approx(measured, rel=1e-6)


def test_a_workload_copies_inputs_or_the_data_set() -> None:
    work = limits.Workload((0.5, 0.25), (2e-11, 4e-11))
    assert work.computing == pytest.approx(2e-11)
    assert work.transfer_share(1e10) == pytest.approx(7.5e-11 / 9.5e-11)
    assert work.transfer_share(1e10, per_data_set=True) == pytest.approx(1e-10 / 1.2e-10)
    # At the crossing both take half.
    assert work.transfer_share(work.crossing()) == pytest.approx(0.5)
    assert work.transfer_share(work.crossing(per_data_set=True), per_data_set=True) == pytest.approx(0.5)
    assert work.on(2.0).computing == pytest.approx(1e-11)
    assert np.all(np.diff(work.transfer_share(np.array([1e9, 1e10, 1e11]))) < 0)


@given(kept=st.floats(0.01, 1), filtering=st.floats(1e-12, 1e-9), bandwidth=st.floats(1e9, 1e12))
def test_a_selection_pays_below_its_break_even(kept: float, filtering: float, bandwidth: float) -> None:
    selection, link, size = limits.Selection(kept, filtering), Link(bandwidth, 0.0), 1e12
    gain = float(link.seconds(size)) - float(selection.seconds(size, link))
    assume(abs(bandwidth / selection.break_even - 1) > 1e-6 if selection.break_even > 0 else True)
    assert (gain > 0) == (bandwidth < selection.break_even)
    assert float(selection.perceived(size, link)) == pytest.approx(size / float(selection.seconds(size, link)))


def test_sigma_depends_on_size() -> None:
    assert limits.kept_at([10.0, 1.0], [0.2, 0.1], 5.5) == pytest.approx(0.15)
    assert limits.kept_at([10.0, 1.0], [0.2, 0.1], 100.0) == 0.2
    assert limits.Selection(0.5, 0.0).break_even == np.inf
