//! Other processes: this program again, with an order.
//!
//! An order goes out as JSON in the arguments, its result comes back as JSON on standard output. A worker
//! that has to begin together with others says that it is ready and waits for a line.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{bytes, handover, http, pairs};

/// What a worker is to do.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    Pairs(pairs::Order),
    Handover(handover::Order),
    Bytes(bytes::Order),
    Empty(http::empty::Order),
    Served(http::served::Order),
}

/// A process that carries out an order. Dropped, it is killed.
pub(crate) struct Worker {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Worker {
    pub(crate) fn start(order: &Order) -> Result<Self> {
        let program = std::env::current_exe().context("could not find this program")?;
        #[expect(clippy::disallowed_methods, reason = "the one place of this program that starts processes")]
        let mut command = Command::new(program);
        command.arg("--worker").arg(serde_json::to_string(order)?);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("could not read from the worker")?;
        Ok(Self { child, output: BufReader::new(output) })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn wait_until_ready(&mut self) -> Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        ensure!(line == READY, "the worker ended before it was ready");
        Ok(())
    }

    pub(crate) fn begin(&mut self) -> Result<()> {
        let input = self.child.stdin.as_mut().context("could not write to the worker")?;
        Ok(input.write_all(b"begin\n")?)
    }

    /// Waits for the result.
    pub(crate) fn result<T: DeserializeOwned>(mut self) -> Result<T> {
        let mut text = String::new();
        self.output.read_to_string(&mut text)?;
        ensure!(self.child.wait()?.success(), "the worker failed");
        Ok(serde_json::from_str(&text)?)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Both fail if it has ended, as it should have.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const READY: &str = "ready\n";

/// Says that this worker is ready and waits until it may begin.
pub(crate) fn ready() -> Result<()> {
    let mut out = io::stdout();
    out.write_all(READY.as_bytes())?;
    out.flush()?;
    io::stdin().read_line(&mut String::new())?;
    Ok(())
}

/// The whole life of a worker.
pub(crate) fn carry_out(order: &str) -> Result<()> {
    let result = match serde_json::from_str(order)? {
        Order::Pairs(order) => serde_json::to_string(&order.carry_out()?),
        Order::Handover(order) => serde_json::to_string(&order.carry_out()?),
        Order::Bytes(order) => serde_json::to_string(&order.carry_out()?),
        Order::Empty(order) => serde_json::to_string(&order.carry_out()?),
        Order::Served(order) => serde_json::to_string(&order.carry_out()?),
    };
    println!("{}", result?);
    Ok(())
}
