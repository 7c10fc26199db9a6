//! Clients that take little of the processors they share with what is measured: one thread, requests that are made
//! beforehand but for their ids, and a look only at connections that the kernel says have an answer.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bell_store::clock::boottime;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use super::Request;
use crate::figures::ns;

/// How long nothing may be answered.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// Digits of an id, as many as GitHub's have.
const ID_DIGITS: usize = 32;

/// Bytes of an answer, with room to spare.
const ANSWER_BYTES: usize = 4 << 10;

/// Asks again and again, each client once at a time, until the time has come and everything is answered. How long each
/// took, in nanoseconds.
pub(super) fn ask(address: &str, count: usize, request: &Request, until: Duration) -> Result<Vec<u64>> {
    let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let (mut ids, mut clients) = (Ids::default(), Vec::with_capacity(count));
    for number in 0..count {
        let mut client = Client::connect(address, request)?;
        let data = epoll::EventData::new_u64(u64::try_from(number)?);
        epoll::add(&ready, &client.stream, data, epoll::EventFlags::IN)?;
        client.send(&mut ids)?;
        clients.push(client);
    }
    let (mut taken, mut events) = (Vec::new(), Vec::with_capacity(count));
    let mut asking = count;
    while asking > 0 {
        epoll::wait(&ready, spare_capacity(&mut events), Some(&PATIENCE))?;
        ensure!(!events.is_empty(), "the daemon does not answer");
        for event in events.drain(..) {
            let client = &mut clients[usize::try_from(event.data.u64())?];
            let Some(took) = client.answer(request.status)? else { continue };
            taken.push(ns(took));
            if client.sent + took < until {
                client.send(&mut ids)?;
            } else {
                asking -= 1;
            }
        }
    }
    Ok(taken)
}

/// Ids of deliveries: never the same, and random to a store, as GitHub's are.
#[derive(Default)]
struct Ids(u128);

impl Ids {
    fn write(&mut self, digits: &mut [u8]) {
        self.0 += 1;
        let id = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        for (digit, shift) in digits.iter_mut().zip((0..128).step_by(4)) {
            *digit = b"0123456789abcdef"[(id >> shift & 0xf) as usize];
        }
    }
}

/// A connection that stays open, with one request on its way.
struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    id_at: usize,
    answer: Vec<u8>,
    sent: Duration,
}

impl Client {
    fn connect(address: &str, request: &Request) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let id = "0".repeat(ID_DIGITS);
        Ok(Self {
            stream,
            request: [&request.before_id, &id, &request.after_id].map(String::as_bytes).concat(),
            id_at: request.before_id.len(),
            answer: Vec::with_capacity(ANSWER_BYTES),
            sent: Duration::ZERO,
        })
    }

    fn send(&mut self, ids: &mut Ids) -> Result<()> {
        ids.write(&mut self.request[self.id_at..self.id_at + ID_DIGITS]);
        self.answer.clear();
        self.sent = boottime();
        // The kernel takes some hundred kilobytes, and what was sent before has been answered.
        self.stream.write_all(&self.request).context("could not send a request in one piece")
    }

    /// How long the answer took, once it is here.
    fn answer(&mut self, status: &[u8]) -> Result<Option<Duration>> {
        let mut bytes = [0; ANSWER_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(0) => bail!("the daemon hung up: {}", String::from_utf8_lossy(&self.answer)),
            Ok(count) => self.answer.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        if !is_whole(&self.answer)? {
            return Ok(None);
        }
        ensure!(self.answer.starts_with(status), "refused: {}", String::from_utf8_lossy(&self.answer));
        Ok(Some(boottime() - self.sent))
    }
}

fn is_whole(answer: &[u8]) -> Result<bool> {
    let Some(end) = find(answer, b"\r\n\r\n") else { return Ok(false) };
    let name = b"\r\ncontent-length: ";
    let length = find(&answer[..end + 2], name).context("the answer does not say how long it is")?;
    let digits = answer[length + name.len()..].iter().take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
    Ok(answer.len() >= end + 4 + length)
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_when_all_of_its_body_is_here() {
        let whole = b"HTTP/1.1 202 Accepted\r\nx: y\r\ncontent-length: 12\r\n\r\n{\"a\":\"b\",\"c\"";
        for cut in 0..whole.len() {
            assert!(!is_whole(&whole[..cut]).unwrap_or(false), "{cut}");
        }
        assert!(is_whole(whole).unwrap());
        assert!(is_whole(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }

    #[test]
    fn ids_are_distinct_and_as_long_as_they_should_be() {
        let mut ids = Ids::default();
        let mut next = || {
            let mut id = [0; ID_DIGITS];
            ids.write(&mut id);
            id
        };
        let (one, other) = (next(), next());
        assert_ne!(one, other);
        assert!(one.iter().all(u8::is_ascii_hexdigit));
    }
}
