//! TOML as nodes.

use toml::de::{DeTable, DeValue};

use super::{DEPTH_MAX, Entry, Node, Value};
use crate::problem::{Lines, PROBLEMS_MAX, Place, Problem};

/// Values in a file: a thousand webhook sources have fewer.
const NODES_MAX: usize = 20_000;

/// Reads a TOML file. Wrong lines are noted, and the rest is read.
pub fn parse_toml(text: &str, file: &Place, problems: &mut Vec<Problem>) -> Node {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader { lines: Lines::new(text), file, nodes: 0 };
    for error in errors.iter().take(PROBLEMS_MAX) {
        let place = reader.spot(error.span().map_or(0, |span| span.start));
        problems.push(Problem::error(place, error.message().replace('\n', " ")));
    }
    match reader.table(table.get_ref(), 0) {
        Ok(value) => Node::new(value, file.at(1, 1)),
        Err(problem) => {
            problems.push(problem);
            Node::empty(file.at(1, 1))
        }
    }
}

struct Reader<'a> {
    lines: Lines<'a>,
    file: &'a Place,
    nodes: usize,
}

impl Reader<'_> {
    fn table(&mut self, table: &DeTable<'_>, depth: usize) -> Result<Value, Problem> {
        let mut entries = Vec::with_capacity(table.len());
        for (key, value) in table {
            let place = self.spot(key.span().start);
            let node = self.node(value.get_ref(), value.span().start, depth + 1)?;
            entries.push(Entry { key: key.get_ref().to_string(), place, node });
        }
        entries.sort_by(|a, b| a.place.cmp(&b.place));
        Ok(Value::Table(entries))
    }

    fn node(&mut self, value: &DeValue<'_>, start: usize, depth: usize) -> Result<Node, Problem> {
        let place = self.spot(start);
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(Problem::error(place, format!("more than {NODES_MAX} values")));
        }
        if depth > DEPTH_MAX {
            return Err(Problem::error(place, format!("nested more than {DEPTH_MAX} deep")));
        }
        let value = match value {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
                Ok(integer) => Value::Integer(integer),
                Err(_) => return Err(Problem::error(place, "a number too large to be one")),
            },
            DeValue::Float(float) => Value::Float(float.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(value) => Value::Bool(*value),
            DeValue::Datetime(moment) => Value::Text(moment.to_string()),
            DeValue::Array(items) => {
                let items = items.iter().map(|item| self.node(item.get_ref(), item.span().start, depth + 1));
                Value::List(items.collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => self.table(table, depth)?,
        };
        Ok(Node::new(value, place))
    }

    fn spot(&self, byte: usize) -> Place {
        let (line, column) = self.lines.find(byte);
        self.file.at(line, column)
    }
}
