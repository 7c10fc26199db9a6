//! The table and the router say the same, and the document hangs together.

use std::collections::BTreeSet;

use axum::body::Body;
use bell_coord::keys::Role;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tower_service::Service;

use super::*;
use crate::server::routes::router;
use crate::server::scene::server;

/// Pages for people, which are no part of the API.
const PAGES: &[&str] = &["/", "/login", "/login.css", "/logout"];

/// The paths of a router: it shows them when it is debugged, and nowhere else.
fn paths_of(router: &Router) -> BTreeSet<String> {
    let shown = format!("{router:?}");
    let quoted = shown.split('"').skip(1).step_by(2);
    quoted.filter(|text| text.starts_with('/') && !text.contains("{*")).map(str::to_owned).collect()
}

#[tokio::test]
async fn every_route_is_in_the_table_and_the_table_has_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let router = router(server(folder.path()).0);
    let mut documented: BTreeSet<String> =
        table::operations().iter().map(|operation| operation.path.to_owned()).collect();
    documented.extend(PAGES.iter().map(|page| (*page).to_owned()));
    assert_eq!(paths_of(&router), documented);
}

#[tokio::test]
async fn every_method_of_the_table_is_answered_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (server, coord) = server(folder.path());
    let key = coord.add_key(&"test".parse().unwrap(), Role::Full).await.unwrap().unwrap().expose();
    let mut router = router(server);
    let paths: BTreeSet<&str> = table::operations().iter().map(|operation| operation.path).collect();
    let known: BTreeSet<(&str, &str)> =
        table::operations().iter().map(|operation| (operation.method, operation.path)).collect();
    for path in paths {
        for method in ["get", "post", "put", "delete", "patch"] {
            let request = Request::builder()
                .method(method.to_uppercase().as_str())
                .uri(path.replace('{', "x-").replace('}', "x"))
                .header("host", "localhost")
                .header("authorization", format!("Bearer {key}"))
                .body(Body::empty())
                .unwrap();
            let response = router.call(request).await.unwrap();
            let refused = response.status() == StatusCode::METHOD_NOT_ALLOWED;
            assert_eq!(refused, !known.contains(&(method, path)), "{method} {path}: {}", response.status());
            let is_stream =
                response.headers().get("content-type").is_some_and(|kind| kind == "text/event-stream");
            if !is_stream {
                let body = response.into_body().collect().await.unwrap().to_bytes();
                assert!(
                    !String::from_utf8_lossy(&body).contains("nothing at this address"),
                    "{method} {path}"
                );
            }
        }
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_type_and_field_is_explained() {
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let document = document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for reference in found {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(schema["description"].is_string(), "{name} says nothing of itself");
        for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
            assert!(schema["description"].is_string(), "{name}.{field} says nothing of itself");
        }
    }
    for operation in table::operations() {
        let said = &document["paths"][operation.path][operation.method];
        for parameter in said["parameters"].as_array().into_iter().flatten() {
            assert!(parameter["description"].is_string(), "{} {parameter}", operation.path);
            assert_ne!(parameter["schema"], json!({}), "{} {parameter}", operation.path);
        }
    }
}

#[test]
fn names_of_operations_are_distinct() {
    let all = table::operations();
    let names: BTreeSet<String> = all.iter().map(Operation::id).collect();
    assert_eq!(names.len(), all.len());
}
