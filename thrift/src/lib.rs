//! The wire: IDL, generated types, conversions and Thrift over tokio.
