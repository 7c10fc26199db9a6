//! How much of everything, and why so much.

use std::time::Duration;

use bell_core::acquire::GRACE;
use bell_core::session::SESSION_TTL;

/// Bytes in the head of a request. A token has a hundred.
pub const HEAD_BYTES_MAX: usize = 16 << 10;

/// Bytes in a body. The largest thing that may be said is a call's context of half of this.
pub const BODY_BYTES_MAX: usize = 1 << 20;

/// Bytes in a form of a page: a key has a hundred.
pub const FORM_BYTES_MAX: usize = 4 << 10;

/// Objects and lists inside each other. People nest five, machines ten.
pub const JSON_DEPTH_MAX: usize = 64;

/// Connections of one run at a time. Further ones wait to be accepted.
pub const CONNECTIONS_MAX: usize = 64;

/// How long the head of a request may take to arrive, and a connection stay idle.
pub const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// How long a body may take to arrive.
pub const BODY_WITHIN: Duration = Duration::from_secs(10);

/// How long a peer may take nothing of what it is sent. A machine that stalls takes seconds; whoever never reads would keep
/// a place, and what is to be sent, for ever.
pub const TAKEN_WITHIN: Duration = Duration::from_secs(30);

/// How long a connection that ends is read for what its peer still sends: a body of the largest size comes in less.
pub const LEFT_OVER_WITHIN: Duration = Duration::from_secs(2);

/// Bytes that are read of what a peer still sends when its connection ends. The largest bodies that services send are half
/// of this; a peer that sends more finds the connection broken.
pub const LEFT_OVER_BYTES_MAX: u64 = 64 << 20;

/// A peer that is sending pauses for less than this; one that is not has nothing left to send.
pub const LEFT_OVER_SILENCE: Duration = Duration::from_millis(250);

/// The longest wait of one call: common clients give up after 60 s.
pub const POLL_MAX: Duration = Duration::from_secs(55);

/// The longest time from a request's head to its answer: a wait, and a store that is slow.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(85);
const _: () = assert!(ANSWER_WITHIN.as_secs() > POLL_MAX.as_secs() + BODY_WITHIN.as_secs());

/// How long a request that waits keeps its place between two calls. The next one comes within milliseconds; a machine
/// that stalls takes seconds. Whoever is behind it may have to wait this long for one that never comes back.
pub const COME_BACK_WITHIN: Duration = Duration::from_secs(10);
const _: () = assert!(COME_BACK_WITHIN.as_secs() >= GRACE.as_secs());

/// The longest wait that can be asked for, as for a ttl: longer than that is a mistake.
pub const WAIT_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);

/// Locks that one session may hold. A run that wants more wants a coarser key; ending a session gives back 24 in one
/// commit, so a thousand are gone in a moment.
pub const HELD_MAX: usize = 1_000;

/// Locks that one run may hold in all its sessions: two thousand are twice what one session may hold, and all of them are
/// gone in two seconds when the run ends. Its 64 sessions could hold 64,000 otherwise.
pub const HELD_PER_RUN_MAX: usize = 2 * HELD_MAX;

/// Requests for locks that one run may have under way. Each is a place in a queue and a task.
pub const WAITS_MAX: usize = 64;

/// Requests for locks that may wait and are carried out by their own calls for a moment, before the connection is put
/// aside. Each keeps a parser with its buffers meanwhile, 30 kB in all; further ones are put aside at once.
pub const MOMENTS_MAX: usize = 64;

/// Sessions of their own that one run may have: one for each command that it runs under a lock at a time.
pub const SESSIONS_MAX: usize = 64;

/// Calls that one run may make. Each is a job and a run of another agent; who wants more wants a queue of their own.
pub const CALLS_MAX: usize = 1_000;

/// Locks in one page of a list.
pub const LIST_MAX: usize = 1_000;

/// Characters in a request's id: a UUID has 36.
pub const REQUEST_CHARS_MAX: usize = 64;

/// Bytes in a label: a line on a terminal.
pub const LABEL_BYTES_MAX: usize = 200;

/// Connections of the daemon at a time: ten thousand programs that wait for a lock, and everybody else. Further ones wait
/// to be accepted.
pub const SERVER_CONNECTIONS_MAX: usize = 12_000;

/// Connections that one other machine may have: a busy program has a few dozen, and none may have them all.
pub const CONNECTIONS_PER_PEER_MAX: usize = 1_024;
const _: () = assert!(CONNECTIONS_PER_PEER_MAX < SERVER_CONNECTIONS_MAX);

/// Streams of events and output that are open at a time: each is a task and a few places.
pub const STREAMS_MAX: usize = 256;

/// Events that wait in a stream for its reader.
pub const STREAM_PLACES: usize = 64;

/// How long a reader may take for none of them before it is cut off.
pub const STREAM_STALLS: Duration = Duration::from_secs(30);

/// After so long without an event a stream says that it is still there: proxies cut what is silent for a minute.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// Events of the fleet that are kept for readers who are a little behind. Who is further behind is cut off, and comes
/// back with its position.
pub const EVENTS_KEPT: usize = 1_024;

/// Names in a query: no question has more than ten.
pub const QUERY_NAMES_MAX: usize = 32;

/// Requests for locks that the daemon may have under way for programs outside of any run: ten thousand that wait, and then
/// some. Each is a place in a queue and a task.
pub const SERVER_WAITS_MAX: usize = 12_000;

/// Sessions that one API key may have made on one node and that are alive: one for each connection that a node takes.
pub const SESSIONS_PER_KEY_MAX: usize = SERVER_CONNECTIONS_MAX;

/// Locks that all sessions of one API key may hold on one node: two for each session that it may have. At about 600 bytes for
/// a lock that is 15 MB of store; a key could take a million in a minute otherwise.
pub const HELD_PER_KEY_MAX: usize = 2 * SESSIONS_PER_KEY_MAX;
const _: () = assert!(HELD_PER_RUN_MAX < HELD_PER_KEY_MAX);

/// The shortest and the longest that a session outside of any run outlives a heartbeat: less is lost whenever a machine
/// stalls, and for more than a day nobody would know whether anybody is there.
pub const SESSION_TTL_MIN: Duration = Duration::from_secs(5);
/// See [`SESSION_TTL_MIN`].
pub const SESSION_TTL_MAX: Duration = Duration::from_secs(24 * 3_600);
const _: () = assert!(SESSION_TTL_MIN.as_secs() <= SESSION_TTL.as_secs());
