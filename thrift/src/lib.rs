//! The wire: IDL, generated types, conversions and Thrift over tokio.

pub mod convert;
pub mod generated;
pub mod rpc;
