//! Answers of a server, as RESP2 writes them.

use redis::{RedisResult, Value};

/// The longest list of lists that is read: a script's answer has lists of records.
const MAX_DEPTH: usize = 4;

/// Something that no server says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Nonsense;

/// An answer, or the server's error, and the bytes after it. `None`: it is not all there yet.
pub(crate) type Answer<'a> = Option<(RedisResult<Value>, &'a [u8])>;

/// Reads the first answer.
pub(crate) fn value(bytes: &[u8]) -> Result<Answer<'_>, Nonsense> {
    let Some((line, rest)) = line(bytes) else { return Ok(None) };
    if line.first() == Some(&b'-') {
        let said = &bytes[..bytes.len() - rest.len()];
        let error = redis::parse_redis_value(said).and_then(Value::extract_error);
        return Ok(Some((error, rest)));
    }
    Ok(part(bytes, MAX_DEPTH)?.map(|(value, rest)| (Ok(value), rest)))
}

fn part(bytes: &[u8], depth: usize) -> Result<Option<(Value, &[u8])>, Nonsense> {
    let Some((line, rest)) = line(bytes) else { return Ok(None) };
    let (kind, text) = line.split_first().ok_or(Nonsense)?;
    match kind {
        b'+' => Ok(Some((Value::SimpleString(String::from_utf8_lossy(text).into_owned()), rest))),
        b':' => Ok(Some((Value::Int(number(text)?), rest))),
        b'$' => match usize::try_from(number(text)?) {
            Ok(length) => string(rest, length),
            Err(_) => Ok(Some((Value::Nil, rest))),
        },
        b'*' => match usize::try_from(number(text)?) {
            Ok(length) => list(rest, length, depth.checked_sub(1).ok_or(Nonsense)?),
            Err(_) => Ok(Some((Value::Nil, rest))),
        },
        _ => Err(Nonsense),
    }
}

fn string(bytes: &[u8], length: usize) -> Result<Option<(Value, &[u8])>, Nonsense> {
    let Some((string, rest)) = bytes.split_at_checked(length) else { return Ok(None) };
    match rest {
        [b'\r', b'\n', rest @ ..] => Ok(Some((Value::BulkString(string.to_vec()), rest))),
        [] | [b'\r'] => Ok(None),
        _ => Err(Nonsense),
    }
}

fn list(mut bytes: &[u8], length: usize, depth: usize) -> Result<Option<(Value, &[u8])>, Nonsense> {
    let mut items = Vec::new();
    for _ in 0..length {
        let Some((item, rest)) = part(bytes, depth)? else { return Ok(None) };
        items.push(item);
        bytes = rest;
    }
    Ok(Some((Value::Array(items), bytes)))
}

/// The first line without its end, and what follows.
fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    Some((&bytes[..end], &bytes[end + 2..]))
}

fn number(text: &[u8]) -> Result<i64, Nonsense> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(Nonsense)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_answer_is_read() {
        let bytes = b"*5\r\n$2\r\nok\r\n:-7\r\n$-1\r\n*1\r\n*0\r\n+fine\r\nrest";
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let inner = Value::Array(vec![Value::Array(Vec::new())]);
        let list =
            vec![text("ok"), Value::Int(-7), Value::Nil, inner, Value::SimpleString("fine".to_owned())];
        let (value, rest) = value(bytes).unwrap().unwrap();
        assert_eq!((value.unwrap(), rest), (Value::Array(list), &b"rest"[..]));
    }

    #[test]
    fn half_an_answer_is_none_wherever_it_ends() {
        let bytes = b"*2\r\n$2\r\n\r\n\r\n*1\r\n:7\r\n";
        for end in 0..bytes.len() {
            assert!(value(&bytes[..end]).unwrap().is_none(), "{end}");
        }
        assert!(value(bytes).unwrap().is_some());
    }

    #[test]
    fn the_server_s_error_is_an_error() {
        let (error, rest) = value(b"-READONLY You can't write\r\n:1\r\n").unwrap().unwrap();
        assert_eq!((error.unwrap_err().code(), rest), (Some("READONLY"), &b":1\r\n"[..]));
    }

    #[test]
    fn what_no_server_says_is_nonsense() {
        for bytes in [&b"HTTP/1.1 400\r\n"[..], b"$x\r\n", b"$1\r\nabc", b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"] {
            assert!(value(bytes).is_err(), "{bytes:?}");
        }
    }
}
