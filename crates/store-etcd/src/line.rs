//! The store's clock: how its clients count the time together. Nothing here waits or talks to etcd.
//!
//! etcd has no clock to ask. So one host at a time counts: the store's time is that host's time since boot
//! plus a base, and the two are written down as a **line**. Every process of that host reads the time off
//! its own kernel, exactly. A process of another host asks; a process of the counting host answers with the
//! time at which it saw the question; and the asker counts on from the answer's arrival, on its own kernel's
//! time since boot. If nobody answers, the asker draws the **next line**, counted by its own host, and
//! starts it at a time that has surely been reached. No host's wall clock is ever compared with another's.
//!
//! # Why no lease ends early
//! Write `L(t)` for the time on a line at the moment `t`.
//!
//! 1. *Nobody is ahead of a line.* Its host shows `L` itself. An asker counts from the arrival of an
//!    answer `L(s)`, and the arrival is later than `s`.
//! 2. *Nobody grants from far behind it.* An asker knows that its question left before `s`, so it is behind
//!    by at most the time between question and answer, its *width*, and takes that as part of the lag that
//!    [`bell_store::txn::MAX_LAG`] allows. So a lease granted by a request that left at `s` and
//!    lasting `ttl` ends at `L(s) + ttl − MAX_LAG` at the earliest.
//! 3. *Lines only get slower.* The next line starts at a time that the last one has passed, and both count
//!    real time from there: `L' ≤ L`.
//! 4. *Whoever judges a lease does so on its line or a later one.* To end a lease is to expect the record it
//!    is in, at its version. That version was read in one snapshot with the line of the moment, which is
//!    the line it was granted on or a later one.
//!
//! By 4, 3 and 1 a commit that rests on the end of a lease was sent when `L` had passed its end, and by 2 that is
//! `ttl − MAX_LAG` after its grant was sent, at the least. Delays of the network are in none of the steps:
//! a late answer makes an asker more behind, or too wide to be used.
//!
//! Clocks drift. An answer is counted on from for [`MAX_AGE`] at the most, in which 1,000 ppm are 30 ms: together
//! with the lag, less than the 500 ms that every holder keeps in reserve.
//!
//! # What it costs
//! Time that nobody of the counting host can tell is lost, and leases last longer by it: at a new line, what
//! passed since the last commit, or since etcd's own count of it in whole seconds (see [`Line::lease`]).

use std::time::Duration;

use bell_store::Timestamp;
use bell_store::txn::MAX_LAG;

/// How long an answer may be counted on from.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(30);

/// The widest answer that is used. Half of the allowed lag, so that the other half is left to the caller.
pub(crate) const MAX_WIDTH: Duration = Duration::from_millis(200);
const _: () = assert!(MAX_WIDTH.as_millis() * 2 <= MAX_LAG.as_millis());

/// How far two clocks may run apart: one part in so many.
const DRIFT: u32 = 1_000;

/// Who counts the time, and from where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Line {
    /// Rises with every new line.
    pub(crate) number: u64,
    /// The boot of the host that counts.
    pub(crate) host: String,
    /// The store's time when that host booted.
    pub(crate) base_ms: i64,
    /// The store's time at which the line was drawn.
    pub(crate) start: Timestamp,
    /// A lease of etcd that was granted after `start` was read. What etcd says has passed of it has passed
    /// since then, at the least: after a change of leader it counts from anew.
    pub(crate) lease: i64,
}

impl Line {
    /// A line that shows `start` now.
    ///
    /// Its lease is granted afterwards.
    pub(crate) fn drawn(number: u64, host: &str, boottime: Duration, start: Timestamp) -> Self {
        let base_ms = signed_ms(start).saturating_sub(ms(boottime));
        Self { number, host: host.to_owned(), base_ms, start, lease: 0 }
    }

    /// The time, when its host has been up for so long.
    pub(crate) fn at(&self, boottime: Duration) -> Timestamp {
        Timestamp::from_ms(u64::try_from(self.base_ms.saturating_add(ms(boottime))).unwrap_or(0))
    }

    pub(crate) fn encode(&self) -> String {
        let Self { number, host, base_ms, start, lease } = self;
        format!("{number} {host} {base_ms} {} {lease}", start.as_ms())
    }

    pub(crate) fn decode(text: &[u8]) -> Option<Self> {
        let [number, host, base_ms, start, lease] = fields(text)?;
        Some(Self {
            number: number.parse().ok()?,
            host: host.to_owned(),
            base_ms: base_ms.parse().ok()?,
            start: Timestamp::from_ms(start.parse().ok()?),
            lease: lease.parse().ok()?,
        })
    }
}

/// A time that a line has reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reached {
    pub(crate) line: u64,
    pub(crate) at: Timestamp,
}

impl Reached {
    pub(crate) fn encode(self) -> String {
        format!("{} {}", self.line, self.at.as_ms())
    }

    pub(crate) fn decode(text: &[u8]) -> Option<Self> {
        let [line, at] = fields(text)?;
        Some(Self { line: line.parse().ok()?, at: Timestamp::from_ms(at.parse().ok()?) })
    }
}

/// The time at which a question had been seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    /// The revision of the question.
    pub(crate) question: i64,
    pub(crate) reached: Reached,
}

impl Answer {
    /// Sorts by question, so that etcd can tell whether one was answered.
    pub(crate) fn encode(self) -> String {
        format!("{:020} {}", self.question, self.reached.encode())
    }

    pub(crate) fn decode(text: &[u8]) -> Option<Self> {
        let [question, line, at] = fields(text)?;
        let reached = Reached { line: line.parse().ok()?, at: Timestamp::from_ms(at.parse().ok()?) };
        Some(Self { question: question.parse().ok()?, reached })
    }
}

/// What an answer is to the host that asked: a time that its line had reached when it arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Estimate {
    pub(crate) reached: Reached,
    /// On the asker's clock.
    pub(crate) arrived: Duration,
    /// From question to arrival: how far behind its line it may be.
    pub(crate) width: Duration,
}

impl Estimate {
    /// The time now, for as long as the estimate is good.
    pub(crate) fn read(&self, boottime: Duration) -> Option<Reading> {
        let age = boottime.checked_sub(self.arrived)?;
        let now = self.reached.at + age;
        // Each of the two times was cut to whole milliseconds.
        let most = now + self.width + age / DRIFT + Duration::from_millis(2);
        (age <= MAX_AGE).then_some(Reading { line: self.reached.line, now, most })
    }

    /// A time that the line has surely reached, however old the estimate is.
    pub(crate) fn surely(&self, boottime: Duration) -> Timestamp {
        let age = boottime.saturating_sub(self.arrived);
        self.reached.at + age.saturating_sub(age / DRIFT)
    }
}

/// The store's time, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reading {
    /// The number of the line it was read off.
    pub(crate) line: u64,
    /// It is at least this.
    pub(crate) now: Timestamp,
    /// It is at most this.
    pub(crate) most: Timestamp,
}

impl Reading {
    pub(crate) fn exact(reached: Reached) -> Self {
        Self { line: reached.line, now: reached.at, most: reached.at }
    }

    /// What may be told to others.
    pub(crate) fn reached(&self) -> Reached {
        Reached { line: self.line, at: self.now }
    }

    /// Whether a commit decided for `at` may be sent.
    pub(crate) fn allows(&self, at: Option<Timestamp>) -> bool {
        at.is_none_or(|at| at <= self.now && self.most.since(at) <= MAX_LAG)
    }
}

/// A machine between two boots, and its clock.
pub(crate) struct Host {
    pub(crate) id: String,
    clock: fn(&Host) -> Duration,
    /// What a test adds to the clock.
    #[cfg(test)]
    pub(crate) shift: Duration,
}

impl Host {
    /// This machine.
    pub(crate) fn this() -> Self {
        // Without a name for this boot the process counts as a host of its own.
        let id = bell_store::clock::boot_id().unwrap_or_else(|_| uuid::Uuid::now_v7().to_string());
        Self {
            id,
            clock: |_| bell_store::clock::boottime(),
            #[cfg(test)]
            shift: Duration::ZERO,
        }
    }

    /// Another machine, up for longer by `shift`.
    #[cfg(test)]
    pub(crate) fn other(id: &str, shift: Duration) -> Self {
        Self { id: id.to_owned(), clock: |host| bell_store::clock::boottime() + host.shift, shift }
    }

    pub(crate) fn boottime(&self) -> Duration {
        (self.clock)(self)
    }
}

fn fields<const N: usize>(text: &[u8]) -> Option<[&str; N]> {
    let fields: Vec<&str> = str::from_utf8(text).ok()?.split(' ').collect();
    fields.try_into().ok()
}

fn ms(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

fn signed_ms(time: Timestamp) -> i64 {
    i64::try_from(time.as_ms()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const NOON: Timestamp = Timestamp::from_ms(1_800_000_000_000);

    fn after(ms: u64) -> Timestamp {
        NOON + Duration::from_millis(ms)
    }

    fn reached(ms: u64) -> Reached {
        Reached { line: 7, at: after(ms) }
    }

    #[test]
    fn what_is_written_down_is_read_back() {
        let line = Line { number: 7, host: "b-1".to_owned(), base_ms: -3, start: NOON, lease: 42 };
        assert_eq!(Line::decode(line.encode().as_bytes()), Some(line));
        let reached = Reached { line: 7, at: NOON };
        assert_eq!(Reached::decode(reached.encode().as_bytes()), Some(reached));
        let answer = Answer { question: 12, reached };
        assert_eq!(Answer::decode(answer.encode().as_bytes()), Some(answer));
        assert_eq!(Line::decode(b"1 b 0 0"), None);
        assert_eq!(Line::decode(b"1 b 0 0 0 0"), None);
    }

    #[test]
    fn answers_sort_by_the_question() {
        let reached = Reached { line: 7, at: NOON };
        let [earlier, later] = [9, 10].map(|question| Answer { question, reached }.encode());
        assert!(earlier < later);
    }

    #[test]
    fn a_line_starts_where_it_is_drawn_and_counts_its_hosts_time() {
        let host = Host::other("long-up", 365 * DAY);
        let up = host.boottime();
        let line = Line::drawn(1, &host.id, up, NOON);
        assert_eq!(line.at(up), NOON);
        assert_eq!(line.at(up + DAY), line.at(up) + DAY);
    }

    #[test]
    fn a_store_younger_than_the_time_since_boot_has_a_time_too() {
        let line = Line::drawn(1, "h", DAY, Timestamp::from_ms(5));
        assert!(line.base_ms < 0);
        assert_eq!(line.at(Duration::ZERO), Timestamp::default());
    }

    #[test]
    fn an_estimate_is_never_ahead_of_the_line_and_says_how_far_it_may_be_behind() {
        let up = DAY;
        let width = Duration::from_millis(50);
        // Asked at 0, seen and answered at 30, arrived at 50.
        let estimate = Estimate { reached: reached(30), arrived: up, width };
        let reading = estimate.read(up + Duration::from_millis(1_000)).unwrap();
        let truth = after(1_050);
        assert_eq!(reading.now, after(1_030));
        assert!(reading.now <= truth && truth <= reading.most);
    }

    #[test]
    fn an_old_estimate_tells_no_time_but_still_what_was_surely_reached() {
        let estimate = Estimate { reached: reached(0), arrived: DAY, width: Duration::ZERO };
        assert!(estimate.read(DAY + MAX_AGE).is_some());
        assert!(estimate.read(DAY + MAX_AGE + Duration::from_millis(1)).is_none());
        assert!(estimate.read(DAY - Duration::from_millis(1)).is_none(), "a clock that went back");
        assert_eq!(estimate.surely(DAY + Duration::from_secs(1_000)), after(999_000));
    }

    #[test]
    fn the_width_of_an_answer_is_part_of_the_allowed_lag() {
        let reading = Reading { line: 7, now: after(1_000), most: after(1_150) };
        assert!(reading.allows(None));
        assert!(reading.allows(Some(after(1_000))));
        assert!(!reading.allows(Some(after(1_001))), "that time may not have come");
        assert!(reading.allows(Some(after(750))));
        assert!(!reading.allows(Some(after(749))), "more than 400 ms may have passed since");
    }
}
