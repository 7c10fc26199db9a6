//! Records of the work as they are stored: JSON, but for what came from outside, which is kept as it came: what came with a
//! trigger, and the body of a delivery behind its line of JSON.

use std::sync::Arc;

use bell_core::work::delivery::Delivery;
use bell_core::work::row::{Row, RowId};
use bell_store::{Error, Kind, Name};

use crate::denied::Denied;
use crate::load::decode as json;
use crate::transact::encode as to_json;

/// Bytes that a delivery that one agent wants takes beside its body, nearly always.
const DELIVERY_BYTES: usize = 768;

pub(crate) fn decode(id: &RowId, name: &Name, value: &[u8]) -> Result<Row, Error> {
    Ok(match id {
        RowId::Pool => Row::Pool(json(name, value)?),
        RowId::Line(_) => Row::Line(json(name, value)?),
        RowId::Ticket(..) => Row::Ticket(json(name, value)?),
        RowId::Job(_) => Row::Job(json(name, value)?),
        RowId::Payload(_) => Row::Payload(text(name, value)?.into()),
        RowId::Run(_) => Row::Run(json(name, value)?),
        RowId::Fire(..) => Row::Fire(json(name, value)?),
        RowId::Once(_) => Row::Once(json(name, value)?),
        RowId::Delay(..) => Row::Delay(json(name, value)?),
        RowId::Undone(..) => Row::Undone(json(name, value)?),
        RowId::History(..) => Row::History(json(name, value)?),
        RowId::Delivery(..) => Row::Delivery(Arc::new(delivery(name, value)?)),
        RowId::Seen(_) => Row::Seen(json(name, value)?),
    })
}

fn text(name: &Name, value: &[u8]) -> Result<String, Error> {
    String::from_utf8(value.to_vec())
        .map_err(|error| Error::new(Kind::Corrupt, format!("read the record {name}")).because(error))
}

/// A line of JSON, and the body behind it unless it was too large to keep.
pub(crate) fn delivery(name: &Name, value: &[u8]) -> Result<Delivery, Error> {
    // JSON on one line has no line break in it.
    let end = value.iter().position(|byte| *byte == b'\n').unwrap_or(value.len());
    let head: Delivery = json(name, &value[..end])?;
    let body = value.get(end + 1..).unwrap_or_default();
    Ok(Delivery { body: (body.len() == head.bytes).then(|| body.into()), ..head })
}

pub(crate) fn encode(row: &Row) -> Result<Vec<u8>, Denied> {
    match row {
        Row::Pool(pool) => to_json(pool),
        Row::Line(line) => to_json(line),
        Row::Ticket(ticket) => to_json(ticket),
        Row::Job(job) => to_json(job),
        Row::Payload(text) => Ok(text.as_bytes().to_vec()),
        Row::Run(run) => to_json(run),
        Row::Fire(fire) => to_json(fire),
        Row::Once(job) => to_json(job),
        Row::Delay(agent) => to_json(agent),
        Row::Undone(undone) => to_json(undone),
        Row::History(event) => to_json(event),
        Row::Delivery(delivery) => {
            let body = delivery.body.as_deref().unwrap_or_default();
            let mut value = Vec::with_capacity(DELIVERY_BYTES + body.len());
            serde_json::to_writer(&mut value, delivery).map_err(unwritten)?;
            value.push(b'\n');
            value.extend_from_slice(body);
            Ok(value)
        }
        Row::Seen(seen) => to_json(seen),
    }
}

fn unwritten(error: serde_json::Error) -> Denied {
    Error::new(Kind::Invalid, "encode a record").because(error).into()
}
