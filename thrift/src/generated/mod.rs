//! The Thrift compiler's output for `idl/`, committed; `thrift/regenerate` writes it anew and `thrift/regenerate --check` compares.

pub mod bits;
pub mod brasserie;
pub mod common;
pub mod fb303;
pub mod scheduler;
pub mod worker;
