//! Traces from a trigger to the exit of its agent, sent to an OpenTelemetry collector (feature `otel`).
//!
//! A trace is made of a job's records when one of its runs has ended here. Its id is the job's own, and the ids of its spans
//! follow from that: nothing is stored for it or handed on, and nodes that had runs of one job add to one trace. What ends
//! while no daemon watches over it has no trace.

#[cfg(feature = "otel")]
mod export;
#[cfg(feature = "otel")]
mod spans;

use bell_coord::Coord;
use bell_core::work::run::RunId;

/// Where traces go, if anywhere: to where `OTEL_EXPORTER_OTLP_ENDPOINT` says.
#[derive(Default)]
pub(crate) struct Traces {
    #[cfg(feature = "otel")]
    exporter: Option<export::Exporter>,
}

#[cfg(feature = "otel")]
impl Traces {
    pub(crate) fn from_env() -> Self {
        Self { exporter: export::Exporter::from_env() }
    }

    /// Sends the spans of a run that has ended. Returns when that is done or has failed, soon either way.
    pub(crate) async fn ended(&self, coord: &Coord, run: &RunId) {
        let Some(exporter) = &self.exporter else { return };
        match spans::of(coord, run).await {
            Ok(spans) => exporter.send(spans).await,
            Err(error) => tracing::warn!(%run, %error, "could not read what a trace is made of"),
        }
    }
}

#[cfg(not(feature = "otel"))]
impl Traces {
    pub(crate) fn from_env() -> Self {
        Self {}
    }

    /// Does nothing: this was built without traces.
    pub(crate) async fn ended(&self, _coord: &Coord, _run: &RunId) {}
}
