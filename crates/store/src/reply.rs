//! Answers that a thread of a store finds together, told to callers that wait in runtimes.
//!
//! To wake a task from outside of its runtime takes a system call each time, and a batch has dozens of callers. So those of
//! one runtime are told by a task there, which takes one. Nobody waits for a caller of another runtime: one that is busy
//! must not hold up those who keep leases alive.

use tokio::runtime::Handle;
use tokio::sync::oneshot::{self, Receiver, Sender};

/// Where the answer of one caller goes. Dropped, the caller hears that none will come.
#[derive(Debug)]
pub struct Reply<T> {
    caller: Sender<T>,
    /// Where the caller waits, if that is a runtime.
    runtime: Option<Handle>,
}

impl<T> Reply<T> {
    /// A place for an answer, and where whoever calls this hears it.
    pub fn new() -> (Self, Receiver<T>) {
        let (caller, answer) = oneshot::channel();
        (Self { caller, runtime: Handle::try_current().ok() }, answer)
    }

    /// Whether nobody waits for it any more.
    pub fn is_closed(&self) -> bool {
        self.caller.is_closed()
    }
}

/// Tells each caller its answer.
pub fn tell<T: Send + 'static>(answers: impl IntoIterator<Item = (Reply<T>, T)>) {
    let mut batches: Vec<(Option<Handle>, Batch<T>)> = Vec::new();
    for (Reply { caller, runtime }, answer) in answers {
        let id = runtime.as_ref().map(Handle::id);
        match batches.iter_mut().find(|(runtime, _)| runtime.as_ref().map(Handle::id) == id) {
            Some((_, batch)) => batch.0.push((caller, answer)),
            None => batches.push((runtime, Batch(vec![(caller, answer)]))),
        }
    }
    for (runtime, batch) in batches {
        // One by itself is told at once.
        if let Some(runtime) = runtime.filter(|_| batch.0.len() > 1) {
            runtime.spawn(async move { drop(batch) });
        }
    }
}

/// Callers of one runtime. Dropped, they are told: by the task, or without it if the runtime takes no more tasks.
struct Batch<T>(Vec<(Sender<T>, T)>);

impl<T> Drop for Batch<T> {
    fn drop(&mut self) {
        for (caller, answer) in self.0.drain(..) {
            // It may have stopped waiting.
            let _ = caller.send(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::{Builder, Runtime};

    use super::*;

    fn runtime() -> Runtime {
        Builder::new_current_thread().build().unwrap()
    }

    fn asked_in(runtime: &Runtime) -> (Reply<u32>, Receiver<u32>) {
        let _inside = runtime.enter();
        Reply::new()
    }

    #[test]
    fn each_caller_hears_its_own_answer() {
        let runtime = runtime();
        let (replies, heard): (Vec<_>, Vec<_>) = (0..9).map(|_| asked_in(&runtime)).unzip();
        tell(replies.into_iter().zip(0..));
        for (heard, expected) in heard.into_iter().zip(0..) {
            assert_eq!(runtime.block_on(heard), Ok(expected));
        }
    }

    #[test]
    fn a_runtime_that_is_busy_holds_up_nobody_elsewhere() {
        let (busy, other) = (runtime(), runtime());
        let ours = [asked_in(&busy), asked_in(&other), asked_in(&busy), asked_in(&other), Reply::new()];
        let (replies, heard): (Vec<_>, Vec<_>) = ours.into_iter().unzip();
        tell(replies.into_iter().zip(0..));
        let mut heard = heard.into_iter();
        let (first, second) = (heard.next().unwrap(), heard.next().unwrap());
        assert_eq!(other.block_on(second), Ok(1), "the first runtime has done nothing yet");
        assert_eq!(heard.nth(2).unwrap().blocking_recv(), Ok(4), "nor is one needed");
        assert_eq!(busy.block_on(first), Ok(0));
    }

    #[test]
    fn a_runtime_that_has_ended_keeps_no_answer_to_itself() {
        let runtime = runtime();
        let (replies, heard): (Vec<_>, Vec<_>) = (0..3).map(|_| asked_in(&runtime)).unzip();
        drop(runtime);
        tell(replies.into_iter().zip(0..));
        let heard: Vec<_> = heard.into_iter().map(|heard| heard.blocking_recv()).collect();
        assert_eq!(heard, [Ok(0), Ok(1), Ok(2)]);
    }

    #[test]
    fn whoever_stopped_waiting_keeps_the_others_from_nothing() {
        let runtime = runtime();
        let (replies, mut heard): (Vec<_>, Vec<_>) = (0..3).map(|_| asked_in(&runtime)).unzip();
        let last = heard.pop().unwrap();
        drop(heard);
        assert!(replies[0].is_closed() && !replies[2].is_closed());
        tell(replies.into_iter().zip(0..));
        assert_eq!(runtime.block_on(last), Ok(2));
    }
}
