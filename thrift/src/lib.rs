//! The wire: IDL, generated types, conversions and Thrift over tokio.

pub mod convert;
#[expect(
    clippy::too_many_lines,
    reason = "the Thrift compiler decides their length"
)]
pub mod generated;
pub mod rpc;
