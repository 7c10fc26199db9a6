//! A process of the story, as the demonstration sees it.

use std::io;

use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use bell_verify::drill::actor;

use super::role::Order;
use crate::run::start::this_program;

/// A process that follows orders. Dropped, it is killed.
pub(super) struct Actor {
    process: actor::Actor,
    pub(super) pid: u32,
}

impl Actor {
    /// Starts a process on the store at `url`.
    pub(super) fn enter(name: &str, url: &str) -> Result<Self, String> {
        let program = this_program(&["--store", url, "__actor", "--name", name]);
        let process = actor::Actor::enter(program);
        let process = process.map_err(|error| format!("could not start a process: {error}"))?;
        Ok(Self { pid: process.pid(), process })
    }

    /// Gives an order, without waiting for the answer.
    pub(super) async fn order(&mut self, order: &Order) -> Result<(), String> {
        let sent = self.process.order(order).await;
        sent.map_err(|error| format!("process {} can't be told anything: {error}", self.pid))
    }

    /// The answer to the oldest order that has none yet.
    pub(super) async fn answer(&mut self) -> Result<LockAnswer, String> {
        let answer: io::Result<LockAnswer> = self.process.answer().await;
        answer.map_err(|error| format!("process {} did not answer: {error}", self.pid))
    }

    /// Gives an order whose answer must be `expected`.
    pub(super) async fn must(&mut self, order: &Order, expected: Outcome) -> Result<LockAnswer, String> {
        self.order(order).await?;
        self.must_answer(expected).await
    }

    /// The answer to the oldest order, which must be `expected`.
    pub(super) async fn must_answer(&mut self, expected: Outcome) -> Result<LockAnswer, String> {
        let answer = self.answer().await?;
        if answer.outcome == expected {
            return Ok(answer);
        }
        let message = answer.message.unwrap_or_default();
        Err(format!(
            "process {} should have been told {expected}, not {}: {message}",
            self.pid, answer.outcome
        ))
    }

    /// Kills it, as a crash would.
    pub(super) fn kill(&mut self) -> Result<(), String> {
        self.process.kill().map_err(|error| format!("could not kill process {}: {error}", self.pid))
    }

    /// Pauses it, and returns when it stands still.
    pub(super) async fn pause(&self) -> Result<(), String> {
        self.process.pause().await.map_err(|error| format!("could not pause process {}: {error}", self.pid))
    }

    /// Lets it go on.
    pub(super) fn resume(&self) -> Result<(), String> {
        self.process.resume().map_err(|error| format!("could not wake process {}: {error}", self.pid))
    }
}
