//! The exit codes of the commands. Scripts rely on them: a number never changes its meaning.

/// It was done.
pub const OK: u8 = 0;
/// Somebody else is in the way.
pub const CONFLICT: u8 = 1;
/// What was asked for is not there.
pub const NOT_FOUND: u8 = 2;
/// The caller may not do this.
pub const UNAUTHORIZED: u8 = 3;
/// The request can never be right.
pub const BAD_REQUEST: u8 = 4;
/// The service answered that its store does not answer.
pub const UNAVAILABLE: u8 = 5;
/// Nobody answered at all. Never taken for success: without an answer there is no lock.
pub const UNREACHABLE: u8 = 6;
/// The caller held a lease and holds it no longer.
pub const LOST: u8 = 7;
/// The time to wait is over.
pub const TIMED_OUT: u8 = 8;
/// The command line can't be understood.
pub const USAGE: u8 = 9;
/// The caller has used up what one caller may have.
pub const LIMIT: u8 = 10;

/// Every exit code with what it means, in order.
pub const TABLE: [(u8, &str); 11] = [
    (OK, "ok"),
    (CONFLICT, "conflict: busy, deadlock, or held by another session"),
    (NOT_FOUND, "not found"),
    (UNAUTHORIZED, "not authorised"),
    (BAD_REQUEST, "bad request"),
    (UNAVAILABLE, "unavailable: the store does not answer"),
    (UNREACHABLE, "unreachable: nobody answers"),
    (LOST, "lost: the lease is over, or a newer holder has written"),
    (TIMED_OUT, "the wait timed out"),
    (USAGE, "usage: the command line can't be understood"),
    (LIMIT, "limit: the caller has as much as one caller may have"),
];

/// The table in Markdown, for the reference.
pub fn markdown() -> String {
    let mut page = String::from("| exit code | meaning |\n| --- | --- |\n");
    for (code, meaning) in TABLE {
        page.push_str(&format!("| {code} | {meaning} |\n"));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_are_the_numbers_from_0_to_10_in_order() {
        assert_eq!(TABLE.map(|(code, _)| code), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    }

    #[test]
    fn no_answer_is_never_success() {
        assert_ne!(UNREACHABLE, OK);
        assert_ne!(UNAVAILABLE, OK);
    }

    #[test]
    fn the_page_has_a_row_for_each_code() {
        let page = markdown();
        assert_eq!(page.lines().count(), TABLE.len() + 2);
        assert!(page.contains("\n| 6 | unreachable: nobody answers |\n"));
    }
}
