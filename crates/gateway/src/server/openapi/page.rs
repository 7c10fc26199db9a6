//! The document as a page for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Value};

use super::{document, table};

/// The reference page, in Markdown.
pub fn markdown() -> String {
    let document = document();
    let mut page = format!(
        "# HTTP API\n\nMade from the code: what `bell up` serves on its port and on `.bell/bell.sock`. The same as OpenAPI 3.1 \
         is at `/openapi.json`, which needs no key.\n\n{}\n",
        table::ABOUT
    );
    let operations = table::operations();
    for (topic, about) in table::TOPICS {
        let _ = writeln!(page, "\n## {topic}\n\n{about}\n");
        page.push_str("| request | what it does | needs |\n| --- | --- | --- |\n");
        for operation in operations.iter().filter(|operation| operation.topic == *topic) {
            let (method, path) = (operation.method.to_uppercase(), operation.path);
            let _ =
                writeln!(page, "| `{method} {path}` | {} | {} |", operation.summary, operation.needs.words());
        }
        for operation in operations.iter().filter(|operation| operation.topic == *topic) {
            let at = document.pointer(&format!(
                "/paths/{}/{}",
                operation.path.replace('/', "~1"),
                operation.method
            ));
            if let Some(said) = at {
                write_operation(&mut page, operation.method, operation.path, said);
            }
        }
    }
    write_types(&mut page, &document);
    page
}

fn write_operation(page: &mut String, method: &str, path: &str, said: &Value) {
    let _ = writeln!(page, "\n### {} {path}\n", method.to_uppercase());
    for words in [&said["summary"], &said["description"]].into_iter().filter_map(Value::as_str) {
        let stop = if words.ends_with('.') { "" } else { "." };
        let _ = writeln!(page, "{words}{stop}\n");
    }
    let parameters: Vec<&Value> = said["parameters"].as_array().into_iter().flatten().collect();
    if !parameters.is_empty() {
        page.push_str("| name | in | type | what it is |\n| --- | --- | --- | --- |\n");
        for one in parameters {
            let (name, place) = (text(&one["name"]), text(&one["in"]));
            let _ = writeln!(
                page,
                "| `{name}` | {place} | {} | {} |",
                kind(&one["schema"]),
                line(&one["description"])
            );
        }
        page.push('\n');
    }
    if let Some(body) = said.pointer("/requestBody/content/application~1json/schema") {
        let _ = writeln!(page, "Body: {}.\n", kind(body));
    }
    let answers = said["responses"].as_object().into_iter().flatten();
    let answers: Vec<String> = answers.map(|(status, said)| answer(status, said)).collect();
    let _ = writeln!(page, "Answers: {}.", answers.join("; "));
}

fn answer(status: &str, said: &Value) -> String {
    if !status.starts_with('2') {
        return status.to_owned();
    }
    let content = said["content"].as_object().into_iter().flatten();
    let kinds: Vec<String> = content
        .map(|(media, said)| match (media.as_str(), said.pointer("/schema/x-data")) {
            (_, Some(data)) => format!("events with {}", kind(data)),
            ("application/json", None) => kind(&said["schema"]),
            (media, None) => format!("`{media}`"),
        })
        .collect();
    format!("{status} {}", kinds.join(" or "))
}

fn write_types(page: &mut String, document: &Value) {
    page.push_str("\n## Types\n");
    let types: BTreeMap<&String, &Value> =
        document.pointer("/components/schemas").and_then(Value::as_object).into_iter().flatten().collect();
    for (name, schema) in types {
        let _ = writeln!(page, "\n### {name}\n\n{}\n", line(&schema["description"]));
        if let Some(fields) = schema["properties"].as_object() {
            write_fields(page, fields, &schema["required"]);
        } else {
            let options = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
            for option in options.into_iter().flatten() {
                let _ = writeln!(page, "- {}: {}", one_of(option), line(&option["description"]));
            }
            if let Some(words) = schema["enum"].as_array() {
                let words: Vec<String> = words.iter().map(|word| format!("`{}`", text(word))).collect();
                let _ = writeln!(page, "One of {}.", words.join(", "));
            }
        }
    }
}

fn write_fields(page: &mut String, fields: &Map<String, Value>, required: &Value) {
    page.push_str("| field | type | what it is |\n| --- | --- | --- |\n");
    for (name, schema) in fields {
        let is_required = required.as_array().is_some_and(|all| all.iter().any(|one| one == name));
        let mark = if is_required { "" } else { "?" };
        let _ = writeln!(page, "| `{name}`{mark} | {} | {} |", kind(schema), line(&schema["description"]));
    }
}

/// One form of a value that has several.
fn one_of(option: &Value) -> String {
    if let Some(word) = option["const"].as_str() {
        return format!("`{word}`");
    }
    match option["properties"].as_object() {
        Some(fields) => {
            let fields = fields.iter().map(|(name, schema)| match schema["const"].as_str() {
                Some(word) => format!("`{name}: {word}`"),
                None => format!("`{name}` ({})", kind(schema)),
            });
            fields.collect::<Vec<_>>().join(", ")
        }
        None => kind(option),
    }
}

/// A schema in a few words.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(options) = schema["anyOf"].as_array() {
        return options.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    let names: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => vec!["anything"],
    };
    let name = |name: &str| match name {
        "array" => format!("list of {}", kind(&schema["items"])),
        "integer" => "number".to_owned(),
        "boolean" => "true or false".to_owned(),
        "string" => "text".to_owned(),
        other => other.to_owned(),
    };
    names.into_iter().map(name).collect::<Vec<_>>().join(" or ")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Text on one line of a table.
fn line(value: &Value) -> String {
    text(value).split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
