//! Answers held against `/openapi.json`: a small reader of the schemas that are in it. One that it can't read fails the
//! test, so nothing passes for want of understanding.

use serde_json::Value;

use crate::served::{Reply, Served};

/// What the server says of itself.
pub(crate) struct Document(pub(crate) Value);

impl Document {
    pub(crate) fn of(served: &Served) -> Self {
        Self(served.ask("GET", "/openapi.json", &[], b"").expect(200).json())
    }

    /// Every operation: method, path, and what is said of it.
    pub(crate) fn operations(&self) -> Vec<(String, String, &Value)> {
        let paths = self.0["paths"].as_object().unwrap().iter();
        let of = |(path, methods): (&String, &'_ Value)| -> Vec<(String, String)> {
            methods.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone())).collect()
        };
        let names: Vec<(String, String)> = paths.flat_map(of).collect();
        let said = |method: &str, path: &str| &self.0["paths"][path][method.to_lowercase()];
        names.iter().map(|(method, path)| (method.clone(), path.clone(), said(method, path))).collect()
    }

    /// Fails if an answer of this operation is not what the document says.
    pub(crate) fn check(&self, method: &str, path: &str, reply: &Reply) {
        let operation = &self.0["paths"][path][method.to_lowercase()];
        assert!(operation.is_object(), "{method} {path} is not in the document");
        let said = &operation["responses"][reply.status.to_string()];
        assert!(said.is_object(), "{method} {path} says nothing of {}: {:?}", reply.status, reply.json());
        let kind = reply.header("content-type").unwrap_or_default();
        let content = &said["content"][kind];
        assert!(content.is_object(), "{method} {path} says nothing of {kind}");
        if kind == "application/json" {
            self.holds(&content["schema"], &reply.json(), &format!("{method} {path}"));
        }
    }

    fn holds(&self, schema: &Value, value: &Value, at: &str) {
        if let Err(why) = self.fits(schema, value, at) {
            panic!("{why}");
        }
    }

    fn fits(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let Value::Object(rules) = schema else {
            return if *schema == Value::Bool(false) { Err(format!("{at}: not allowed")) } else { Ok(()) };
        };
        for (rule, said) in rules {
            let wrong = || Err(format!("{at}: {value} is not as {rule} {said} says"));
            match rule.as_str() {
                "description" | "title" | "default" | "format" | "maximum" => {}
                "minimum" => {
                    if value.as_f64().is_some_and(|number| number < said.as_f64().unwrap()) {
                        return wrong();
                    }
                }
                "$ref" => {
                    let target = self.0.pointer(said.as_str().unwrap().strip_prefix('#').unwrap());
                    self.fits(target.unwrap_or_else(|| panic!("{said} leads nowhere")), value, at)?;
                }
                "type" => {
                    let kinds = said.as_array().cloned().unwrap_or_else(|| vec![said.clone()]);
                    if !kinds.iter().any(|kind| is_of(kind.as_str().unwrap(), value)) {
                        return wrong();
                    }
                }
                "const" if value != said => return wrong(),
                "const" => {}
                "enum" if !said.as_array().unwrap().contains(value) => return wrong(),
                "enum" => {}
                "anyOf" | "oneOf" => {
                    let fitting = said
                        .as_array()
                        .unwrap()
                        .iter()
                        .filter(|one| self.fits(one, value, at).is_ok())
                        .count();
                    if fitting == 0 || (rule == "oneOf" && fitting > 1) {
                        return wrong();
                    }
                }
                "required" => {
                    if let Some(fields) = value.as_object()
                        && !said
                            .as_array()
                            .unwrap()
                            .iter()
                            .all(|name| fields.contains_key(name.as_str().unwrap()))
                    {
                        return wrong();
                    }
                }
                "properties" => {
                    for (name, value) in value.as_object().into_iter().flatten() {
                        if let Some(schema) = said.get(name) {
                            self.fits(schema, value, &format!("{at}.{name}"))?;
                        }
                    }
                }
                "additionalProperties" => {
                    let known = &rules.get("properties").cloned().unwrap_or_default();
                    let others = value
                        .as_object()
                        .into_iter()
                        .flatten()
                        .filter(|(name, _)| known.get(*name).is_none());
                    for (name, value) in others {
                        self.fits(said, value, &format!("{at}.{name}"))?;
                    }
                }
                "items" => {
                    for (index, value) in value.as_array().into_iter().flatten().enumerate() {
                        self.fits(said, value, &format!("{at}[{index}]"))?;
                    }
                }
                other => panic!("{at}: this test can't read {other} of a schema"),
            }
        }
        Ok(())
    }
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("this test knows no type {other}"),
    }
}
