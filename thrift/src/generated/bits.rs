//! Generated from `idl/bits.thrift`: the bits of a task's status.
// By thrift/regenerate; do not edit.

use thrift::protocol::{TInputProtocol, TOutputProtocol, TSerializable};

#[derive(Copy, Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroTaskStatusBits(pub i32);

impl BistroTaskStatusBits {
    pub const UNSTARTED: BistroTaskStatusBits = BistroTaskStatusBits(1);
    pub const RUNNING: BistroTaskStatusBits = BistroTaskStatusBits(2);
    pub const DONE: BistroTaskStatusBits = BistroTaskStatusBits(4);
    pub const INCOMPLETE: BistroTaskStatusBits = BistroTaskStatusBits(8);
    pub const FAILED: BistroTaskStatusBits = BistroTaskStatusBits(16);
    pub const ERROR: BistroTaskStatusBits = BistroTaskStatusBits(32);
    pub const USES_BACKOFF: BistroTaskStatusBits = BistroTaskStatusBits(64);
    pub const AVOIDED: BistroTaskStatusBits = BistroTaskStatusBits(128);
    pub const DISABLED: BistroTaskStatusBits = BistroTaskStatusBits(256);
    pub const DOES_NOT_ADVANCE_BACKOFF: BistroTaskStatusBits = BistroTaskStatusBits(512);
    pub const OVERWRITEABLE: BistroTaskStatusBits = BistroTaskStatusBits(1024);
    pub const HAS_SAVED_BACKOFF: BistroTaskStatusBits = BistroTaskStatusBits(2048);
    pub const CURRENT_STATUS_MASK: BistroTaskStatusBits = BistroTaskStatusBits(3711);
    pub const CAN_RUN_MASK: BistroTaskStatusBits = BistroTaskStatusBits(384);
    pub const ENUM_VALUES: &'static [Self] = &[
        Self::UNSTARTED,
        Self::RUNNING,
        Self::DONE,
        Self::INCOMPLETE,
        Self::FAILED,
        Self::ERROR,
        Self::USES_BACKOFF,
        Self::AVOIDED,
        Self::DISABLED,
        Self::DOES_NOT_ADVANCE_BACKOFF,
        Self::OVERWRITEABLE,
        Self::HAS_SAVED_BACKOFF,
        Self::CURRENT_STATUS_MASK,
        Self::CAN_RUN_MASK,
    ];
}

impl TSerializable for BistroTaskStatusBits {
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        o_prot.write_i32(self.0)
    }
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroTaskStatusBits> {
        let enum_value = i_prot.read_i32()?;
        Ok(BistroTaskStatusBits::from(enum_value))
    }
}

impl From<i32> for BistroTaskStatusBits {
    fn from(i: i32) -> Self {
        match i {
            1 => BistroTaskStatusBits::UNSTARTED,
            2 => BistroTaskStatusBits::RUNNING,
            4 => BistroTaskStatusBits::DONE,
            8 => BistroTaskStatusBits::INCOMPLETE,
            16 => BistroTaskStatusBits::FAILED,
            32 => BistroTaskStatusBits::ERROR,
            64 => BistroTaskStatusBits::USES_BACKOFF,
            128 => BistroTaskStatusBits::AVOIDED,
            256 => BistroTaskStatusBits::DISABLED,
            512 => BistroTaskStatusBits::DOES_NOT_ADVANCE_BACKOFF,
            1024 => BistroTaskStatusBits::OVERWRITEABLE,
            2048 => BistroTaskStatusBits::HAS_SAVED_BACKOFF,
            3711 => BistroTaskStatusBits::CURRENT_STATUS_MASK,
            384 => BistroTaskStatusBits::CAN_RUN_MASK,
            _ => BistroTaskStatusBits(i),
        }
    }
}

impl From<&i32> for BistroTaskStatusBits {
    fn from(i: &i32) -> Self {
        BistroTaskStatusBits::from(*i)
    }
}

impl From<BistroTaskStatusBits> for i32 {
    fn from(e: BistroTaskStatusBits) -> i32 {
        e.0
    }
}

impl From<&BistroTaskStatusBits> for i32 {
    fn from(e: &BistroTaskStatusBits) -> i32 {
        e.0
    }
}
