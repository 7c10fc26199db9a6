//! A backend of another make, which claims little, keeps the lock contract as far as it claims it.

#[path = "../examples/redis_shaped.rs"]
#[expect(dead_code, unreachable_pub, reason = "the example has a main, and is a program elsewhere")]
mod redis_shaped;

use bell_locks::conformance::InProcess;

bell_locks::lock_conformance!(InProcess::new(redis_shaped::RedisShaped::default()));
