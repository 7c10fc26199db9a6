//! L24: the table of outcomes is complete, and each outcome has one meaning everywhere.

use std::collections::BTreeSet;

use bell_api::exit;
use bell_api::outcome::{Mcp, Outcome, TABLE, markdown};

#[test]
fn each_outcome_finds_its_own_row() {
    for row in TABLE {
        assert_eq!(row.outcome.row(), row);
    }
}

#[test]
fn no_word_stands_for_two_outcomes() {
    let words: BTreeSet<&str> = TABLE.iter().map(|row| row.word).collect();
    assert_eq!(words.len(), TABLE.len());
}

#[test]
fn the_word_in_json_is_the_name_in_snake_case() {
    for row in TABLE {
        assert_eq!(serde_json::to_string(&row.outcome).unwrap(), format!("{:?}", row.word));
        assert_eq!(serde_json::from_str::<Outcome>(&format!("{:?}", row.word)).unwrap(), row.outcome);
        assert_eq!(row.word.replace('_', ""), format!("{:?}", row.outcome).to_lowercase());
        assert_eq!(row.outcome.to_string(), row.word);
    }
}

#[test]
fn the_outcomes_of_the_lock_contract_are_as_promised() {
    let promised = [
        (Outcome::Granted, "granted", 200, 0),
        (Outcome::Busy, "busy", 409, 1),
        (Outcome::TimedOut, "timed_out", 408, 8),
        (Outcome::Deadlock, "deadlock", 409, 1),
        (Outcome::NotHolder, "not_holder", 409, 1),
        (Outcome::NotHeld, "not_held", 404, 2),
        (Outcome::Lost, "lost", 410, 7),
        (Outcome::Stale, "stale", 412, 7),
        (Outcome::Invalid, "invalid", 400, 4),
        (Outcome::Unavailable, "unavailable", 503, 5),
        (Outcome::Unauthorized, "unauthorized", 401, 3),
    ];
    for (outcome, word, http, exit) in promised {
        let row = outcome.row();
        assert_eq!((row.word, row.http, row.exit), (word, http, exit));
    }
}

#[test]
fn http_exit_code_and_mcp_agree_on_what_success_is() {
    for row in TABLE {
        let success = row.exit == exit::OK;
        assert_eq!(row.http == 200, success, "{}", row.word);
        assert_eq!(row.mcp == Mcp::Ok, success, "{}", row.word);
    }
}

#[test]
fn every_exit_code_of_an_outcome_is_in_the_table_of_exit_codes() {
    for row in TABLE {
        assert!(exit::TABLE.iter().any(|(code, _)| *code == row.exit), "{}", row.word);
        let is_silence = row.word == "unreachable";
        assert_eq!(row.exit == exit::UNREACHABLE, is_silence, "without an answer there is no other outcome");
        assert_ne!(row.exit, exit::USAGE, "a command line that can't be read has no outcome");
    }
}

#[test]
fn every_outcome_says_in_one_sentence_what_to_do_next() {
    for row in TABLE {
        assert!(row.next.ends_with('.') && row.next.matches(". ").count() == 0, "{}", row.next);
        assert!(row.next.starts_with(|c: char| c.is_uppercase()), "{}", row.next);
    }
}

#[test]
fn the_page_has_a_row_for_each_outcome() {
    let page = markdown();
    assert_eq!(page.lines().count(), TABLE.len() + 2);
    let busy = "| `busy` | 409 | 1 | error | Skip it and go on with other work, or wait with --wait. |";
    assert!(page.lines().any(|line| line == busy), "{page}");
    assert!(page.lines().all(|line| line.matches('|').count() == 6), "{page}");
}
