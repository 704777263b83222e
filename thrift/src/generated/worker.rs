//! Generated from `idl/worker.thrift`: the worker's service.
// By thrift/regenerate; do not edit.

use crate::generated::common;
use std::error::Error;
use std::fmt;
use std::fmt::{Display, Formatter};
use thrift::protocol::{
    TFieldIdentifier, TInputProtocol, TListIdentifier, TOutputProtocol, TSerializable,
    TStructIdentifier, TType, field_id, verify_required_field_exists,
};

#[derive(Copy, Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroWorkerExceptionCode(pub i32);

impl BistroWorkerExceptionCode {
    pub const UNHEALTHY: BistroWorkerExceptionCode = BistroWorkerExceptionCode(1);
    pub const WRONG_ID: BistroWorkerExceptionCode = BistroWorkerExceptionCode(2);
    pub const OLD_SEQUENCE: BistroWorkerExceptionCode = BistroWorkerExceptionCode(3);
    pub const DUPLICATE: BistroWorkerExceptionCode = BistroWorkerExceptionCode(4);
    pub const BUSY: BistroWorkerExceptionCode = BistroWorkerExceptionCode(5);
    pub const DRAINING: BistroWorkerExceptionCode = BistroWorkerExceptionCode(6);
    pub const ENUM_VALUES: &'static [Self] = &[
        Self::UNHEALTHY,
        Self::WRONG_ID,
        Self::OLD_SEQUENCE,
        Self::DUPLICATE,
        Self::BUSY,
        Self::DRAINING,
    ];
}

impl TSerializable for BistroWorkerExceptionCode {
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        o_prot.write_i32(self.0)
    }
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroWorkerExceptionCode> {
        let enum_value = i_prot.read_i32()?;
        Ok(BistroWorkerExceptionCode::from(enum_value))
    }
}

impl From<i32> for BistroWorkerExceptionCode {
    fn from(i: i32) -> Self {
        match i {
            1 => BistroWorkerExceptionCode::UNHEALTHY,
            2 => BistroWorkerExceptionCode::WRONG_ID,
            3 => BistroWorkerExceptionCode::OLD_SEQUENCE,
            4 => BistroWorkerExceptionCode::DUPLICATE,
            5 => BistroWorkerExceptionCode::BUSY,
            6 => BistroWorkerExceptionCode::DRAINING,
            _ => BistroWorkerExceptionCode(i),
        }
    }
}

impl From<&i32> for BistroWorkerExceptionCode {
    fn from(i: &i32) -> Self {
        BistroWorkerExceptionCode::from(*i)
    }
}

impl From<BistroWorkerExceptionCode> for i32 {
    fn from(e: BistroWorkerExceptionCode) -> i32 {
        e.0
    }
}

impl From<&BistroWorkerExceptionCode> for i32 {
    fn from(e: &BistroWorkerExceptionCode) -> i32 {
        e.0
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroWorkerException {
    pub message: Option<String>,
    pub code: Option<BistroWorkerExceptionCode>,
    pub bound: Option<common::BistroInstanceID>,
}

impl TSerializable for BistroWorkerException {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroWorkerException> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<BistroWorkerExceptionCode> = None;
        let mut f_3: Option<common::BistroInstanceID> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::I32 => {
                    let val = BistroWorkerExceptionCode::read_from_in_protocol(i_prot)?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Struct => {
                    let val = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_3 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BistroWorkerException {
            message: f_1,
            code: f_2,
            bound: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroWorkerException");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.message {
            o_prot.write_field_begin(&TFieldIdentifier::new("message", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.code {
            o_prot.write_field_begin(&TFieldIdentifier::new("code", TType::I32, 2))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.bound {
            o_prot.write_field_begin(&TFieldIdentifier::new("bound", TType::Struct, 3))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for BistroWorkerException {
    fn default() -> Self {
        BistroWorkerException {
            message: Some("".to_owned()),
            code: None,
            bound: None,
        }
    }
}

impl Error for BistroWorkerException {}

impl From<BistroWorkerException> for thrift::Error {
    fn from(e: BistroWorkerException) -> Self {
        thrift::Error::User(Box::new(e))
    }
}

impl Display for BistroWorkerException {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "remote service threw BistroWorkerException")
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RunTaskAnswer {
    pub ex: Option<BistroWorkerException>,
    pub queued_at: Option<i64>,
}

impl TSerializable for RunTaskAnswer {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<RunTaskAnswer> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<BistroWorkerException> = None;
        let mut f_2: Option<i64> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = BistroWorkerException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = RunTaskAnswer {
            ex: f_1,
            queued_at: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("RunTaskAnswer");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.ex {
            o_prot.write_field_begin(&TFieldIdentifier::new("ex", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.queued_at {
            o_prot.write_field_begin(&TFieldIdentifier::new("queuedAt", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for RunTaskAnswer {
    fn default() -> Self {
        RunTaskAnswer {
            ex: None,
            queued_at: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ArtifactRange {
    pub id: Option<Vec<u8>>,
    pub offset: Option<i64>,
}

impl TSerializable for ArtifactRange {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ArtifactRange> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<u8>> = Some(Vec::new());
        let mut f_2: Option<i64> = Some(0);
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_bytes()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = ArtifactRange {
            id: f_1,
            offset: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ArtifactRange");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.id {
            o_prot.write_field_begin(&TFieldIdentifier::new("id", TType::String, 1))?;
            o_prot.write_bytes(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.offset {
            o_prot.write_field_begin(&TFieldIdentifier::new("offset", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ArtifactRange {
    fn default() -> Self {
        ArtifactRange {
            id: Some(Vec::new()),
            offset: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ArtifactPiece {
    pub bytes: Option<Vec<u8>>,
    pub size: Option<i64>,
}

impl TSerializable for ArtifactPiece {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ArtifactPiece> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<u8>> = None;
        let mut f_2: Option<i64> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_bytes()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = ArtifactPiece {
            bytes: f_1,
            size: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ArtifactPiece");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.bytes {
            o_prot.write_field_begin(&TFieldIdentifier::new("bytes", TType::String, 1))?;
            o_prot.write_bytes(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.size {
            o_prot.write_field_begin(&TFieldIdentifier::new("size", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ArtifactPiece {
    fn default() -> Self {
        ArtifactPiece {
            bytes: None,
            size: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ArtifactPieces {
    pub busy: Option<bool>,
    pub pieces: Option<Vec<ArtifactPiece>>,
    pub transfer: Option<i64>,
}

impl TSerializable for ArtifactPieces {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ArtifactPieces> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<bool> = None;
        let mut f_2: Option<Vec<ArtifactPiece>> = Some(Vec::new());
        let mut f_3: Option<i64> = Some(0);
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<ArtifactPiece> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_0 = ArtifactPiece::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_0);
                    }
                    i_prot.read_list_end()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_3 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = ArtifactPieces {
            busy: f_1,
            pieces: f_2,
            transfer: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ArtifactPieces");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.busy {
            o_prot.write_field_begin(&TFieldIdentifier::new("busy", TType::Bool, 1))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.pieces {
            o_prot.write_field_begin(&TFieldIdentifier::new("pieces", TType::List, 2))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.transfer {
            o_prot.write_field_begin(&TFieldIdentifier::new("transfer", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ArtifactPieces {
    fn default() -> Self {
        ArtifactPieces {
            busy: None,
            pieces: Some(Vec::new()),
            transfer: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroWorkerGetRunningTasksArgs {
    pub worker: common::BistroInstanceID,
    pub scheduler: Option<common::BistroInstanceID>,
}

impl TSerializable for BistroWorkerGetRunningTasksArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroWorkerGetRunningTasksArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<common::BistroInstanceID> = None;
        let mut f_2: Option<common::BistroInstanceID> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::Struct => {
                    let val = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BistroWorkerGetRunningTasksArgs.worker", &f_1)?;
        let ret = BistroWorkerGetRunningTasksArgs {
            worker: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            scheduler: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("getRunningTasks_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("worker", TType::Struct, 1))?;
        self.worker.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        if let Some(ref fld_var) = self.scheduler {
            o_prot.write_field_begin(&TFieldIdentifier::new("scheduler", TType::Struct, 2))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?;
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroWorkerGetRunningTasksResult {
    pub result_value: Option<Vec<common::RunningTask>>,
}

impl TSerializable for BistroWorkerGetRunningTasksResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroWorkerGetRunningTasksResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<Vec<common::RunningTask>> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<common::RunningTask> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_1 = common::RunningTask::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_1);
                    }
                    i_prot.read_list_end()?;
                    f_0 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BistroWorkerGetRunningTasksResult { result_value: f_0 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroWorkerGetRunningTasksResult");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.result_value {
            o_prot.write_field_begin(&TFieldIdentifier::new("result_value", TType::List, 0))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroWorkerRunTaskArgs {
    pub rt: common::RunningTask,
    pub config: String,
    pub command: Vec<String>,
    pub scheduler: common::BistroInstanceID,
    pub worker: common::BistroInstanceID,
    pub notify_if_tasks_not_running_sequence_num: i64,
    pub opts: common::TaskSubprocessOptions,
}

impl TSerializable for BistroWorkerRunTaskArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroWorkerRunTaskArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<common::RunningTask> = None;
        let mut f_2: Option<String> = None;
        let mut f_3: Option<Vec<String>> = None;
        let mut f_4: Option<common::BistroInstanceID> = None;
        let mut f_5: Option<common::BistroInstanceID> = None;
        let mut f_6: Option<i64> = None;
        let mut f_7: Option<common::TaskSubprocessOptions> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = common::RunningTask::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_2 = i_prot.read_string()?;
                        val.push(list_elem_2);
                    }
                    i_prot.read_list_end()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::Struct => {
                    let val = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::Struct => {
                    let val = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::Struct => {
                    let val = common::TaskSubprocessOptions::read_from_in_protocol(i_prot)?;
                    f_7 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BistroWorkerRunTaskArgs.rt", &f_1)?;
        verify_required_field_exists("BistroWorkerRunTaskArgs.config", &f_2)?;
        verify_required_field_exists("BistroWorkerRunTaskArgs.command", &f_3)?;
        verify_required_field_exists("BistroWorkerRunTaskArgs.scheduler", &f_4)?;
        verify_required_field_exists("BistroWorkerRunTaskArgs.worker", &f_5)?;
        verify_required_field_exists(
            "BistroWorkerRunTaskArgs.notify_if_tasks_not_running_sequence_num",
            &f_6,
        )?;
        verify_required_field_exists("BistroWorkerRunTaskArgs.opts", &f_7)?;
        let ret = BistroWorkerRunTaskArgs {
            rt: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            config: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
            command: f_3
                .expect("auto-generated code should have checked for presence of required fields"),
            scheduler: f_4
                .expect("auto-generated code should have checked for presence of required fields"),
            worker: f_5
                .expect("auto-generated code should have checked for presence of required fields"),
            notify_if_tasks_not_running_sequence_num: f_6
                .expect("auto-generated code should have checked for presence of required fields"),
            opts: f_7
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("runTask_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("rt", TType::Struct, 1))?;
        self.rt.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("config", TType::String, 2))?;
        o_prot.write_string(&self.config)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("command", TType::List, 3))?;
        o_prot.write_list_begin(&TListIdentifier::new(
            TType::String,
            self.command.len() as i32,
        ))?;
        for e in &self.command {
            o_prot.write_string(e)?;
        }
        o_prot.write_list_end()?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("scheduler", TType::Struct, 4))?;
        self.scheduler.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("worker", TType::Struct, 5))?;
        self.worker.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new(
            "notify_if_tasks_not_running_sequence_num",
            TType::I64,
            6,
        ))?;
        o_prot.write_i64(self.notify_if_tasks_not_running_sequence_num)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("opts", TType::Struct, 7))?;
        self.opts.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroWorkerRunTaskResult {
    pub ex: Option<BistroWorkerException>,
}

impl TSerializable for BistroWorkerRunTaskResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroWorkerRunTaskResult> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<BistroWorkerException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = BistroWorkerException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BistroWorkerRunTaskResult { ex: f_1 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroWorkerRunTaskResult");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.ex {
            o_prot.write_field_begin(&TFieldIdentifier::new("ex", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroWorkerNotifyIfTasksNotRunningArgs {
    pub rts: Vec<common::RunningTask>,
    pub scheduler: common::BistroInstanceID,
    pub worker: common::BistroInstanceID,
    pub notify_if_tasks_not_running_sequence_num: i64,
}

impl TSerializable for BistroWorkerNotifyIfTasksNotRunningArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroWorkerNotifyIfTasksNotRunningArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<common::RunningTask>> = None;
        let mut f_3: Option<common::BistroInstanceID> = None;
        let mut f_4: Option<common::BistroInstanceID> = None;
        let mut f_5: Option<i64> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<common::RunningTask> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_3 = common::RunningTask::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_3);
                    }
                    i_prot.read_list_end()?;
                    f_1 = Some(val);
                }
                3 if field_ident.field_type == TType::Struct => {
                    let val = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::Struct => {
                    let val = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_5 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BistroWorkerNotifyIfTasksNotRunningArgs.rts", &f_1)?;
        verify_required_field_exists("BistroWorkerNotifyIfTasksNotRunningArgs.scheduler", &f_3)?;
        verify_required_field_exists("BistroWorkerNotifyIfTasksNotRunningArgs.worker", &f_4)?;
        verify_required_field_exists(
            "BistroWorkerNotifyIfTasksNotRunningArgs.notify_if_tasks_not_running_sequence_num",
            &f_5,
        )?;
        let ret = BistroWorkerNotifyIfTasksNotRunningArgs {
            rts: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            scheduler: f_3
                .expect("auto-generated code should have checked for presence of required fields"),
            worker: f_4
                .expect("auto-generated code should have checked for presence of required fields"),
            notify_if_tasks_not_running_sequence_num: f_5
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("notifyIfTasksNotRunning_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("rts", TType::List, 1))?;
        o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, self.rts.len() as i32))?;
        for e in &self.rts {
            e.write_to_out_protocol(o_prot)?;
        }
        o_prot.write_list_end()?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("scheduler", TType::Struct, 3))?;
        self.scheduler.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("worker", TType::Struct, 4))?;
        self.worker.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new(
            "notify_if_tasks_not_running_sequence_num",
            TType::I64,
            5,
        ))?;
        o_prot.write_i64(self.notify_if_tasks_not_running_sequence_num)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroWorkerNotifyIfTasksNotRunningResult {}

impl TSerializable for BistroWorkerNotifyIfTasksNotRunningResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroWorkerNotifyIfTasksNotRunningResult> {
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
        let ret = BistroWorkerNotifyIfTasksNotRunningResult {};
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroWorkerNotifyIfTasksNotRunningResult");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroWorkerRequestSuicideArgs {
    pub scheduler: common::BistroInstanceID,
    pub worker: common::BistroInstanceID,
    pub reason: Option<String>,
}

impl TSerializable for BistroWorkerRequestSuicideArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroWorkerRequestSuicideArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<common::BistroInstanceID> = None;
        let mut f_2: Option<common::BistroInstanceID> = None;
        let mut f_16: Option<String> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::Struct => {
                    let val = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_2 = Some(val);
                }
                16 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_16 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BistroWorkerRequestSuicideArgs.scheduler", &f_1)?;
        verify_required_field_exists("BistroWorkerRequestSuicideArgs.worker", &f_2)?;
        let ret = BistroWorkerRequestSuicideArgs {
            scheduler: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            worker: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
            reason: f_16,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("requestSuicide_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("scheduler", TType::Struct, 1))?;
        self.scheduler.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("worker", TType::Struct, 2))?;
        self.worker.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        if let Some(ref fld_var) = self.reason {
            o_prot.write_field_begin(&TFieldIdentifier::new("reason", TType::String, 16))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?;
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroWorkerRequestSuicideResult {
    pub ex: Option<BistroWorkerException>,
}

impl TSerializable for BistroWorkerRequestSuicideResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroWorkerRequestSuicideResult> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<BistroWorkerException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = BistroWorkerException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BistroWorkerRequestSuicideResult { ex: f_1 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroWorkerRequestSuicideResult");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.ex {
            o_prot.write_field_begin(&TFieldIdentifier::new("ex", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroWorkerKillTaskArgs {
    pub rt: common::RunningTask,
    pub scheduler: common::BistroInstanceID,
    pub worker: common::BistroInstanceID,
    pub req: common::KillRequest,
}

impl TSerializable for BistroWorkerKillTaskArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroWorkerKillTaskArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<common::RunningTask> = None;
        let mut f_3: Option<common::BistroInstanceID> = None;
        let mut f_4: Option<common::BistroInstanceID> = None;
        let mut f_5: Option<common::KillRequest> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = common::RunningTask::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                3 if field_ident.field_type == TType::Struct => {
                    let val = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::Struct => {
                    let val = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::Struct => {
                    let val = common::KillRequest::read_from_in_protocol(i_prot)?;
                    f_5 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BistroWorkerKillTaskArgs.rt", &f_1)?;
        verify_required_field_exists("BistroWorkerKillTaskArgs.scheduler", &f_3)?;
        verify_required_field_exists("BistroWorkerKillTaskArgs.worker", &f_4)?;
        verify_required_field_exists("BistroWorkerKillTaskArgs.req", &f_5)?;
        let ret = BistroWorkerKillTaskArgs {
            rt: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            scheduler: f_3
                .expect("auto-generated code should have checked for presence of required fields"),
            worker: f_4
                .expect("auto-generated code should have checked for presence of required fields"),
            req: f_5
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("killTask_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("rt", TType::Struct, 1))?;
        self.rt.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("scheduler", TType::Struct, 3))?;
        self.scheduler.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("worker", TType::Struct, 4))?;
        self.worker.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("req", TType::Struct, 5))?;
        self.req.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroWorkerKillTaskResult {
    pub ex: Option<BistroWorkerException>,
}

impl TSerializable for BistroWorkerKillTaskResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroWorkerKillTaskResult> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<BistroWorkerException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = BistroWorkerException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BistroWorkerKillTaskResult { ex: f_1 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroWorkerKillTaskResult");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.ex {
            o_prot.write_field_begin(&TFieldIdentifier::new("ex", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroWorkerFetchArtifactsArgs {
    pub cluster: String,
    pub ranges: Vec<ArtifactRange>,
    pub most_bytes: i32,
    pub transfer: i64,
    pub hostname: String,
}

impl TSerializable for BistroWorkerFetchArtifactsArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroWorkerFetchArtifactsArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<Vec<ArtifactRange>> = None;
        let mut f_3: Option<i32> = None;
        let mut f_4: Option<i64> = None;
        let mut f_5: Option<String> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<ArtifactRange> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_4 = ArtifactRange::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_4);
                    }
                    i_prot.read_list_end()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_5 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BistroWorkerFetchArtifactsArgs.cluster", &f_1)?;
        verify_required_field_exists("BistroWorkerFetchArtifactsArgs.ranges", &f_2)?;
        verify_required_field_exists("BistroWorkerFetchArtifactsArgs.most_bytes", &f_3)?;
        verify_required_field_exists("BistroWorkerFetchArtifactsArgs.transfer", &f_4)?;
        verify_required_field_exists("BistroWorkerFetchArtifactsArgs.hostname", &f_5)?;
        let ret = BistroWorkerFetchArtifactsArgs {
            cluster: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            ranges: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
            most_bytes: f_3
                .expect("auto-generated code should have checked for presence of required fields"),
            transfer: f_4
                .expect("auto-generated code should have checked for presence of required fields"),
            hostname: f_5
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("fetchArtifacts_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("cluster", TType::String, 1))?;
        o_prot.write_string(&self.cluster)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("ranges", TType::List, 2))?;
        o_prot.write_list_begin(&TListIdentifier::new(
            TType::Struct,
            self.ranges.len() as i32,
        ))?;
        for e in &self.ranges {
            e.write_to_out_protocol(o_prot)?;
        }
        o_prot.write_list_end()?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("mostBytes", TType::I32, 3))?;
        o_prot.write_i32(self.most_bytes)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("transfer", TType::I64, 4))?;
        o_prot.write_i64(self.transfer)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("hostname", TType::String, 5))?;
        o_prot.write_string(&self.hostname)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroWorkerFetchArtifactsResult {
    pub result_value: Option<ArtifactPieces>,
    pub ex: Option<BistroWorkerException>,
}

impl TSerializable for BistroWorkerFetchArtifactsResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroWorkerFetchArtifactsResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<ArtifactPieces> = None;
        let mut f_1: Option<BistroWorkerException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = ArtifactPieces::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = BistroWorkerException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BistroWorkerFetchArtifactsResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroWorkerFetchArtifactsResult");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.result_value {
            o_prot.write_field_begin(&TFieldIdentifier::new("result_value", TType::Struct, 0))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.ex {
            o_prot.write_field_begin(&TFieldIdentifier::new("ex", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroWorkerCheckArtifactArgs {
    pub cluster: String,
    pub id: Vec<u8>,
}

impl TSerializable for BistroWorkerCheckArtifactArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroWorkerCheckArtifactArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<Vec<u8>> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_bytes()?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BistroWorkerCheckArtifactArgs.cluster", &f_1)?;
        verify_required_field_exists("BistroWorkerCheckArtifactArgs.id", &f_2)?;
        let ret = BistroWorkerCheckArtifactArgs {
            cluster: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            id: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("checkArtifact_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("cluster", TType::String, 1))?;
        o_prot.write_string(&self.cluster)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("id", TType::String, 2))?;
        o_prot.write_bytes(&self.id)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroWorkerCheckArtifactResult {}

impl TSerializable for BistroWorkerCheckArtifactResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroWorkerCheckArtifactResult> {
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
        let ret = BistroWorkerCheckArtifactResult {};
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroWorkerCheckArtifactResult");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroWorkerGetJobLogsByIDArgs {
    pub logtype: String,
    pub job_ids: Vec<String>,
    pub node_ids: Vec<String>,
    pub line_id: i64,
    pub is_ascending: bool,
    pub limit: i32,
    pub regex_filter: String,
    pub invocation: Option<common::BistroInstanceID>,
}

impl TSerializable for BistroWorkerGetJobLogsByIDArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroWorkerGetJobLogsByIDArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<Vec<String>> = None;
        let mut f_3: Option<Vec<String>> = None;
        let mut f_4: Option<i64> = None;
        let mut f_5: Option<bool> = None;
        let mut f_6: Option<i32> = None;
        let mut f_7: Option<String> = None;
        let mut f_16: Option<common::BistroInstanceID> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_5 = i_prot.read_string()?;
                        val.push(list_elem_5);
                    }
                    i_prot.read_list_end()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_6 = i_prot.read_string()?;
                        val.push(list_elem_6);
                    }
                    i_prot.read_list_end()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_7 = Some(val);
                }
                16 if field_ident.field_type == TType::Struct => {
                    let val = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_16 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BistroWorkerGetJobLogsByIDArgs.logtype", &f_1)?;
        verify_required_field_exists("BistroWorkerGetJobLogsByIDArgs.job_ids", &f_2)?;
        verify_required_field_exists("BistroWorkerGetJobLogsByIDArgs.node_ids", &f_3)?;
        verify_required_field_exists("BistroWorkerGetJobLogsByIDArgs.line_id", &f_4)?;
        verify_required_field_exists("BistroWorkerGetJobLogsByIDArgs.is_ascending", &f_5)?;
        verify_required_field_exists("BistroWorkerGetJobLogsByIDArgs.limit", &f_6)?;
        verify_required_field_exists("BistroWorkerGetJobLogsByIDArgs.regex_filter", &f_7)?;
        let ret = BistroWorkerGetJobLogsByIDArgs {
            logtype: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            job_ids: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
            node_ids: f_3
                .expect("auto-generated code should have checked for presence of required fields"),
            line_id: f_4
                .expect("auto-generated code should have checked for presence of required fields"),
            is_ascending: f_5
                .expect("auto-generated code should have checked for presence of required fields"),
            limit: f_6
                .expect("auto-generated code should have checked for presence of required fields"),
            regex_filter: f_7
                .expect("auto-generated code should have checked for presence of required fields"),
            invocation: f_16,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("getJobLogsByID_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("logtype", TType::String, 1))?;
        o_prot.write_string(&self.logtype)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("job_ids", TType::List, 2))?;
        o_prot.write_list_begin(&TListIdentifier::new(
            TType::String,
            self.job_ids.len() as i32,
        ))?;
        for e in &self.job_ids {
            o_prot.write_string(e)?;
        }
        o_prot.write_list_end()?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("node_ids", TType::List, 3))?;
        o_prot.write_list_begin(&TListIdentifier::new(
            TType::String,
            self.node_ids.len() as i32,
        ))?;
        for e in &self.node_ids {
            o_prot.write_string(e)?;
        }
        o_prot.write_list_end()?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("line_id", TType::I64, 4))?;
        o_prot.write_i64(self.line_id)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("is_ascending", TType::Bool, 5))?;
        o_prot.write_bool(self.is_ascending)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("limit", TType::I32, 6))?;
        o_prot.write_i32(self.limit)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("regex_filter", TType::String, 7))?;
        o_prot.write_string(&self.regex_filter)?;
        o_prot.write_field_end()?;
        if let Some(ref fld_var) = self.invocation {
            o_prot.write_field_begin(&TFieldIdentifier::new("invocation", TType::Struct, 16))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?;
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroWorkerGetJobLogsByIDResult {
    pub result_value: Option<common::LogLines>,
    pub ex: Option<BistroWorkerException>,
}

impl TSerializable for BistroWorkerGetJobLogsByIDResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroWorkerGetJobLogsByIDResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<common::LogLines> = None;
        let mut f_1: Option<BistroWorkerException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = common::LogLines::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = BistroWorkerException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BistroWorkerGetJobLogsByIDResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroWorkerGetJobLogsByIDResult");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.result_value {
            o_prot.write_field_begin(&TFieldIdentifier::new("result_value", TType::Struct, 0))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.ex {
            o_prot.write_field_begin(&TFieldIdentifier::new("ex", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}
