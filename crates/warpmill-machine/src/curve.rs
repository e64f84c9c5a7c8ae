//! Models of one variable fitted to measurements: the bandwidth of a link, and the time of an operator.

use serde::{Deserialize, Serialize};

/// The bandwidth of a link or a drive by the size of a transfer: `B(s) = bandwidth * s / (s + half)` (MaxBench, section 4).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Bytes per second of long transfers.
    pub bandwidth: f64,
    /// Size of a transfer, in bytes, that reaches half of the bandwidth.
    pub half: f64,
}

impl Curve {
    /// The same bandwidth for transfers of any size.
    pub const fn flat(bandwidth: f64) -> Self {
        Self { bandwidth, half: 0.0 }
    }

    /// Seconds of a transfer of `bytes` bytes.
    pub fn seconds(&self, bytes: f64) -> f64 {
        if bytes > 0.0 { (bytes + self.half) / self.bandwidth } else { 0.0 }
    }

    /// Fits a curve to transfers of known sizes (bytes) and times (seconds); `None` if they determine no bandwidth.
    pub fn fit(transfers: &[(f64, f64)]) -> Option<Self> {
        let Line { slope, start } = Line::fit(transfers)?;
        Some(Self { bandwidth: 1.0 / slope, half: (start / slope).max(0.0) })
    }
}

/// The time of an operation by its size: `T(s) = slope * s + start` (MaxBench, section 4).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Seconds per unit of size.
    pub slope: f64,
    /// Seconds for size 0.
    pub start: f64,
}

impl Line {
    /// The line with least relative errors through `(size, seconds)` pairs, with a start of 0 or more. `None` if all sizes are equal, or if larger
    /// ones do not take longer.
    pub fn fit(points: &[(f64, f64)]) -> Option<Self> {
        if points
            .iter()
            .any(|(size, seconds)| !(*size > 0.0 && *seconds > 0.0 && size.is_finite() && seconds.is_finite()))
        {
            return None;
        }
        // Errors relative to the time: every point weighs 1/T^2. Sizes are scaled so that sums keep their digits.
        let largest = points.iter().map(|point| point.0).fold(0.0, f64::max);
        let sum = |term: &dyn Fn(f64, f64) -> f64| -> f64 {
            points.iter().map(|(size, seconds)| term(size / largest, *seconds) / (seconds * seconds)).sum()
        };
        let (w, ws, wss) = (sum(&|_, _| 1.0), sum(&|s, _| s), sum(&|s, _| s * s));
        let (wt, wst) = (sum(&|_, t| t), sum(&|s, t| s * t));
        let determinant = w * wss - ws * ws;
        if points.len() < 2 || determinant <= 1e-9 * w * wss {
            return None;
        }
        let (slope, start) = ((w * wst - ws * wt) / determinant, (wss * wt - ws * wst) / determinant);
        let (slope, start) = if start < 0.0 { (wst / wss, 0.0) } else { (slope, start) };
        (slope > 0.0).then_some(Self { slope: slope / largest, start })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn transfers_without_a_bandwidth_have_no_curve() {
        assert_eq!(Curve::fit(&[]), None);
        assert_eq!(Curve::fit(&[(1e6, 1e-3)]), None);
        assert_eq!(Curve::fit(&[(1e6, 1e-3), (1e6, 2e-3)]), None, "one size");
        assert_eq!(Curve::fit(&[(1e6, 2e-3), (2e6, 1e-3)]), None, "larger transfers are faster");
        assert_eq!(Curve::fit(&[(0.0, 2e-3), (2e6, 1e-3)]), None);
        assert_eq!(Curve::fit(&[(1e6, f64::NAN), (2e6, 1e-3)]), None);
        assert_eq!(Curve::flat(2.0).seconds(0.0), 0.0);
    }

    #[test]
    fn starts_are_not_negative() {
        let found = Line::fit(&[(1.0, 0.5), (2.0, 2.0), (4.0, 4.0)]).unwrap();
        assert!(found.start == 0.0 && found.slope > 0.5 && found.slope < 1.1, "{found:?}");
    }

    proptest! {
        #[test]
        fn curves_are_found_again(bandwidth in 1e6..1e13f64, half in 0.0..1e8f64, noise in proptest::collection::vec(-0.02..0.02f64, 8)) {
            let curve = Curve { bandwidth, half };
            let sizes = (0..8).map(|k| (64u64 << 10 << (2 * k)) as f64);
            let exact: Vec<_> = sizes.map(|size| (size, curve.seconds(size))).collect();
            let found = Curve::fit(&exact).unwrap();
            prop_assert!((found.bandwidth / bandwidth - 1.0).abs() < 1e-6);
            prop_assert!((found.half - half).abs() <= 1e-5 * half.max(64e3));
            let measured: Vec<_> = exact.iter().zip(&noise).map(|((size, time), error)| (*size, time * (1.0 + error))).collect();
            let found = Curve::fit(&measured).unwrap();
            prop_assert!(exact.iter().all(|(size, time)| (found.seconds(*size) / time - 1.0).abs() < 0.06));
        }
    }
}
