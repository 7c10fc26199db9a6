//! When an agent is due. Pure: moments are arguments, and no clock is read.
//!
//! An expression has five fields (minute, hour, day of month, month, day of week) or is one of `@hourly`, `@daily`,
//! `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually`. Fields take `*`, lists, ranges, steps, and names (`MON`,
//! `JAN`); Sunday is 0 or 7. If day of month and day of week are both given, either is enough, unless the second
//! begins with `+`. `L` is the last day of a month (`5L` its last Friday), `15W` the working day nearest to the
//! 15th, `MON#2` the second Monday. There are no seconds and no years.
//!
//! **When clocks change**, by what the hour field says:
//!
//! | hour field | the hour that is left out | the hour that comes twice |
//! | --- | --- | --- |
//! | names hours: `30 2 * * *`, `*/15 1-5 * * *` | fires once, at the moment after the gap | fires the first time only |
//! | begins with `*`: `*/15 * * * *`, `0 */2 * * *` | has no such times, and goes on after it | fires both times |
//!
//! So whoever asks for 2:30 gets one run on each day, and whoever asks for every 15 minutes gets one every 15
//! minutes. Vixie cron does the same; it goes by the minute field too, and so loses the day's runs of
//! `*/15 2 * * *`. A day that a zone skips altogether counts as a gap.

mod expression;
mod fires;
mod missed;

pub use expression::{Expression, ExpressionError};
pub use fires::Schedule;
pub use missed::{Due, MISSED_ROWS_MAX, Missed, Reason, due};

pub use jiff::Timestamp;
