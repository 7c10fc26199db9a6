//! Log lines to stderr that hold nothing up: a terminal that is paused (Ctrl-S) or a pipe that nothing reads takes no line, and
//! a daemon that waited for it would renew no lease.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use bell_store::clock::boottime;

/// Lines that wait for a reader: less than a megabyte, and minutes of a daemon in trouble.
const LINES_MAX: usize = 4_000;

/// How long the end of this process waits for what was logged last.
const FLUSH_LIMIT: Duration = Duration::from_millis(200);

/// A writer of whole lines. What finds no room is counted and dropped.
#[derive(Clone, Debug)]
pub(crate) struct LogWriter {
    lines: SyncSender<Vec<u8>>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    waiting: AtomicU64,
    dropped: AtomicU64,
}

/// Waits for the last lines when it is dropped, but not for a stream that nothing reads.
pub(crate) struct FlushAtEnd(Arc<Counts>);

impl Drop for FlushAtEnd {
    fn drop(&mut self) {
        let until = boottime() + FLUSH_LIMIT;
        while self.0.waiting.load(Ordering::Relaxed) > 0 && boottime() < until {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl LogWriter {
    /// Writes to `out` from a thread of its own.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub(crate) fn to(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (lines, taken) = sync_channel(LINES_MAX);
        let counts = Arc::<Counts>::default();
        let counted = Arc::clone(&counts);
        thread::Builder::new().name("log".to_owned()).spawn(move || write_all(out, &taken, &counted))?;
        Ok(Self { lines, counts })
    }

    /// To be held until this process ends.
    pub(crate) fn flush_at_end(&self) -> FlushAtEnd {
        FlushAtEnd(Arc::clone(&self.counts))
    }
}

fn write_all(mut out: impl Write, lines: &Receiver<Vec<u8>>, counts: &Counts) {
    for line in lines {
        // A stream that is closed takes nothing more; a daemon goes on without its log.
        let _ = out.write_all(&line);
        let dropped = counts.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let _ = writeln!(out, "{dropped} log lines were dropped: nothing read them");
        }
        counts.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The subscriber writes each line by one call.
impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        if self.lines.try_send(line.to_vec()).is_err() {
            self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn lines_are_written_in_order() {
        let (mut read, write) = io::pipe().unwrap();
        let mut log = LogWriter::to(write).unwrap();
        log.write_all(b"one\n").unwrap();
        log.write_all(b"two\n").unwrap();
        drop(log);
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\n");
    }

    #[test]
    fn a_stream_that_nothing_reads_holds_nothing_up_and_what_was_dropped_is_counted() {
        let (mut read, write) = io::pipe().unwrap();
        let mut log = LogWriter::to(write).unwrap();
        let line = [vec![b'x'; 999], vec![b'\n']].concat();
        (0..2 * LINES_MAX).for_each(|_| log.write_all(&line).unwrap());
        drop(log);
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        let kept = text.lines().filter(|line| line.starts_with('x')).count();
        let dropped: usize = text
            .lines()
            .filter_map(|line| {
                line.strip_suffix(" log lines were dropped: nothing read them")?.parse::<usize>().ok()
            })
            .sum();
        assert!(dropped > 0 && kept + dropped == 2 * LINES_MAX, "{kept} + {dropped}");
    }
}
