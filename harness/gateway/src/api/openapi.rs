//! The API as an OpenAPI 3.1 document.
//!
//! I1. It has every route, and nothing else. I2. It has no user data, and needs no key.
//!
//! Source: OpenAPI 3.1.1, <https://spec.openapis.org/oas/v3.1.1.html>.

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};

/// Path of the document.
pub(super) const PATH: &str = "/openapi.json";
/// Written by hand, and stored with the other documents.
pub(super) const DOCUMENT: &str = include_str!("../../../docs/gateway/openapi.json");

/// `GET /openapi.json`.
pub(super) async fn document() -> Response<Body> {
    let mut response = Response::new(Body::from(DOCUMENT));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::routing::MethodFilter;
    use serde_json::Value;

    use super::super::{pages, router};
    use super::*;

    fn document() -> Value {
        serde_json::from_str(DOCUMENT).unwrap()
    }

    fn name(method: MethodFilter) -> &'static str {
        let known = [
            (MethodFilter::GET, "GET"),
            (MethodFilter::POST, "POST"),
            (MethodFilter::PUT, "PUT"),
            (MethodFilter::DELETE, "DELETE"),
        ];
        known.iter().find(|(known, _)| *known == method).unwrap().1
    }

    /// Method and path of every operation, with the operation.
    fn operations(document: &Value) -> Vec<((String, String), &Value)> {
        let paths = document["paths"].as_object().unwrap();
        let of_path = |(path, methods): (&String, &'_ Value)| -> Vec<((String, String), String)> {
            let methods = methods.as_object().unwrap().keys().filter(|name| *name != "parameters");
            methods.map(|method| ((method.to_uppercase(), path.clone()), method.clone())).collect()
        };
        let keys = paths.iter().flat_map(of_path);
        keys.map(|((upper, path), method)| {
            let operation = &document["paths"][&path][&method];
            ((upper, path), operation)
        })
        .collect()
    }

    #[test]
    fn i1_document_has_exactly_the_routes() {
        let routes = [router::routes(), pages::routes()];
        let routed: BTreeSet<(String, String)> = routes
            .iter()
            .flat_map(|routes| &routes.listed)
            .map(|&(method, path)| (name(method).to_owned(), path.replace("{*", "{")))
            .collect();
        let document = document();
        let written: BTreeSet<(String, String)> =
            operations(&document).into_iter().map(|(operation, _)| operation).collect();
        assert_eq!(written, routed);
    }

    #[test]
    fn operations_have_ids_responses_and_security() {
        let document = document();
        assert_eq!(document["openapi"], "3.1.0");
        assert_eq!(document["security"], serde_json::json!([{"key": []}]));
        let mut names = BTreeSet::new();
        for ((method, path), operation) in operations(&document) {
            let place = format!("{method} {path}");
            let name = operation["operationId"].as_str().unwrap_or_else(|| panic!("{place} has no name"));
            assert!(names.insert(name.to_owned()), "{place}: {name} is the name of another one");
            assert!(operation["summary"].is_string(), "{place}");
            let answers = operation["responses"].as_object().unwrap();
            assert!(answers.keys().any(|status| status.starts_with(['2', '3'])), "{place}");
            let is_open = operation["security"] == serde_json::json!([]);
            assert_eq!(is_open, router::is_open(&path) || pages::is_open(&path), "{place}");
            assert!(is_open || answers.contains_key("401") || answers.contains_key("303"), "{place}");
            let is_page = pages::routes().listed.iter().any(|(_, page)| *page == path);
            let with_login = operation["security"].to_string().contains("login");
            assert_eq!(with_login, is_page && !is_open, "{place}: a cookie opens pages alone");
            for parameter in path.split('{').skip(1).map(|rest| rest.split('}').next().unwrap()) {
                let given = document["paths"][&path]["parameters"].as_array().unwrap();
                let is_given = |given: &Value| given["name"] == parameter && given["in"] == "path";
                assert!(given.iter().any(is_given), "{place}: {parameter}");
            }
        }
    }

    #[test]
    fn references_lead_somewhere() {
        fn check(document: &Value, value: &Value) {
            match value {
                Value::Object(fields) => {
                    if let Some(reference) = fields.get("$ref") {
                        let place = reference.as_str().unwrap().strip_prefix('#').unwrap();
                        assert!(document.pointer(place).is_some(), "{place}");
                    }
                    fields.values().for_each(|value| check(document, value));
                }
                Value::Array(values) => values.iter().for_each(|value| check(document, value)),
                _ => {}
            }
        }
        let document = document();
        check(&document, &document);
    }
}
