//! The wire protocol: IDL, generated types, conversions, and Thrift over tokio.

pub mod convert;
#[expect(
    clippy::too_many_lines,
    clippy::derivable_impls,
    reason = "the Thrift compiler decides their length, and writes each default out"
)]
pub mod generated;
pub mod rpc;
