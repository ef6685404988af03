//! Percentiles and medians.

/// The value below which `share` (0 to 1) of `values` lie; sorts them. 0 if there is none.
pub fn percentile(values: &mut [u64], share: f64) -> u64 {
    values.sort_unstable();
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
}

/// The median; of an even number the upper one. 0 if there is none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Nanoseconds in milliseconds.
pub fn ms(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occur() {
        let mut values: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(percentile(&mut values, 0.0), 1);
        assert_eq!(percentile(&mut values, 0.99), 99);
        assert_eq!(percentile(&mut values, 1.0), 100);
        assert_eq!(percentile(&mut [], 0.5), 0);
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
    }
}
