//! Guarded writes to a Redis server.
//!
//! The fence is checked and remembered in the same script as the write. [`CHECK`] goes in front of a script of
//! your own, in any language; [`set`] is that for the plainest of writes.
//!
//! ```lua
//! -- KEYS: 1 where the fence is remembered. ARGV: 1 the fence.
//! -- … CHECK …
//! redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
//! return 'OK'
//! ```
//!
//! How durable the fence is, is how durable the server is: one that loses the write may lose the fence too.

use bell_core::lock::Fence;
use redis::RedisError;
use redis::aio::ConnectionLike;

use super::Stale;

macro_rules! check {
    () => {
        "\
#!lua
-- KEYS: 1 where the fence is remembered. ARGV: 1 the fence.
-- Answers the error STALE with the highest fence seen, and writes nothing, if that is higher.
-- Fences are compared as text: as numbers they would be rounded above 2^53.
local given, seen = ARGV[1], redis.call('GET', KEYS[1]) or '0'
if #given < #seen or (#given == #seen and given < seen) then
  return redis.error_reply('STALE ' .. seen)
end
redis.call('SET', KEYS[1], given)
"
    };
}

/// The check, to be put in front of a script that writes. `KEYS[1]` is where the fence is remembered, `ARGV[1]` the
/// fence in decimal digits; all else is the script's. In a cluster all its keys must be in one slot.
pub const CHECK: &str = check!();

/// Sets `KEYS[2]` to `ARGV[2]` if the fence is not too old.
pub const SET: &str = concat!(check!(), "redis.call('SET', KEYS[2], ARGV[2])\nreturn 'OK'\n");

/// Why a guarded write did not happen.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The fence is too old. Nothing was written.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// Redis refused, or did not answer: then it may have happened.
    #[error("could not write: {0}")]
    Redis(#[from] RedisError),
}

/// Sets a key in one step with the check of its fence, which is remembered beside it ([`fence_key`]).
///
/// Dropped half-way, it has happened or not, never half.
///
/// # Errors
/// [`GuardError::Stale`] if a later holder has written.
pub async fn set(
    connection: &mut impl ConnectionLike,
    key: &str,
    fence: Fence,
    value: &[u8],
) -> Result<(), GuardError> {
    let mut request = redis::cmd("EVAL");
    request.arg(SET).arg(2).arg(fence_key(key)).arg(key).arg(fence.0).arg(value);
    match request.query_async::<()>(connection).await {
        Ok(()) => Ok(()),
        Err(error) => Err(seen(&error).map_or(error.into(), |seen| Stale::refuse(fence, seen).into())),
    }
}

/// Where [`set`] remembers the fence of a key: in the same slot of a cluster.
pub fn fence_key(key: &str) -> String {
    let tagged = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .is_some_and(|(tag, _)| !tag.is_empty());
    if tagged { format!("{key}:fence") } else { format!("{{{key}}}:fence") }
}

fn seen(error: &RedisError) -> Option<Fence> {
    let stale = error.code() == Some("STALE");
    let seen = error.detail().and_then(|detail| detail.split_whitespace().next()?.parse().ok());
    seen.filter(|_| stale).map(Fence)
}

#[cfg(test)]
mod tests {
    use bell_e2e::Redis;
    use redis::aio::MultiplexedConnection;

    use super::*;

    async fn connected(server: &Redis) -> MultiplexedConnection {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", server.port())).unwrap();
        client.get_multiplexed_async_connection().await.unwrap()
    }

    fn stale(result: Result<(), GuardError>) -> Stale {
        match result {
            Err(GuardError::Stale(stale)) => stale,
            other => panic!("expected a stale write, got {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_write_with_the_same_or_a_higher_fence_is_accepted() {
        let server = Redis::shared();
        let mut connection = connected(&server).await;
        for (fence, value) in [(7, "a"), (7, "b"), (8, "c"), (10, "d")] {
            set(&mut connection, "accepted", Fence(fence), value.as_bytes()).await.unwrap();
            assert_eq!(server.run(&["GET", "accepted"]), value);
        }
    }

    #[tokio::test]
    async fn a_write_with_a_lower_fence_is_refused_and_writes_nothing() {
        let server = Redis::shared();
        let mut connection = connected(&server).await;
        set(&mut connection, "refused", Fence(10), b"successor").await.unwrap();
        let refused = stale(set(&mut connection, "refused", Fence(9), b"stale").await);
        assert_eq!(refused, Stale { given: Fence(9), seen: Fence(10) });
        assert_eq!(server.run(&["GET", "refused"]), "successor");
    }

    #[tokio::test]
    async fn fences_that_are_equal_as_doubles_are_told_apart() {
        let server = Redis::shared();
        let mut connection = connected(&server).await;
        set(&mut connection, "large", Fence(u64::MAX), b"successor").await.unwrap();
        let refused = stale(set(&mut connection, "large", Fence(u64::MAX - 1), b"stale").await);
        assert_eq!(refused.seen, Fence(u64::MAX));
    }

    #[tokio::test]
    async fn keys_have_fences_of_their_own() {
        let server = Redis::shared();
        let mut connection = connected(&server).await;
        set(&mut connection, "one", Fence(9), b"x").await.unwrap();
        set(&mut connection, "other", Fence(1), b"x").await.unwrap();
    }

    #[tokio::test]
    async fn the_check_can_be_put_in_front_of_any_script() {
        let server = Redis::shared();
        let script = format!("{CHECK}return redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])");
        let push = |fence: &str| server.run(&["EVAL", &script, "2", "f", "h", fence, "field", fence]);
        assert_eq!(push("8"), "1");
        assert!(push("7").starts_with("STALE 8"), "{}", push("7"));
        assert_eq!(server.run(&["HGET", "h", "field"]), "8");
    }

    #[test]
    fn a_fence_is_kept_in_the_slot_of_its_key() {
        assert_eq!(fence_key("report"), "{report}:fence");
        assert_eq!(fence_key("{team}:report"), "{team}:report:fence");
        assert_eq!(fence_key("{}x"), "{{}x}:fence");
    }
}
