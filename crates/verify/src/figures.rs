//! Figures for sentences.

use std::time::Duration;

/// A length of time with as many digits as matter.
pub(crate) fn ms(length: Duration) -> String {
    let ms = length.as_secs_f64() * 1_000.0;
    if ms < 10.0 { format!("{ms:.1} ms") } else { format!("{} ms", grouped(ms.round() as u64)) }
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The length that this share of all, in hundredths, stays within; zero if there are none.
pub(crate) fn percentile(lengths: &mut [Duration], hundredths: usize) -> Duration {
    lengths.sort_unstable();
    let place = (lengths.len() * hundredths).div_ceil(100).max(1) - 1;
    lengths.get(place).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_digits_that_matter() {
        assert_eq!(ms(Duration::from_micros(1_234)), "1.2 ms");
        assert_eq!(ms(Duration::from_millis(15_020)), "15,020 ms");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(999), "999");
    }

    #[test]
    fn a_percentile_is_one_of_the_lengths() {
        let mut lengths: Vec<_> = (1..=100).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile(&mut lengths, 50), Duration::from_millis(50));
        assert_eq!(percentile(&mut lengths, 99), Duration::from_millis(99));
        assert_eq!(percentile(&mut [], 50), Duration::ZERO);
    }
}
