//! What a program is told about a tool: its name, its description, and the shapes of arguments and answers.
//!
//! Programs rewrite the names, and some show a tool only to who searches for its words: so names explain themselves and
//! descriptions have the words that a model would look for.

use std::sync::Arc;

use rmcp::handler::server::tool::schema_for_output;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde_json::{Value, json};

/// What a program may conclude before it lets a model use a tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nature {
    /// It changes nothing.
    Look,
    /// Done twice it comes to the same as done once.
    Repeatable,
    /// Done twice it is two things.
    Act,
    /// It ends what somebody else is at.
    Destroy,
}

/// A tool that is told `Told` and answers `Answer`.
pub(crate) fn tool<Told: JsonSchema + 'static, Answer: JsonSchema + 'static>(
    name: &'static str,
    description: &'static str,
    nature: Nature,
) -> Tool {
    let hints = ToolAnnotations::new()
        .read_only(nature == Nature::Look)
        .destructive(nature == Nature::Destroy)
        .idempotent(nature != Nature::Act)
        .open_world(false);
    let mut tool =
        Tool::new(name, description, JsonObject::new()).with_input_schema::<Told>().with_annotations(hints);
    tool.input_schema = plain(tool.input_schema);
    tool.with_raw_output_schema(plain(output::<Answer>()))
}

/// The shape of an answer or a refusal: programs hold both against the one schema.
fn output<Answer: JsonSchema + 'static>() -> Arc<JsonObject> {
    let mut schema = Arc::unwrap_or_clone(schema_for_output::<Answer>());
    schema.insert("required".to_owned(), json!(["outcome"]));
    if let Some(properties) = schema.get_mut("properties").and_then(|found| found.as_object_mut()) {
        for (name, description) in
            [("message", "What happened, if it was not done."), ("hint", "What to do next.")]
        {
            let text = json!({"type": ["string", "null"], "description": description});
            properties.entry(name).or_insert(text);
        }
    }
    Arc::new(schema)
}

/// The same shape in words that every program knows: one type at a time, and no formats of our language.
fn plain(schema: Arc<JsonObject>) -> Arc<JsonObject> {
    let mut schema = Value::Object(Arc::unwrap_or_clone(schema));
    simplify(&mut schema);
    match schema {
        Value::Object(schema) => Arc::new(schema),
        _ => Arc::default(),
    }
}

fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields
                .get("format")
                .and_then(Value::as_str)
                .is_some_and(|format| format.starts_with("uint") || format.starts_with("int"))
            {
                fields.remove("format");
            }
            if let Some(Value::Array(types)) = fields.get("type") {
                let each = types.iter().map(|kind| json!({"type": kind})).collect();
                fields.insert("anyOf".to_owned(), Value::Array(each));
                fields.remove("type");
            }
            fields.values_mut().for_each(simplify);
        }
        Value::Array(all) => all.iter_mut().for_each(simplify),
        _ => {}
    }
}

/// «default: null» beside a type that is never null makes strict programs refuse the schema.
pub(crate) fn without_default(schema: &mut schemars::Schema) {
    schema.remove("default");
}

/// That any program can read what a tool says of itself.
#[cfg(test)]
pub(crate) fn check(tool: &Tool) {
    let name = &tool.name;
    assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
    assert!(tool.description.as_ref().unwrap().len() > 60, "{name}");
    let input = serde_json::to_value(&tool.input_schema).unwrap();
    assert_eq!(input["type"], "object", "{name}");
    assert_eq!(input["additionalProperties"], false, "{name}");
    let text = input.to_string();
    assert!(!text.contains("null") && !text.contains("$ref"), "{name}: {text}");
    let output = serde_json::to_value(tool.output_schema.as_ref().unwrap()).unwrap();
    assert_eq!(output["type"], "object", "{name}");
    for word in ["\"format\"", "\"type\":["] {
        assert!(!format!("{input}{output}").contains(word), "{name} has {word}");
    }
    for field in ["outcome", "message", "hint"] {
        assert!(output["properties"][field].is_object(), "{name} has no {field}");
    }
}
