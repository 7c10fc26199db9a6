//! How large a delivery may be, each number with its reason.

/// Bytes in a body: GitHub cuts its own at 25 MB, and nobody sends larger ones.
pub const BODY_BYTES_MAX: usize = 25 << 20;
/// Bytes in a body that nobody signed: whoever sends it has proved nothing, so it costs us little.
pub const UNSIGNED_BODY_BYTES_MAX: usize = 1 << 20;
/// Headers: GitHub sends 14, proxies add a few.
pub const HEADERS_MAX: usize = 100;
/// Bytes in all headers together, names and values.
pub const HEADER_BYTES_MAX: usize = 16 << 10;
/// Lists and tables inside each other: the deepest payload of GitHub has 8.
pub const JSON_DEPTH_MAX: usize = 64;
/// Values in a body. Each takes up to a hundred bytes of memory once it is read, a push of 2,048 commits has 60,000.
pub const JSON_VALUES_MAX: usize = 500_000;
/// Fields in a body that is a form: Slack sends a dozen.
pub const FORM_FIELDS_MAX: usize = 100;
/// Bytes in the id of a delivery: a UUID has 36, the longest known ones 70.
pub const ID_BYTES_MAX: usize = 128;
/// Signatures in one header, while one secret replaces another.
pub const SIGNATURES_MAX: usize = 16;
/// Bytes kept of a title, a name or a branch.
pub const SHORT_BYTES_MAX: usize = 1 << 10;
/// Bytes kept of a body or a comment: GitHub allows 65,536 characters.
pub const LONG_BYTES_MAX: usize = 64 << 10;
/// Labels and assignees kept: GitHub allows 100 of the first and 10 of the second.
pub const LIST_MAX: usize = 100;
/// Bytes kept of a label or an assignee.
pub const ITEM_BYTES_MAX: usize = 256;
/// Bytes of a body that goes to the agent whole, for sources whose payloads have no known shape.
pub const DATA_BYTES_MAX: usize = 64 << 10;
/// Bytes that come with a job; a store takes records of twice that.
pub const PAYLOAD_BYTES_MAX: usize = 512 << 10;

/// Bytes of reasons kept with a delivery, of all agents together: some hundred lines.
pub const REASON_BYTES_MAX: usize = 64 << 10;

/// As JSON a text at most doubles, since control characters are taken out: two long texts, twenty-two short ones and two
/// lists fit.
const _: () = assert!(
    2 * (2 * LONG_BYTES_MAX + 22 * SHORT_BYTES_MAX + 2 * LIST_MAX * ITEM_BYTES_MAX) < PAYLOAD_BYTES_MAX
);
