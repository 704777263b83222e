//! Generated from `idl/fb303.thrift`: the base of both services.
// By thrift/regenerate; do not edit.

use thrift::protocol::{
    TFieldIdentifier, TInputProtocol, TOutputProtocol, TSerializable, TStructIdentifier, TType,
    field_id,
};

#[derive(Copy, Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FbStatus(pub i32);

impl FbStatus {
    pub const DEAD: FbStatus = FbStatus(0);
    pub const STARTING: FbStatus = FbStatus(1);
    pub const ALIVE: FbStatus = FbStatus(2);
    pub const STOPPING: FbStatus = FbStatus(3);
    pub const STOPPED: FbStatus = FbStatus(4);
    pub const WARNING: FbStatus = FbStatus(5);
    pub const ENUM_VALUES: &'static [Self] = &[
        Self::DEAD,
        Self::STARTING,
        Self::ALIVE,
        Self::STOPPING,
        Self::STOPPED,
        Self::WARNING,
    ];
}

impl TSerializable for FbStatus {
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        o_prot.write_i32(self.0)
    }
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<FbStatus> {
        let enum_value = i_prot.read_i32()?;
        Ok(FbStatus::from(enum_value))
    }
}

impl From<i32> for FbStatus {
    fn from(i: i32) -> Self {
        match i {
            0 => FbStatus::DEAD,
            1 => FbStatus::STARTING,
            2 => FbStatus::ALIVE,
            3 => FbStatus::STOPPING,
            4 => FbStatus::STOPPED,
            5 => FbStatus::WARNING,
            _ => FbStatus(i),
        }
    }
}

impl From<&i32> for FbStatus {
    fn from(i: &i32) -> Self {
        FbStatus::from(*i)
    }
}

impl From<FbStatus> for i32 {
    fn from(e: FbStatus) -> i32 {
        e.0
    }
}

impl From<&FbStatus> for i32 {
    fn from(e: &FbStatus) -> i32 {
        e.0
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FacebookServiceGetStatusArgs {}

impl TSerializable for FacebookServiceGetStatusArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<FacebookServiceGetStatusArgs> {
        i_prot.read_struct_begin()?;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            i_prot.skip(field_ident.field_type)?;
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = FacebookServiceGetStatusArgs {};
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("getStatus_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FacebookServiceGetStatusResult {
    pub result_value: Option<FbStatus>,
}

impl TSerializable for FacebookServiceGetStatusResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<FacebookServiceGetStatusResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<FbStatus> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::I32 => {
                    let val = FbStatus::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = FacebookServiceGetStatusResult { result_value: f_0 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("FacebookServiceGetStatusResult");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.result_value {
            o_prot.write_field_begin(&TFieldIdentifier::new("result_value", TType::I32, 0))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}
