//! S1: when an agent is due, in every zone and when clocks change.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use bell_project::cron::{Expression, ExpressionError, Reason, Schedule, Timestamp, due};
use bell_project::name::AgentName;
use bell_project::settings::{Catchup, Length, Zone};

fn schedule(expression: &str, zone: &str) -> Schedule {
    Schedule::new(Expression::parse(expression).unwrap(), Zone::find(zone).unwrap())
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The next moments, in UTC.
fn next(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    schedule(expression, zone).next(at(after), count).iter().map(ToString::to_string).collect()
}

#[test]
fn clocks_that_change_lose_nothing_and_double_nothing() {
    // Expression, zone, from when, and the moments in UTC that follow.
    let cases: &[(&str, &str, &str, &[&str])] = &[
        // Berlin leaves out 2:00 to 3:00 (1:00 UTC) on 2024-03-31: once, right after the gap.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2024-03-30T12:00:00Z",
            &["2024-03-31T01:00:00Z", "2024-04-01T00:30:00Z"],
        ),
        (
            "0,30 2 * * *",
            "Europe/Berlin",
            "2024-03-30T12:00:00Z",
            &["2024-03-31T01:00:00Z", "2024-04-01T00:00:00Z"],
        ),
        (
            "*/15 2 * * *",
            "Europe/Berlin",
            "2024-03-30T12:00:00Z",
            &["2024-03-31T01:00:00Z", "2024-04-01T00:00:00Z"],
        ),
        ("30 2 * * *", "Europe/Berlin", "2024-03-31T00:59:59Z", &["2024-03-31T01:00:00Z"]),
        ("30 2 * * *", "Europe/Berlin", "2024-03-31T01:00:00Z", &["2024-04-01T00:30:00Z"]),
        (
            "0 2,3 * * *",
            "Europe/Berlin",
            "2024-03-30T12:00:00Z",
            &["2024-03-31T01:00:00Z", "2024-04-01T00:00:00Z"],
        ),
        // It repeats 2:00 to 3:00 on 2024-10-27: the first time only.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2024-10-26T12:00:00Z",
            &["2024-10-27T00:30:00Z", "2024-10-28T01:30:00Z"],
        ),
        ("30 2 * * *", "Europe/Berlin", "2024-10-27T00:30:00Z", &["2024-10-28T01:30:00Z"]),
        ("30 2 * * *", "Europe/Berlin", "2024-10-27T01:10:00Z", &["2024-10-28T01:30:00Z"]),
        // Every half hour is every half hour, through both.
        (
            "*/30 * * * *",
            "Europe/Berlin",
            "2024-03-31T00:15:00Z",
            &["2024-03-31T00:30:00Z", "2024-03-31T01:00:00Z", "2024-03-31T01:30:00Z"],
        ),
        (
            "*/30 * * * *",
            "Europe/Berlin",
            "2024-10-27T00:15:00Z",
            &["2024-10-27T00:30:00Z", "2024-10-27T01:00:00Z", "2024-10-27T01:30:00Z", "2024-10-27T02:00:00Z"],
        ),
        (
            "0 */2 * * *",
            "Europe/Berlin",
            "2024-10-26T22:00:00Z",
            &["2024-10-27T00:00:00Z", "2024-10-27T01:00:00Z", "2024-10-27T03:00:00Z"],
        ),
        (
            "@hourly",
            "America/New_York",
            "2024-11-03T04:30:00Z",
            &["2024-11-03T05:00:00Z", "2024-11-03T06:00:00Z", "2024-11-03T07:00:00Z"],
        ),
        (
            "30 2 * * *",
            "America/New_York",
            "2024-03-09T12:00:00Z",
            &["2024-03-10T07:00:00Z", "2024-03-11T06:30:00Z"],
        ),
        (
            "30 1 * * *",
            "America/New_York",
            "2024-11-02T12:00:00Z",
            &["2024-11-03T05:30:00Z", "2024-11-04T06:30:00Z"],
        ),
        // Half an hour: 2:00 to 2:30 is left out on 2024-10-06, and 1:30 to 2:00 comes twice on 2024-04-07.
        (
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2024-10-05T00:00:00Z",
            &["2024-10-05T15:30:00Z", "2024-10-06T15:15:00Z"],
        ),
        (
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2024-04-06T00:00:00Z",
            &["2024-04-06T14:45:00Z", "2024-04-07T15:15:00Z"],
        ),
        // São Paulo had no midnight on 2018-11-04.
        (
            "0 0 * * *",
            "America/Sao_Paulo",
            "2018-11-03T12:00:00Z",
            &["2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"],
        ),
        // Apia had no 2011-12-30: its noon comes right after the gap, and the 31st has its own.
        (
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-29T23:00:00Z",
            &["2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"],
        ),
        (
            "0 12 30 12 *",
            "Pacific/Apia",
            "2011-06-01T00:00:00Z",
            &["2011-12-30T10:00:00Z", "2012-12-29T22:00:00Z"],
        ),
        ("0 9 * * MON-FRI", "UTC", "2024-03-29T09:00:00Z", &["2024-04-01T09:00:00Z"]),
        ("0 0 29 2 *", "UTC", "2024-03-01T00:00:00Z", &["2028-02-29T00:00:00Z"]),
        ("0 0 L * *", "UTC", "2024-02-01T00:00:00Z", &["2024-02-29T00:00:00Z"]),
        ("0 0 * * 5L", "UTC", "2024-02-01T00:00:00Z", &["2024-02-23T00:00:00Z"]),
        ("0 0 * * MON#2", "UTC", "2024-02-01T00:00:00Z", &["2024-02-12T00:00:00Z"]),
        ("0 0 15W * *", "UTC", "2024-06-01T00:00:00Z", &["2024-06-14T00:00:00Z"]),
        ("0 0 1 JAN,JUL *", "UTC", "2024-02-01T00:00:00Z", &["2024-07-01T00:00:00Z", "2025-01-01T00:00:00Z"]),
        ("0 0 13 * FRI", "UTC", "2024-09-01T00:00:00Z", &["2024-09-06T00:00:00Z", "2024-09-13T00:00:00Z"]),
        ("0 0 13 * +FRI", "UTC", "2024-09-01T00:00:00Z", &["2024-09-13T00:00:00Z", "2024-12-13T00:00:00Z"]),
        ("0 0 * * 7", "UTC", "2024-09-02T00:00:00Z", &["2024-09-08T00:00:00Z"]),
        ("@weekly", "UTC", "2024-09-02T00:00:00Z", &["2024-09-08T00:00:00Z"]),
        ("@yearly", "Asia/Tokyo", "2024-09-02T00:00:00Z", &["2024-12-31T15:00:00Z"]),
        ("@monthly", "UTC", "2024-09-02T00:00:00Z", &["2024-10-01T00:00:00Z"]),
    ];
    for (expression, zone, after, expected) in cases {
        assert_eq!(
            next(expression, zone, after, expected.len()),
            *expected,
            "{expression} in {zone} after {after}"
        );
    }
}

#[test]
fn fires_rise_and_none_is_skipped_wherever_the_search_begins() {
    for (expression, zone) in [
        ("30 2 * * *", "Europe/Berlin"),
        ("*/20 1-3 * * *", "America/New_York"),
        ("*/20 * * * *", "Australia/Lord_Howe"),
    ] {
        let schedule = schedule(expression, zone);
        let all = schedule.fires_between(at("2024-01-01T00:00:00Z"), at("2025-01-01T00:00:00Z"), 100_000);
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
        // From any moment between two fires the next one is the same.
        for pair in all.windows(2).step_by(97) {
            let middle = pair[0] + (pair[1].duration_since(pair[0])) / 2;
            assert_eq!(schedule.next_after(middle), Some(pair[1]), "{expression} {zone}");
        }
    }
    let daily = schedule("30 2 * * *", "Europe/Berlin");
    assert_eq!(daily.fires_between(at("2023-12-31T23:00:00Z"), at("2024-12-31T23:00:00Z"), 1_000).len(), 366);
}

#[test]
fn expressions_that_can_never_be_right_are_refused() {
    let parse = |text: &str| Expression::parse(text).unwrap_err();
    assert_eq!(parse("0 0 31 2 *"), ExpressionError::Never);
    assert_eq!(parse("0 0 30 2 *"), ExpressionError::Never);
    assert_eq!(parse("0 0 31 4,6,9,11 *"), ExpressionError::Never);
    assert_eq!(parse(""), ExpressionError::Fields(0));
    assert_eq!(parse("* * * *"), ExpressionError::Fields(4));
    assert_eq!(parse("0 * * * * *"), ExpressionError::Fields(6));
    assert_eq!(parse("0 0 1 1 * 2030"), ExpressionError::Fields(6));
    assert_eq!(parse("@reboot"), ExpressionError::Nickname);
    assert_eq!(parse(&"*".repeat(600)), ExpressionError::TooLong);
    for text in [
        "60 * * * *",
        "* 24 * * *",
        "* * 32 * *",
        "* * * 13 *",
        "* * * * 9",
        "a * * * *",
        "*/0 * * * *",
        "5-1 * * * *",
    ] {
        assert!(matches!(parse(text), ExpressionError::Field(_)), "{text}");
    }
}

#[test]
fn jitter_is_the_same_for_everybody_and_less_than_the_interval() {
    let name = AgentName::parse("a").unwrap();
    let minutely = schedule("* * * * *", "UTC");
    let nominal = at("2024-01-01T00:00:00Z");
    let hour = Duration::from_secs(3_600);
    assert_eq!(minutely.delay(&name, nominal, hour), minutely.delay(&name, nominal, hour));
    assert_eq!(minutely.delay(&name, nominal, Duration::ZERO), Duration::ZERO);
    let delays: Vec<Duration> =
        minutely.next(nominal, 200).iter().map(|fire| minutely.delay(&name, *fire, hour)).collect();
    assert!(delays.iter().all(|delay| *delay < Duration::from_secs(60)), "less than the interval");
    assert!(delays.iter().any(|delay| *delay > Duration::from_secs(45)), "spread over it");
    assert!(delays.iter().any(|delay| *delay < Duration::from_secs(15)), "spread over it");
    let other = AgentName::parse("b").unwrap();
    assert!(
        minutely
            .next(nominal, 20)
            .iter()
            .any(|fire| minutely.delay(&other, *fire, hour) != minutely.delay(&name, *fire, hour))
    );
}

fn catchup(window_s: u64, max: u32) -> Catchup {
    Catchup { window: Length::from_secs(window_s), max }
}

#[test]
fn a_fire_on_time_needs_no_catching_up() {
    let hourly = schedule("@hourly", "UTC");
    let answer = due(&hourly, at("2024-01-01T08:59:59Z"), at("2024-01-01T09:00:02Z"), None);
    assert_eq!(answer.fire, [at("2024-01-01T09:00:00Z")]);
    assert!(answer.missed.is_empty());
    assert_eq!(answer.considered, at("2024-01-01T09:00:02Z"));
}

#[test]
fn what_was_missed_is_made_up_for_within_window_and_cap_and_the_rest_says_why() {
    let hourly = schedule("@hourly", "UTC");
    let (considered, now) = (at("2024-01-01T00:30:00Z"), at("2024-01-01T05:30:00Z"));
    let none = due(&hourly, considered, now, None);
    assert!(none.fire.is_empty());
    assert_eq!(none.missed.len(), 5);
    assert!(none.missed.iter().all(|missed| missed.reason == Reason::NotCaughtUp));

    let some = due(&hourly, considered, now, Some(&catchup(3 * 3_600, 2)));
    assert_eq!(some.fire, [at("2024-01-01T04:00:00Z"), at("2024-01-01T05:00:00Z")]);
    let reasons: Vec<Reason> = some.missed.iter().map(|missed| missed.reason).collect();
    assert_eq!(reasons, [Reason::TooOld, Reason::TooOld, Reason::OverCap]);
    assert_eq!(some.missed[2].nominal, at("2024-01-01T03:00:00Z"));
}

#[test]
fn every_nominal_time_is_decided_once_however_the_looks_are_spread() {
    let schedule = schedule("*/5 * * * *", "UTC");
    let (start, end) = (at("2024-01-01T00:00:00Z"), at("2024-01-01T06:00:00Z"));
    let all = schedule.fires_between(start, end, 1_000);
    let mut considered = start;
    let mut seen = Vec::new();
    for minutes in [1, 3, 4, 9, 30, 31, 32, 100, 101, 360] {
        let now = start + jiff_minutes(minutes);
        let answer = due(&schedule, considered, now, Some(&catchup(600, 1)));
        seen.extend(answer.missed.iter().map(|missed| missed.nominal));
        seen.extend(answer.fire);
        considered = answer.considered;
    }
    seen.sort();
    assert_eq!(seen, all);
}

fn jiff_minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

#[test]
fn a_clock_that_goes_back_fires_nothing_twice() {
    let minutely = schedule("* * * * *", "UTC");
    let first = due(&minutely, at("2024-01-01T00:00:30Z"), at("2024-01-01T00:01:01Z"), None);
    assert_eq!(first.fire.len(), 1);
    let back = due(&minutely, first.considered, at("2024-01-01T00:00:20Z"), None);
    assert!(back.fire.is_empty() && back.missed.is_empty());
    assert_eq!(back.considered, first.considered);
    let again = due(&minutely, back.considered, at("2024-01-01T00:01:30Z"), None);
    assert!(again.fire.is_empty());
}

#[test]
fn years_away_are_told_in_few_rows() {
    let minutely = schedule("* * * * *", "UTC");
    let answer =
        due(&minutely, at("2020-01-01T00:00:00Z"), at("2024-01-01T00:00:30Z"), Some(&catchup(3_600, 3)));
    assert_eq!(answer.fire.len(), 4, "three made up for, one on time");
    assert!(answer.uncounted);
    assert!(answer.missed.len() <= 1_000);
    assert_eq!(answer.missed.last().unwrap().nominal, at("2023-12-31T23:56:00Z"));
}
