//! Quantiles of the normal and of Student's t distribution, for two-sided 95 % intervals.
//!
//! Source: Abramowitz and Stegun (1964), 26.7.3 and 26.7.4, the distribution for a whole number of degrees of freedom
//! as a finite sum, solved by bisection; 26.7.5, its expansion in the normal quantile, from
//! [`EXPANDED_FROM`] degrees on, where the omitted terms are below 1e-13. Deviations: none.
//!
//! Pure; nothing to cancel.

/// The 97.5 % quantile of the normal distribution.
pub(crate) const NORMAL: f64 = 1.959_963_984_540_054;
/// The probability between the two quantiles.
const COVERED: f64 = 0.95;
const EXPANDED_FROM: u32 = 1_000;

/// The 97.5 % quantile of Student's t distribution; of no degrees of freedom, infinite.
#[must_use]
pub fn student(degrees: u32) -> f64 {
    match degrees {
        0 => f64::INFINITY,
        EXPANDED_FROM.. => expanded(f64::from(degrees)),
        _ => solved(degrees),
    }
}

fn solved(degrees: u32) -> f64 {
    // 12.7 of one degree is the largest.
    let (mut low, mut high) = (NORMAL, 13.0);
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            return middle;
        }
        if within(middle, degrees) < COVERED { low = middle } else { high = middle }
    }
}

/// The probability of a value between -t and t.
fn within(t: f64, degrees: u32) -> f64 {
    let angle = (t / f64::from(degrees).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    // Each term is the one before times the square of the cosine and (number - 1) / number, for every second number.
    let is_odd = degrees % 2 == 1;
    let (mut term, first) = if is_odd { (cosine, 3) } else { (1.0, 2) };
    let mut sum = if degrees == 1 { 0.0 } else { term };
    for number in (first..degrees).step_by(2) {
        term *= cosine * cosine * f64::from(number - 1) / f64::from(number);
        sum += term;
    }
    if is_odd { (angle + sine * sum) * std::f64::consts::FRAC_2_PI } else { sine * sum }
}

fn expanded(degrees: f64) -> f64 {
    let z = NORMAL;
    let power = |exponent: i32| z.powi(exponent);
    z + (power(3) + z) / (4.0 * degrees)
        + (5.0 * power(5) + 16.0 * power(3) + 3.0 * z) / (96.0 * degrees.powi(2))
        + (3.0 * power(7) + 19.0 * power(5) + 17.0 * power(3) - 15.0 * z) / (384.0 * degrees.powi(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Golden {
        quantiles: Vec<Case>,
    }

    #[derive(serde::Deserialize)]
    struct Case {
        degrees: u32,
        quantile: f64,
    }

    /// By scipy, in `ci/golden/report.py`.
    #[test]
    fn quantiles_are_those_of_scipy() {
        let golden: Golden =
            serde_json::from_str(include_str!("../../report/tests/golden/statistics.json")).unwrap();
        for Case { degrees, quantile } in golden.quantiles {
            assert!(
                (student(degrees) - quantile).abs() < 1e-10,
                "{degrees}: {} is not {quantile}",
                student(degrees)
            );
        }
    }

    #[test]
    fn quantiles_fall_towards_the_normal_one() {
        assert_eq!(student(0), f64::INFINITY);
        let all: Vec<f64> = (1..3_000).map(student).collect();
        assert!(all.is_sorted_by(|a, b| a > b), "also where the expansion takes over");
        assert!(student(u32::MAX) - NORMAL < 1e-9);
    }
}
