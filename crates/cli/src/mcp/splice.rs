//! Adding one entry to a configuration file of somebody else, and touching nothing else of it.
//!
//! The text is added to, not written anew: order, comments and spacing are its owner's. Whatever was done is then read
//! again and held against what it should mean. If that is not so, nothing is written.

use serde_json::{Map, Value};

use super::clients::{Form, SERVER};

/// What becomes of a file.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Spliced {
    /// It gets this text.
    Changed(String),
    /// The entry is there.
    Same,
    /// An entry of that name is there, and says something else.
    Taken,
}

/// Adds an entry to the table of servers in `text`.
///
/// # Errors
/// Why the file can't be added to, in words.
pub(super) fn splice(form: Form, text: &str, table: &str, entry: &Value) -> Result<Spliced, String> {
    let before = read(form, text)?;
    let Value::Object(mut wanted) = before else { return Err("it has no table in it".to_owned()) };
    let servers = wanted.entry(table).or_insert_with(|| Map::new().into());
    let Value::Object(servers) = servers else { return Err(format!("{table} in it is no table")) };
    match servers.get(SERVER) {
        Some(found) if found == entry => return Ok(Spliced::Same),
        Some(_) => return Ok(Spliced::Taken),
        None => {}
    }
    let is_new_table = servers.is_empty();
    servers.insert(SERVER.to_owned(), entry.clone());
    let after = match form {
        Form::Json => json(text, table, entry),
        Form::Toml => Some(toml(text, table, entry)),
        Form::Yaml => Some(yaml(text, table, entry, is_new_table)),
    };
    match after {
        Some(after) if read(form, &after).is_ok_and(|meant| meant == Value::Object(wanted)) => {
            Ok(Spliced::Changed(after))
        }
        _ => Err("an entry can't be added without writing it anew".to_owned()),
    }
}

fn read(form: Form, text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Map::new().into());
    }
    match form {
        Form::Json => serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}")),
        Form::Toml => ::toml::from_str(text).map_err(|error| format!("it is no TOML: {}", error.message())),
        Form::Yaml => serde_saphyr::from_str(text).map_err(|error| format!("it is no YAML: {error}")),
    }
}

/// JSON: behind the last member of the table, or of the whole.
fn json(text: &str, table: &str, entry: &Value) -> Option<String> {
    let written = serde_json::to_string_pretty(entry).ok()?;
    if text.trim().is_empty() {
        return Some(format!(
            "{{\n  \"{table}\": {{\n    \"{SERVER}\": {}\n  }}\n}}\n",
            deeper(&written, "    ")
        ));
    }
    let whole = Members::of(text, text.find('{')?)?;
    let Some(&(_, at)) = whole.members.iter().find(|(name, _)| name == table) else {
        let value = format!("{{\n    \"{SERVER}\": {}\n  }}", deeper(&written, "    "));
        return Some(whole.with(text, "  ", table, &value));
    };
    let servers = Members::of(text, at)?;
    Some(servers.with(text, "    ", SERVER, &deeper(&written, "    ")))
}

fn deeper(text: &str, indent: &str) -> String {
    text.replace('\n', &format!("\n{indent}"))
}

/// The members of an object, in text that is known to be JSON.
struct Members {
    /// Names, and where their values begin.
    members: Vec<(String, usize)>,
    /// Behind the last value, or behind the brace that opens it.
    end: usize,
}

impl Members {
    /// Those of the object that begins at `open`.
    fn of(text: &str, open: usize) -> Option<Self> {
        let bytes = text.as_bytes();
        let (mut members, mut depth, mut at, mut end) = (Vec::new(), 0_usize, open, open + 1);
        while at < bytes.len() {
            match bytes[at] {
                b'"' => {
                    let close = string_end(bytes, at)?;
                    let colon = close + text.get(close..)?.find(|c: char| !c.is_whitespace())?;
                    if depth == 1 && bytes[colon] == b':' {
                        let value = colon + 1 + text.get(colon + 1..)?.find(|c: char| !c.is_whitespace())?;
                        members.push((serde_json::from_str(text.get(at..close)?).ok()?, value));
                        at = value;
                        continue;
                    }
                    (at, end) = (close, if depth == 1 { close } else { end });
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth -= 1;
                    match depth {
                        0 => return Some(Self { members, end }),
                        1 => end = at + 1,
                        _ => {}
                    }
                }
                byte if depth == 1 && byte != b',' && !byte.is_ascii_whitespace() => end = at + 1,
                _ => {}
            }
            at += 1;
        }
        None
    }

    /// The text with one more member.
    fn with(&self, text: &str, indent: &str, name: &str, value: &str) -> String {
        let (before, after) = text.split_at(self.end);
        let comma = if self.members.is_empty() { "" } else { "," };
        let outer = indent.get(2..).unwrap_or_default();
        let close = if self.members.is_empty() { format!("\n{outer}") } else { String::new() };
        let after = if self.members.is_empty() { after.trim_start() } else { after };
        format!("{before}{comma}\n{indent}\"{name}\": {value}{close}{after}")
    }
}

/// Behind the quote that ends the string that begins at `open`.
fn string_end(bytes: &[u8], open: usize) -> Option<usize> {
    let mut at = open + 1;
    loop {
        match bytes.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// TOML: a table of its own, at the end.
fn toml(text: &str, table: &str, entry: &Value) -> String {
    let fields = entry.as_object().into_iter().flatten().map(|(name, value)| format!("{name} = {value}\n"));
    format!("{}[{table}.{SERVER}]\n{}", apart(text), fields.collect::<String>())
}

/// YAML: the first in its table, with the indent of the others; JSON is YAML too.
fn yaml(text: &str, table: &str, entry: &Value, is_new_table: bool) -> String {
    let head = format!("{table}:");
    let begins = text.lines().position(|line| line.trim_end() == head);
    let (Some(begins), false) = (begins, is_new_table) else {
        return format!("{}{head}\n{}", apart(text), yaml_entry(entry, "  "));
    };
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.get(begins + 1..).into_iter().flatten().find(|line| !line.trim().is_empty());
    let indent = first.map_or("  ", |line| &line[..line.len() - line.trim_start().len()]);
    let mut all: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    all.insert(begins + 1, yaml_entry(entry, indent).trim_end().to_owned());
    all.join("\n") + "\n"
}

fn yaml_entry(entry: &Value, indent: &str) -> String {
    let fields = entry.as_object().into_iter().flatten();
    let fields = fields.map(|(name, value)| format!("{indent}  {name}: {value}\n"));
    format!("{indent}{SERVER}:\n{}", fields.collect::<String>())
}

/// What is there, and an empty line behind it.
fn apart(text: &str) -> String {
    if text.trim().is_empty() { String::new() } else { format!("{}\n\n", text.trim_end()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry() -> Value {
        json!({"command": "bell", "args": ["mcp"]})
    }

    fn added(form: Form, text: &str, table: &str) -> String {
        match splice(form, text, table, &entry()).unwrap() {
            Spliced::Changed(after) => {
                assert_eq!(splice(form, &after, table, &entry()).unwrap(), Spliced::Same, "{after}");
                after
            }
            other => panic!("{other:?} for {text}"),
        }
    }

    #[test]
    fn an_entry_is_added_and_every_other_byte_stays() {
        let text = "{\n  \"theme\": \"a \\\" } b\",\n  \"mcpServers\": {\n    \"git\": {\"command\": \"git-mcp\"}\n  },\n  \"z\": [1, {}]\n}\n";
        let after = added(Form::Json, text, "mcpServers");
        let (head, tail) = text.split_at(text.find("\n  },\n  \"z\"").unwrap());
        assert!(after.starts_with(head) && after.ends_with(tail), "{after}");
    }

    #[test]
    fn files_of_any_state_get_it() {
        for text in [
            "",
            "{}",
            "{\"a\": 1}",
            "{\"mcpServers\": {}}",
            "{\"mcpServers\": { }, \"b\": \"}\"}",
            "{\"a\":[{\"mcpServers\":{}}]}",
            "\n{ \"a\" : null\n}\n",
        ] {
            added(Form::Json, text, "mcpServers");
        }
        for text in [
            "",
            "model = \"m\" # mine\n",
            "[mcp_servers.git]\ncommand = \"x\"",
            "[mcp_servers]\n[profiles.a]\nb = 1\n",
        ] {
            assert!(added(Form::Toml, text, "mcp_servers").starts_with(text.trim_end()));
        }
        for text in [
            "",
            "GOOSE_MODEL: m # mine\n",
            "extensions:\n  git:\n    cmd: x\nother: 1\n",
            "extensions:\n    # mine\n    git: {cmd: x}\n",
        ] {
            added(Form::Yaml, text, "extensions");
        }
    }

    #[test]
    fn an_entry_of_somebody_else_stays() {
        let text = "{\"mcpServers\": {\"bell\": {\"command\": \"other\"}}}";
        assert_eq!(splice(Form::Json, text, "mcpServers", &entry()), Ok(Spliced::Taken));
    }

    #[test]
    fn what_can_not_be_read_or_added_to_is_refused() {
        for (form, text) in [
            (Form::Json, "{\"a\": 1,}"),
            (Form::Json, "// mine\n{}"),
            (Form::Json, "[]"),
            (Form::Json, "{\"mcpServers\": 1}"),
            (Form::Toml, "a ="),
            (Form::Yaml, "a: [b"),
            (Form::Yaml, "extensions: {git: {cmd: x}}\n"),
        ] {
            let table = if form == Form::Yaml { "extensions" } else { "mcpServers" };
            assert!(splice(form, text, table, &entry()).is_err(), "{text}");
        }
    }
}
