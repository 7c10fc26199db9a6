//! A moment as text: RFC 3339, UTC, milliseconds. For people and logs; no decision reads it back.

/// The last moment that RFC 3339 can write, in milliseconds since 1970.
const LAST_MS: u64 = 253_402_300_799_999;

const DAY_MS: u64 = 86_400_000;

/// The moment `unix_ms` milliseconds after 1970 began, such as `2026-02-28T23:59:59.999Z`.
///
/// What lies beyond the year 9999 is written as that year's last moment.
pub fn rfc3339(unix_ms: u64) -> String {
    let unix_ms = unix_ms.min(LAST_MS);
    let (year, month, day) = civil(unix_ms / DAY_MS);
    let ms = unix_ms % DAY_MS;
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    let mut text = *b"YYYY-MM-DDThh:mm:ss.mmmZ";
    let numbers = [year, month, day, hour, minute, second, ms % 1_000];
    for (place, number) in [0..4, 5..7, 8..10, 11..13, 14..16, 17..19, 20..23].into_iter().zip(numbers) {
        write(&mut text[place], number);
    }
    text.into_iter().map(char::from).collect()
}

/// Writes the last digits of a number, as many as there is room for. Every grant says when it was made, and a formatter
/// takes ten times as long.
fn write(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b"0123456789"[(number % 10) as usize];
        number /= 10;
    }
}

/// Year, month and day of the day that is `days` after 1970-01-01.
///
/// Years are counted from 1 March, so that a leap day is the last day of its year and every month begins
/// at a fixed day of the year; and in eras of 400 years, which all have the same number of days.
fn civil(days: u64) -> (u64, u64, u64) {
    const ERA_DAYS: u64 = 146_097;
    const CENTURY_DAYS: u64 = 36_524;
    const FOUR_YEARS_DAYS: u64 = 1_461;
    /// From 0000-03-01 to 1970-01-01.
    const TO_1970_DAYS: u64 = 719_468;

    let days = days + TO_1970_DAYS;
    let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
    // The era's last day and a four-year group's last day are leap days: without them every year has 365.
    let leap_days_before = day_of_era / (FOUR_YEARS_DAYS - 1) + day_of_era / (ERA_DAYS - 1);
    let year_of_era = (day_of_era + day_of_era / CENTURY_DAYS - leap_days_before) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // March to July have 153 days, and so have August to December.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let (month, next_year) =
        if month_from_march < 10 { (month_from_march + 3, 0) } else { (month_from_march - 9, 1) };
    (400 * era + year_of_era + next_year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_are_written_as_everybody_writes_them() {
        for (unix_ms, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_000_000_000_000, "2001-09-09T01:46:40.000Z"),
            (1_234_567_890_123, "2009-02-13T23:31:30.123Z"),
            (1_709_164_799_999, "2024-02-28T23:59:59.999Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (2_147_483_647_000, "2038-01-19T03:14:07.000Z"),
            (4_107_542_399_001, "2100-02-28T23:59:59.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(rfc3339(unix_ms), expected);
        }
    }

    #[test]
    fn what_lies_beyond_the_year_9999_is_its_last_moment() {
        assert_eq!(rfc3339(LAST_MS + 1), rfc3339(LAST_MS));
        assert_eq!(rfc3339(u64::MAX), rfc3339(LAST_MS));
    }

    #[test]
    fn every_day_of_1200_years_follows_the_day_before() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..1_200 * 366 {
            assert_eq!(civil(days), (year, month, day), "{days} days after 1970-01-01");
            day += 1;
            if day > days_in(year, month) {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }

    fn days_in(year: u64, month: u64) -> u64 {
        let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        match month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }
}
