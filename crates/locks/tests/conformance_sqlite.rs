//! Locks in a SQLite file keep the lock contract.

use bell_locks::conformance::AtUrl;

bell_locks::lock_conformance!(AtUrl::in_folder("sqlite", "bell.db"));
