//! Conversions between generated and domain types, which meet only here. `TryFrom` from the wire parses and names the problem; `From` to
//! the wire cannot fail.
//!
//! An absent field that the original interface always writes takes its IDL default if readers may lack it. Identities and addresses have no
//! default, because a zero would identify another party. Numbers that exceed the wire's types saturate. Durations are rounded in the
//! direction in which a worker ends before its scheduler reassigns its tasks.

mod artifact;
mod artifact_report;
mod cluster_view;
mod error;
mod ids;
mod limits;
mod logs;
mod overview;
mod refusal;
mod resources;
mod story;
mod task;
mod work;
mod worker;

#[cfg(test)]
mod tests;

pub use artifact::{
    busy_pieces, id as artifact_id, pieces as artifact_pieces, range as artifact_range,
};
pub use artifact_report::known_micros;
pub use error::{FieldProblem, WireError};
pub use logs::scheduler_log_query;
pub use refusal::{bound_of, refusal, undeclared_refusal, worker_exception};
pub use task::{deadline, deadline_to_wire};
pub use work::riding_request;
pub use worker::reason;

use thrift::OrderedFloat;

use brasserie_common::ids::{MAX_NAME_BYTES, NameError};

/// Parses a message, or a part of it. `path` is its place in the call, as in `runTask.rt`.
pub fn parse<W, D>(path: &str, wire: W) -> Result<D, WireError>
where
    D: TryFrom<W, Error = WireError>,
{
    D::try_from(wire).map_err(|error| error.inside(path))
}

/// Parses each member of a list. `path` is its place in the call.
pub fn parse_list<W, D>(path: &str, wire: Vec<W>) -> Result<Vec<D>, WireError>
where
    D: TryFrom<W, Error = WireError>,
{
    wire.into_iter()
        .enumerate()
        .map(|(position, member)| {
            D::try_from(member).map_err(|error| error.inside(&format!("{path}[{position}]")))
        })
        .collect()
}

/// Parses a name. `path` is its place in the call.
pub fn parse_name<N>(path: &str, text: impl Into<String>) -> Result<N, WireError>
where
    N: TryFrom<String, Error = NameError>,
{
    N::try_from(text.into()).map_err(|error| WireError::new(path, FieldProblem::Name(error)))
}

/// Converts a list of domain values to the wire.
pub fn to_wire_list<D, W: From<D>>(values: Vec<D>) -> Vec<W> {
    values.into_iter().map(W::from).collect()
}

/// Parses an identity or an address, which has no default.
fn required<W, D>(path: &str, wire: Option<W>) -> Result<D, WireError>
where
    D: TryFrom<W, Error = WireError>,
{
    let wire = wire.ok_or_else(|| WireError::new(path, FieldProblem::Missing))?;
    parse(path, wire)
}

/// Parses a part that may be absent.
fn optional<W, D>(path: &str, wire: Option<W>) -> Result<Option<D>, WireError>
where
    D: TryFrom<W, Error = WireError>,
{
    wire.map(|wire| parse(path, wire)).transpose()
}

/// Parses a part that takes its default when it is absent.
fn defaulted<W, D>(path: &str, wire: Option<W>) -> Result<D, WireError>
where
    D: TryFrom<W, Error = WireError> + Default,
{
    wire.map_or_else(|| Ok(D::default()), |wire| parse(path, wire))
}

/// Parses a host's name or address, with the length limit of other names.
fn host(path: &str, text: String) -> Result<std::sync::Arc<str>, WireError> {
    if text.len() > MAX_NAME_BYTES {
        return Err(WireError::new(
            path,
            FieldProblem::Name(NameError::TooLong(text.len())),
        ));
    }
    if text.contains('\0') {
        return Err(WireError::new(path, FieldProblem::Name(NameError::Nul)));
    }
    Ok(text.into())
}

fn not_negative(path: &str, value: i64) -> Result<u64, WireError> {
    u64::try_from(value).map_err(|_| {
        WireError::new(
            path,
            FieldProblem::OutOfRange {
                value,
                allowed: "0 or more",
            },
        )
    })
}

/// Parses an amount. Rejects NaN, which would invalidate every sum that includes it.
fn amount(path: &str, value: Option<OrderedFloat<f64>>) -> Result<f64, WireError> {
    let value = value.map_or(0.0, OrderedFloat::into_inner);
    if value.is_finite() && value >= 0.0 {
        Ok(value)
    } else {
        Err(WireError::new(path, FieldProblem::NotAnAmount(value)))
    }
}

fn saturating_i32(value: impl TryInto<i32>) -> i32 {
    value.try_into().unwrap_or(i32::MAX)
}

fn saturating_i64(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}
