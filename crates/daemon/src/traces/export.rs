//! Sending spans: OTLP over HTTP, without TLS.

use std::time::{Duration, SystemTime};

use bell_core::work::Wall;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use tokio::sync::Mutex;

use super::spans::Span;

/// A collector that takes longer is not waited for: the end of a run is more important than its trace.
const SENT_WITHIN: Duration = Duration::from_secs(2);

/// The standard names of where to send traces.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];

/// The way to a collector.
pub(super) struct Exporter {
    /// It takes one batch at a time.
    exporter: Mutex<SpanExporter>,
}

impl Exporter {
    /// To where the environment says; `None` if it says nothing.
    pub(super) fn from_env() -> Option<Self> {
        ENDPOINTS.iter().find(|name| std::env::var_os(name).is_some())?;
        let built = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(SENT_WITHIN)
            .build();
        match built {
            Ok(mut exporter) => {
                let resource = Resource::builder().with_service_name("bell");
                exporter.set_resource(
                    &resource.with_attribute(KeyValue::new("service.version", VERSION)).build(),
                );
                Some(Self { exporter: Mutex::new(exporter) })
            }
            Err(error) => {
                tracing::warn!(%error, "could not use the collector of traces");
                None
            }
        }
    }

    /// Sends spans. What can't be sent is lost, and a warning says so.
    pub(super) async fn send(&self, spans: Vec<Span>) {
        let batch: Vec<SpanData> = spans.into_iter().filter_map(data).collect();
        if batch.is_empty() {
            return;
        }
        let send = async { self.exporter.lock().await.export(batch).await };
        match tokio::time::timeout(SENT_WITHIN, send).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "could not send a trace"),
            Err(_late) => tracing::warn!("could not send a trace in time"),
        }
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A span as the exporter wants it; `None` if its job's name is no trace's.
fn data(span: Span) -> Option<SpanData> {
    let trace = TraceId::from_hex(&span.trace).ok()?;
    let id = SpanId::from_bytes(span.id.to_be_bytes());
    let attributes = span.attributes.into_iter().map(|(name, value)| KeyValue::new(name, value));
    Some(SpanData {
        span_context: SpanContext::new(trace, id, TraceFlags::SAMPLED, false, TraceState::default()),
        parent_span_id: span
            .parent
            .map_or(SpanId::INVALID, |parent| SpanId::from_bytes(parent.to_be_bytes())),
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: span.name.into(),
        start_time: time(span.start),
        end_time: time(span.end),
        attributes: attributes.collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: span.failure.map_or(Status::Unset, Status::error),
        instrumentation_scope: InstrumentationScope::builder("bell").with_version(VERSION).build(),
    })
}

fn time(wall: Wall) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(wall.0)
}
