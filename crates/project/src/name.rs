//! What an agent is called, and how that is described to editors.

use schemars::{Schema, SchemaGenerator, json_schema};

pub use bell_core::work::agent::{AgentName, NAME_CHARS_MAX, NameError};

/// The schema of a list of names.
pub(crate) fn names_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["array", "null"],
        "items": {"type": "string", "maxLength": NAME_CHARS_MAX, "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"}
    })
}
