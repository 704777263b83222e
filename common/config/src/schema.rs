//! Generates the JSON Schema of a config from the tables of known keys.

use serde_json::{Map, Value, json};

use crate::keys::{Key, KeyNeed, KeyRow, Shape, Tagged, rows};
use crate::{SETTINGS, jobs, settings};

/// Patterns of texts that are integers, and of texts that are numbers.
const WHOLE_TEXT: &str = r"^\s*[+-]?[0-9]+(\.0*)?([eE][+-]?[0-9]+)?\s*$";
const NUMBER_TEXT: &str = r"^\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$";
const TRUTH_TEXT: &str = r"^\s*([Tt]([Rr][Uu][Ee])?|[Ff]([Aa][Ll][Ss][Ee])?|[Yy]([Ee][Ss])?|[Nn][Oo]?|[Oo][Nn]|[Oo][Ff][Ff]|[01])\s*$";
const DURATION_TEXT: &str =
    r"^\s*[0-9]+(\.[0-9]+)?\s*(ms|s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)?\s*$";

/// The longest time, in seconds.
const MAX_SECONDS: i64 = i32::MAX as i64;

/// Returns a JSON Schema (draft 2020-12) of a whole config in any of its formats. The schema checks less than [`parse`](crate::parse) does
/// about names, sums and dependencies; wherever it decides, both agree. Unknown keys are errors in it.
pub fn config_schema() -> Value {
    let definitions: Map<String, Value> = definitions().into_iter().collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Brasserie config",
        "type": "object",
        "required": [SETTINGS],
        "properties": {
            SETTINGS: described(of(Shape::Fields(settings::KEYS)), "The settings for all jobs."),
        },
        "patternProperties": {
            format!("^{}.", jobs::JOB_PREFIX): { "$ref": "#/$defs/job" },
        },
        "additionalProperties": false,
        "$defs": definitions,
    })
}

/// Returns each key that a config may have.
pub fn key_rows() -> Vec<KeyRow> {
    let mut out = Vec::new();
    rows(SETTINGS, Shape::Fields(settings::KEYS), &mut out);
    let job = format!("{}NAME", jobs::JOB_PREFIX);
    rows(&job, Shape::Fields(jobs::KEYS), &mut out);
    out
}

/// Returns the path of each key that a config may have, as in `bistro_settings.resources.LEVEL.RESOURCE.limit`.
pub fn key_paths() -> Vec<String> {
    key_rows().into_iter().map(|row| row.path).collect()
}

/// Returns the definitions that many keys share.
fn definitions() -> Vec<(String, Value)> {
    let number = json!({"anyOf": [{"type": "number"}, {"type": "string", "pattern": NUMBER_TEXT}]});
    let duration = json!({"anyOf": [
        {"type": "number", "minimum": 0, "maximum": MAX_SECONDS},
        {"type": "string", "pattern": DURATION_TEXT},
        {"type": "string", "pattern": NUMBER_TEXT},
    ]});
    let backoff = json!({
        "type": "array",
        "minItems": 1,
        "items": {"anyOf": [
            {"enum": ["repeat", "fail"]},
            {"type": "integer", "minimum": 1, "maximum": MAX_SECONDS},
            {"type": "boolean"},
            {"type": "string", "pattern": DURATION_TEXT},
        ]},
    });
    [
        ("job", of(Shape::Fields(jobs::KEYS))),
        (
            "truth",
            json!({"anyOf": [
                {"type": ["boolean", "number"]},
                {"type": "string", "pattern": TRUTH_TEXT},
            ]}),
        ),
        ("number", number),
        ("text", json!({"type": ["string", "number", "boolean"]})),
        (
            "name",
            json!({"anyOf": [{"type": "string", "minLength": 1}, {"type": ["number", "boolean"]}]}),
        ),
        ("duration", duration),
        (
            "never_or_seconds",
            json!({"anyOf": [
                {"type": "boolean"},
                {"type": "number", "maximum": MAX_SECONDS},
                {"type": "string", "pattern": DURATION_TEXT},
            ]}),
        ),
        ("backoff", backoff),
    ]
    .into_iter()
    .map(|(name, schema)| (name.to_owned(), schema))
    .collect()
}

fn of(shape: Shape) -> Value {
    let shared = |name: &str| json!({"$ref": format!("#/$defs/{name}")});
    match shape {
        Shape::Any => json!({}),
        Shape::AnyObject => json!({"type": "object"}),
        Shape::Truth => shared("truth"),
        Shape::Integer(least, most) => json!({"anyOf": [
            {"type": "integer", "minimum": least, "maximum": most},
            {"type": "boolean"},
            {"type": "string", "pattern": WHOLE_TEXT},
        ]}),
        Shape::Number => shared("number"),
        Shape::Text => shared("text"),
        Shape::Name => shared("name"),
        Shape::Words(words) => json!({"enum": words()}),
        Shape::Duration => shared("duration"),
        Shape::NeverOrSeconds => shared("never_or_seconds"),
        Shape::Milliseconds(least) => json!({"anyOf": [
            of(Shape::Integer(i64::from(least), i64::from(i32::MAX))),
            {"type": "string", "pattern": DURATION_TEXT},
        ]}),
        Shape::Backoff => shared("backoff"),
        Shape::List(inner) => json!({"type": "array", "items": of(*inner)}),
        Shape::Either(shapes) => {
            let shapes: Vec<Value> = shapes.iter().map(|&shape| of(shape)).collect();
            json!({ "anyOf": shapes })
        }
        Shape::Fields(keys) => fields(keys),
        Shape::Map(_, inner) => json!({"type": "object", "additionalProperties": of(*inner)}),
        Shape::Each(names, inner, about) => {
            let properties: Map<String, Value> = names()
                .into_iter()
                .map(|name| (name.to_owned(), described(of(*inner), about)))
                .collect();
            json!({"type": "object", "properties": properties, "additionalProperties": false})
        }
        Shape::Named(_, names, inner) => {
            let pattern = format!("^({})$", names().join("|"));
            json!({"type": "object", "patternProperties": {pattern: of(*inner)}, "additionalProperties": false})
        }
        Shape::Tagged(tagged) => variants(tagged),
    }
}

fn described(mut schema: Value, about: &str) -> Value {
    if let Value::Object(schema) = &mut schema
        && !about.is_empty()
    {
        schema.insert("description".to_owned(), json!(about));
    }
    schema
}

fn fields(keys: &[Key]) -> Value {
    let properties: Map<String, Value> = keys
        .iter()
        .map(|key| (key.name.to_owned(), described(of(key.shape), key.about)))
        .collect();
    let required: Vec<&str> = keys
        .iter()
        .filter(|key| key.need == KeyNeed::Required)
        .map(|key| key.name)
        .collect();
    let mut schema = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn variants(tagged: Tagged) -> Value {
    let schemas: Vec<Value> = (tagged.variants)()
        .into_iter()
        .map(|variant| {
            let mut schema = fields(tagged.keys);
            schema["properties"][tagged.tag] = json!({"const": variant.name});
            schema["properties"][tagged.body] = of(variant.shape);
            schema["required"] = match variant.need {
                KeyNeed::Required => json!([tagged.tag, tagged.body]),
                KeyNeed::Optional => json!([tagged.tag]),
            };
            schema
        })
        .collect();
    json!({ "anyOf": schemas })
}

#[cfg(test)]
mod tests;
