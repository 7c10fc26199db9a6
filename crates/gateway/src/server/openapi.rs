//! What can be asked of this server, as OpenAPI 3.1: made from the table of operations and the types that the routes
//! read and write, so it says what is so.

mod operation;
pub mod page;
mod shapes;
mod table;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::Response;
use axum::routing::get;
use bell_api::refused::Refused;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::Server;
use operation::{Answers, Needs, Operation, Shape};

/// Needs no key: it says nothing of this fleet.
pub(crate) fn open() -> Router<Server> {
    Router::new().route("/openapi.json", get(openapi))
}

async fn openapi() -> Response {
    // The same for everybody, and made once.
    static TEXT: OnceLock<Bytes> = OnceLock::new();
    let text = TEXT.get_or_init(|| Bytes::from(document().to_string()));
    let mut response = Response::new(Body::from(text.clone()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The whole document.
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut types = settings.into_generator();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for operation in table::operations() {
        let said = say(&operation, &mut types);
        paths.entry(operation.path).or_default().insert(operation.method.to_owned(), said);
    }
    let topics: Vec<Value> =
        table::TOPICS.iter().map(|(name, about)| json!({ "name": name, "description": about })).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Bellwether",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "A fleet of agents, their locks, and what comes from outside",
            "description": table::ABOUT,
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
        },
        "servers": [{ "url": "/" }],
        "tags": topics,
        "paths": paths,
        "components": {
            "schemas": types.take_definitions(true),
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key: bell keys add makes one, and the first is in .bell/api-key.",
                },
                "session": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token of a session, as the answer of POST /v1/sessions has it.",
                },
            },
        },
    })
}

fn say(operation: &Operation, types: &mut SchemaGenerator) -> Value {
    let mut parameters: Vec<Value> = names_in(operation.path).map(path_parameter).collect();
    parameters.extend(operation.query.into_iter().flat_map(|query| query_parameters(query, types)));
    let mut said = json!({
        "operationId": operation.id(),
        "tags": [operation.topic],
        "summary": operation.summary,
        "parameters": parameters,
        "responses": responses(operation, types),
        "security": security(operation.needs),
    });
    let mut add =
        |name: &str, value: Value| said.as_object_mut().map(|said| said.insert(name.to_owned(), value));
    if !operation.details.is_empty() {
        add("description", json!(operation.details));
    }
    if operation.takes_bytes {
        add("requestBody", json!({ "required": true, "content": { "*/*": { "schema": {} } } }));
    }
    if let Some(body) = operation.body {
        let schema = body(types);
        add(
            "requestBody",
            json!({ "required": true, "content": { "application/json": { "schema": schema } } }),
        );
    }
    said
}

fn names_in(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn path_parameter(name: &str) -> Value {
    let description = match name {
        "agent" => "The agent.",
        "run" => "The run. For its output also an agent (its last run), or - (the last run of all).",
        "job" => "The job.",
        "delivery" => "The delivery: the id that its source gave.",
        "source" => "The source, as config.toml calls it.",
        _ => "Its name.",
    };
    json!({ "name": name, "in": "path", "required": true, "description": description, "schema": { "type": "string" } })
}

/// The fields of a question, each as a name in the query.
fn query_parameters(query: Shape, types: &mut SchemaGenerator) -> Vec<Value> {
    let name = query(types).as_value().pointer("/$ref").and_then(Value::as_str).map(str::to_owned);
    // It is nothing but its fields here, so it is no type of its own.
    let name = name.as_deref().and_then(|name| name.rsplit('/').next()).unwrap_or_default();
    let Some(Value::Object(shape)) = types.definitions_mut().remove(name) else { return Vec::new() };
    let required: Vec<&str> = shape
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let fields = shape.get("properties").and_then(Value::as_object).into_iter().flatten();
    let parameters = fields.map(|(name, schema)| {
        let mut schema = never_null(schema.clone());
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        let required = required.contains(&name.as_str());
        json!({ "name": name, "in": "query", "required": required, "description": description, "schema": schema })
    });
    parameters.collect()
}

/// What is not there in a query is left out; nothing is null.
fn never_null(mut schema: Value) -> Value {
    let Some(fields) = schema.as_object_mut() else { return schema };
    fields.remove("default");
    if let Some(Value::Array(kinds)) = fields.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = &kinds[..] {
            let only = only.clone();
            fields.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(options)) = fields.remove("anyOf") {
        let options = options.into_iter().filter(|option| option.get("type") != Some(&json!("null")));
        for (name, value) in options.filter_map(|option| option.as_object().cloned()).flatten() {
            fields.insert(name, value);
        }
    }
    schema
}

fn responses(operation: &Operation, types: &mut SchemaGenerator) -> Value {
    let mut responses: BTreeMap<u16, Value> = BTreeMap::new();
    let refusal = types.subschema_for::<Refused<'static>>();
    for (status, words) in operation.refusals() {
        let content = json!({ "application/json": { "schema": refusal } });
        responses.insert(status, json!({ "description": words, "content": content }));
    }
    for (status, words) in operation.successes() {
        let content = match operation.answers {
            Answers::Json(shape) => json!({ "application/json": { "schema": shape(types) } }),
            Answers::Events(shape) => events(shape, types),
            Answers::Both(whole, shape) => {
                let mut content = events(shape, types);
                content["application/json"] = json!({ "schema": whole(types) });
                content
            }
            Answers::Object => json!({ "application/json": { "schema": { "type": "object" } } }),
            Answers::Text(kind) => json!({ kind: { "schema": { "type": "string" } } }),
            Answers::Nothing => json!({}),
        };
        responses.insert(status, json!({ "description": words, "content": content }));
    }
    for (status, words) in operation.bare {
        responses.insert(*status, json!({ "description": words }));
    }
    let by_status: BTreeMap<String, Value> =
        responses.into_iter().map(|(status, said)| (status.to_string(), said)).collect();
    json!(by_status)
}

fn events(shape: Shape, types: &mut SchemaGenerator) -> Value {
    let about = "Server-sent events; the data of each is x-data.";
    let schema = json!({ "type": "string", "description": about, "x-data": shape(types) });
    json!({ "text/event-stream": { "schema": schema } })
}

fn security(needs: Needs) -> Value {
    match needs {
        Needs::Nothing | Needs::Signature => json!([]),
        Needs::Key | Needs::FullKey => json!([{ "key": [] }]),
        Needs::Session => json!([{ "session": [] }]),
        Needs::KeyOrSession | Needs::KeyOrRun => json!([{ "key": [] }, { "session": [] }]),
    }
}

#[cfg(test)]
mod tests;
