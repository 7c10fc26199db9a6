//! The settings as JSON Schema, for editors, and as a page, for people.

use schemars::{JsonSchema, schema_for};
use serde_json::{Map, Value, json};

use crate::node::camel;
use crate::settings::{AgentSettings, ProjectSettings};

/// What `config.toml` of a project may hold.
pub fn project() -> Value {
    schema::<ProjectSettings>("Bellwether: config.toml of a project")
}

/// What the frontmatter of an agent, or its `config.toml`, may hold.
pub fn agent() -> Value {
    schema::<AgentSettings>("Bellwether: the settings of an agent")
}

fn schema<T: JsonSchema>(title: &str) -> Value {
    let mut schema = schema_for!(T).to_value();
    schema["title"] = json!(title);
    add_camel(&mut schema);
    schema
}

/// Both spellings of a key are read, so both are in the schema.
fn add_camel(value: &mut Value) {
    if let Some(Value::Object(properties)) = value.get_mut("properties") {
        let other = properties.iter().filter(|(name, _)| camel(name) != **name);
        let other: Vec<(String, Value)> = other.map(|(name, schema)| (camel(name), schema.clone())).collect();
        properties.extend(other);
    }
    match value {
        Value::Object(map) => map.values_mut().for_each(add_camel),
        Value::Array(items) => items.iter_mut().for_each(add_camel),
        _ => {}
    }
}

/// The reference page: every key with its type, default and meaning.
pub fn markdown() -> String {
    let mut page = String::from(INTRODUCTION);
    for (title, text, schema) in [
        ("`config.toml` of a project", PROJECT_TEXT, schema_for!(ProjectSettings).to_value()),
        ("Settings of an agent", AGENT_TEXT, schema_for!(AgentSettings).to_value()),
    ] {
        page.push_str(&format!(
            "\n## {title}\n\n{text}\n\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n"
        ));
        rows(&schema, &schema, "", &mut page);
    }
    page
}

const INTRODUCTION: &str = "# Settings\n\nMade from the code; `bell config schema` prints the same as JSON Schema, and `bell config show` says what is set \
and where. Each key may be spelt in snake_case, as here, or in camelCase. Unknown keys and wrong values are refused with file, line and column. Lengths of time \
are numbers of seconds or text such as `30s`, `10m`, `2h`, `7d`; sizes are numbers of bytes or text such as `64K`, `512M`, `2G`.\n";

const PROJECT_TEXT: &str = "In the folder of the project. The file may be missing. With an error in it `bell up` does not start; a running daemon keeps \
the last good version, and `bell stat` lists the error.";

const AGENT_TEXT: &str = "In the frontmatter of `SKILL.md`, beside the fields of the Agent Skills format (`name`, `description`, `license`, `compatibility`, \
`metadata`, `allowed-tools`); or there under `metadata`, as text (`\"3\"`, `\"a b\"` or `\"[\\\"a\\\"]\"` for a list, JSON for a table); or in `config.toml` beside \
`SKILL.md`. A key of `config.toml` replaces the same key of the frontmatter as a whole.";

fn rows(root: &Value, schema: &Value, prefix: &str, page: &mut String) {
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    for (name, property) in properties {
        let key = format!("{prefix}{name}");
        let inner = resolved(root, property);
        let default = property.get("default").unwrap_or(&Value::Null);
        let meaning = property.get("description").or_else(|| inner.get("description"));
        let meaning =
            meaning.and_then(Value::as_str).unwrap_or_default().replace('\n', " ").replace('|', "\\|");
        page.push_str(&format!("| `{key}` | {} | {} | {meaning} |\n", kind(root, property), shown(default)));
        if inner.get("properties").is_some() {
            rows(root, inner, &format!("{key}."), page);
        }
        if let Some(each) = inner.get("additionalProperties").map(|each| resolved(root, each)) {
            rows(root, each, &format!("{key}.<name>."), page);
        }
    }
}

/// What a reference leads to; of something that may be missing, what it is otherwise.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema.get("$ref").and_then(Value::as_str);
    if let Some(name) = reference.and_then(|reference| reference.strip_prefix("#/$defs/")) {
        return root.get("$defs").and_then(|defs| defs.get(name)).unwrap_or(schema);
    }
    let options = schema.get("anyOf").and_then(Value::as_array);
    match options.map(Vec::as_slice) {
        Some([option, null]) if null.get("type") == Some(&json!("null")) => resolved(root, option),
        _ => schema,
    }
}

fn kind(root: &Value, property: &Value) -> String {
    let schema = resolved(root, property);
    let words: Vec<String> = ["oneOf", "anyOf"]
        .iter()
        .filter_map(|name| schema.get(name).and_then(Value::as_array))
        .flatten()
        .filter_map(|option| option.get("const").and_then(Value::as_str))
        .map(|word| format!("`{word}`"))
        .collect();
    if !words.is_empty() {
        return words.join(", ");
    }
    let reference = property.get("$ref").or_else(|| property.get("anyOf")?.get(0)?.get("$ref"));
    match reference.and_then(Value::as_str).and_then(|reference| reference.rsplit('/').next()) {
        Some("Length") => return "time".to_owned(),
        Some("Size") => return "size".to_owned(),
        Some("Cpus") => return "number".to_owned(),
        Some("Zone") => return "time zone".to_owned(),
        Some("CronExpression") => return "cron expression".to_owned(),
        Some("StoreUrl") => return "URL".to_owned(),
        Some("Run") => return "list or text".to_owned(),
        Some("SecretList") => return "list or table".to_owned(),
        Some("SecretRefs") => return "reference or list".to_owned(),
        _ => {}
    }
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str).unwrap_or_default(),
        _ => "",
    };
    match kind {
        "object" => "table",
        "array" => "list",
        "integer" => "whole number",
        "number" => "number",
        "string" => "text",
        "boolean" => "true or false",
        _ => "value",
    }
    .to_owned()
}

fn shown(default: &Value) -> String {
    match default {
        Value::Null | Value::Object(_) => String::new(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    }
}
