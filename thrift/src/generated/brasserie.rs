//! Generated from `idl/brasserie.thrift`: what our own command line asks a scheduler and a worker.
// By thrift/regenerate; do not edit.

use crate::generated::common;
use crate::generated::scheduler;
use crate::generated::worker;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::fmt::{Display, Formatter};
use thrift::OrderedFloat;
use thrift::protocol::{
    TFieldIdentifier, TInputProtocol, TListIdentifier, TMapIdentifier, TOutputProtocol,
    TSerializable, TStructIdentifier, TType, field_id, verify_required_field_exists,
};

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct JobStatus {
    pub name: Option<String>,
    pub enabled: Option<bool>,
    pub total: Option<i64>,
    pub unstarted: Option<i64>,
    pub running: Option<i64>,
    pub done: Option<i64>,
    pub incomplete: Option<i64>,
    pub error: Option<i64>,
    pub in_backoff: Option<i64>,
    pub failed: Option<i64>,
    pub infeasible: Option<i64>,
    pub errors: Option<Vec<String>>,
    pub next_backoff_end_ms: Option<i64>,
    pub settled: Option<bool>,
    pub elapsed_ms: Option<i64>,
    pub paused: Option<bool>,
    pub version: Option<i64>,
    pub cancelled: Option<bool>,
    pub estimate_sec: Option<OrderedFloat<f64>>,
    pub estimate_is: Option<String>,
    pub owner: Option<String>,
}

impl TSerializable for JobStatus {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<JobStatus> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<bool> = Some(false);
        let mut f_3: Option<i64> = Some(0);
        let mut f_4: Option<i64> = Some(0);
        let mut f_5: Option<i64> = Some(0);
        let mut f_6: Option<i64> = Some(0);
        let mut f_7: Option<i64> = Some(0);
        let mut f_8: Option<i64> = Some(0);
        let mut f_9: Option<i64> = Some(0);
        let mut f_10: Option<i64> = Some(0);
        let mut f_11: Option<i64> = Some(0);
        let mut f_12: Option<Vec<String>> = Some(Vec::new());
        let mut f_13: Option<i64> = None;
        let mut f_14: Option<bool> = Some(false);
        let mut f_15: Option<i64> = None;
        let mut f_16: Option<bool> = Some(false);
        let mut f_17: Option<i64> = None;
        let mut f_18: Option<bool> = None;
        let mut f_19: Option<OrderedFloat<f64>> = None;
        let mut f_20: Option<String> = None;
        let mut f_21: Option<String> = None;
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
                2 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_7 = Some(val);
                }
                8 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_8 = Some(val);
                }
                9 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_9 = Some(val);
                }
                10 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_10 = Some(val);
                }
                11 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_11 = Some(val);
                }
                12 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_0 = i_prot.read_string()?;
                        val.push(list_elem_0);
                    }
                    i_prot.read_list_end()?;
                    f_12 = Some(val);
                }
                13 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_13 = Some(val);
                }
                14 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_14 = Some(val);
                }
                15 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_15 = Some(val);
                }
                16 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_16 = Some(val);
                }
                17 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_17 = Some(val);
                }
                18 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_18 = Some(val);
                }
                19 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_19 = Some(val);
                }
                20 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_20 = Some(val);
                }
                21 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_21 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = JobStatus {
            name: f_1,
            enabled: f_2,
            total: f_3,
            unstarted: f_4,
            running: f_5,
            done: f_6,
            incomplete: f_7,
            error: f_8,
            in_backoff: f_9,
            failed: f_10,
            infeasible: f_11,
            errors: f_12,
            next_backoff_end_ms: f_13,
            settled: f_14,
            elapsed_ms: f_15,
            paused: f_16,
            version: f_17,
            cancelled: f_18,
            estimate_sec: f_19,
            estimate_is: f_20,
            owner: f_21,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("JobStatus");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.name {
            o_prot.write_field_begin(&TFieldIdentifier::new("name", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.enabled {
            o_prot.write_field_begin(&TFieldIdentifier::new("enabled", TType::Bool, 2))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.total {
            o_prot.write_field_begin(&TFieldIdentifier::new("total", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.unstarted {
            o_prot.write_field_begin(&TFieldIdentifier::new("unstarted", TType::I64, 4))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.running {
            o_prot.write_field_begin(&TFieldIdentifier::new("running", TType::I64, 5))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.done {
            o_prot.write_field_begin(&TFieldIdentifier::new("done", TType::I64, 6))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.incomplete {
            o_prot.write_field_begin(&TFieldIdentifier::new("incomplete", TType::I64, 7))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.error {
            o_prot.write_field_begin(&TFieldIdentifier::new("error", TType::I64, 8))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.in_backoff {
            o_prot.write_field_begin(&TFieldIdentifier::new("inBackoff", TType::I64, 9))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.failed {
            o_prot.write_field_begin(&TFieldIdentifier::new("failed", TType::I64, 10))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.infeasible {
            o_prot.write_field_begin(&TFieldIdentifier::new("infeasible", TType::I64, 11))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.errors {
            o_prot.write_field_begin(&TFieldIdentifier::new("errors", TType::List, 12))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.next_backoff_end_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("nextBackoffEndMs", TType::I64, 13))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.settled {
            o_prot.write_field_begin(&TFieldIdentifier::new("settled", TType::Bool, 14))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.elapsed_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("elapsedMs", TType::I64, 15))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.paused {
            o_prot.write_field_begin(&TFieldIdentifier::new("paused", TType::Bool, 16))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.version {
            o_prot.write_field_begin(&TFieldIdentifier::new("version", TType::I64, 17))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.cancelled {
            o_prot.write_field_begin(&TFieldIdentifier::new("cancelled", TType::Bool, 18))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.estimate_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new("estimateSec", TType::Double, 19))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.estimate_is {
            o_prot.write_field_begin(&TFieldIdentifier::new("estimateIs", TType::String, 20))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.owner {
            o_prot.write_field_begin(&TFieldIdentifier::new("owner", TType::String, 21))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for JobStatus {
    fn default() -> Self {
        JobStatus {
            name: Some("".to_owned()),
            enabled: Some(false),
            total: Some(0),
            unstarted: Some(0),
            running: Some(0),
            done: Some(0),
            incomplete: Some(0),
            error: Some(0),
            in_backoff: Some(0),
            failed: Some(0),
            infeasible: Some(0),
            errors: Some(Vec::new()),
            next_backoff_end_ms: None,
            settled: Some(false),
            elapsed_ms: None,
            paused: Some(false),
            version: None,
            cancelled: None,
            estimate_sec: None,
            estimate_is: None,
            owner: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TaskCounts {
    pub total: Option<i64>,
    pub unstarted: Option<i64>,
    pub running: Option<i64>,
    pub done: Option<i64>,
    pub incomplete: Option<i64>,
    pub error: Option<i64>,
    pub in_backoff: Option<i64>,
    pub failed: Option<i64>,
    pub infeasible: Option<i64>,
    pub held: Option<i64>,
}

impl TSerializable for TaskCounts {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<TaskCounts> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i64> = Some(0);
        let mut f_2: Option<i64> = Some(0);
        let mut f_3: Option<i64> = Some(0);
        let mut f_4: Option<i64> = Some(0);
        let mut f_5: Option<i64> = Some(0);
        let mut f_6: Option<i64> = Some(0);
        let mut f_7: Option<i64> = Some(0);
        let mut f_8: Option<i64> = Some(0);
        let mut f_9: Option<i64> = Some(0);
        let mut f_10: Option<i64> = Some(0);
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_7 = Some(val);
                }
                8 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_8 = Some(val);
                }
                9 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_9 = Some(val);
                }
                10 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_10 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = TaskCounts {
            total: f_1,
            unstarted: f_2,
            running: f_3,
            done: f_4,
            incomplete: f_5,
            error: f_6,
            in_backoff: f_7,
            failed: f_8,
            infeasible: f_9,
            held: f_10,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("TaskCounts");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.total {
            o_prot.write_field_begin(&TFieldIdentifier::new("total", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.unstarted {
            o_prot.write_field_begin(&TFieldIdentifier::new("unstarted", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.running {
            o_prot.write_field_begin(&TFieldIdentifier::new("running", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.done {
            o_prot.write_field_begin(&TFieldIdentifier::new("done", TType::I64, 4))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.incomplete {
            o_prot.write_field_begin(&TFieldIdentifier::new("incomplete", TType::I64, 5))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.error {
            o_prot.write_field_begin(&TFieldIdentifier::new("error", TType::I64, 6))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.in_backoff {
            o_prot.write_field_begin(&TFieldIdentifier::new("inBackoff", TType::I64, 7))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.failed {
            o_prot.write_field_begin(&TFieldIdentifier::new("failed", TType::I64, 8))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.infeasible {
            o_prot.write_field_begin(&TFieldIdentifier::new("infeasible", TType::I64, 9))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.held {
            o_prot.write_field_begin(&TFieldIdentifier::new("held", TType::I64, 10))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for TaskCounts {
    fn default() -> Self {
        TaskCounts {
            total: Some(0),
            unstarted: Some(0),
            running: Some(0),
            done: Some(0),
            incomplete: Some(0),
            error: Some(0),
            in_backoff: Some(0),
            failed: Some(0),
            infeasible: Some(0),
            held: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct JobTotals {
    pub jobs: Option<i64>,
    pub jobs_by_state: Option<BTreeMap<String, i64>>,
    pub tasks: Option<TaskCounts>,
    pub unsettled_jobs: Option<i64>,
}

impl TSerializable for JobTotals {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<JobTotals> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i64> = Some(0);
        let mut f_2: Option<BTreeMap<String, i64>> = Some(BTreeMap::new());
        let mut f_3: Option<TaskCounts> = None;
        let mut f_4: Option<i64> = Some(0);
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::Map => {
                    let map_ident = i_prot.read_map_begin()?;
                    let mut val: BTreeMap<String, i64> = BTreeMap::new();
                    for _ in 0..map_ident.size {
                        let map_key_1 = i_prot.read_string()?;
                        let map_val_2 = i_prot.read_i64()?;
                        val.insert(map_key_1, map_val_2);
                    }
                    i_prot.read_map_end()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Struct => {
                    let val = TaskCounts::read_from_in_protocol(i_prot)?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_4 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = JobTotals {
            jobs: f_1,
            jobs_by_state: f_2,
            tasks: f_3,
            unsettled_jobs: f_4,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("JobTotals");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.jobs {
            o_prot.write_field_begin(&TFieldIdentifier::new("jobs", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.jobs_by_state {
            o_prot.write_field_begin(&TFieldIdentifier::new("jobsByState", TType::Map, 2))?;
            o_prot.write_map_begin(&TMapIdentifier::new(
                TType::String,
                TType::I64,
                fld_var.len() as i32,
            ))?;
            for (k, v) in fld_var {
                o_prot.write_string(k)?;
                o_prot.write_i64(*v)?;
            }
            o_prot.write_map_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.tasks {
            o_prot.write_field_begin(&TFieldIdentifier::new("tasks", TType::Struct, 3))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.unsettled_jobs {
            o_prot.write_field_begin(&TFieldIdentifier::new("unsettledJobs", TType::I64, 4))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for JobTotals {
    fn default() -> Self {
        JobTotals {
            jobs: Some(0),
            jobs_by_state: Some(BTreeMap::new()),
            tasks: None,
            unsettled_jobs: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SlotUse {
    pub resource: Option<String>,
    pub in_use: Option<i64>,
    pub limit: Option<i64>,
}

impl TSerializable for SlotUse {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<SlotUse> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<i64> = Some(0);
        let mut f_3: Option<i64> = None;
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
                2 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
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
        let ret = SlotUse {
            resource: f_1,
            in_use: f_2,
            limit: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("SlotUse");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.resource {
            o_prot.write_field_begin(&TFieldIdentifier::new("resource", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.in_use {
            o_prot.write_field_begin(&TFieldIdentifier::new("inUse", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.limit {
            o_prot.write_field_begin(&TFieldIdentifier::new("limit", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for SlotUse {
    fn default() -> Self {
        SlotUse {
            resource: Some("".to_owned()),
            in_use: Some(0),
            limit: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WorkAskedOfType {
    pub processor: Option<String>,
    pub instances: Option<OrderedFloat<f64>>,
    pub instance_secs: Option<OrderedFloat<f64>>,
    pub idle_instances: Option<OrderedFloat<f64>>,
    pub sent: Option<i32>,
    pub ready: Option<i64>,
    pub late: Option<i64>,
}

impl TSerializable for WorkAskedOfType {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<WorkAskedOfType> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<OrderedFloat<f64>> = Some(OrderedFloat::from(0.0));
        let mut f_3: Option<OrderedFloat<f64>> = Some(OrderedFloat::from(0.0));
        let mut f_4: Option<OrderedFloat<f64>> = Some(OrderedFloat::from(0.0));
        let mut f_5: Option<i32> = Some(0);
        let mut f_6: Option<i64> = Some(0);
        let mut f_7: Option<i64> = Some(0);
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
                2 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_7 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = WorkAskedOfType {
            processor: f_1,
            instances: f_2,
            instance_secs: f_3,
            idle_instances: f_4,
            sent: f_5,
            ready: f_6,
            late: f_7,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("WorkAskedOfType");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.processor {
            o_prot.write_field_begin(&TFieldIdentifier::new("processor", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.instances {
            o_prot.write_field_begin(&TFieldIdentifier::new("instances", TType::Double, 2))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.instance_secs {
            o_prot.write_field_begin(&TFieldIdentifier::new("instanceSecs", TType::Double, 3))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.idle_instances {
            o_prot.write_field_begin(&TFieldIdentifier::new("idleInstances", TType::Double, 4))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.sent {
            o_prot.write_field_begin(&TFieldIdentifier::new("sent", TType::I32, 5))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.ready {
            o_prot.write_field_begin(&TFieldIdentifier::new("ready", TType::I64, 6))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.late {
            o_prot.write_field_begin(&TFieldIdentifier::new("late", TType::I64, 7))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for WorkAskedOfType {
    fn default() -> Self {
        WorkAskedOfType {
            processor: Some("".to_owned()),
            instances: Some(OrderedFloat::from(0.0)),
            instance_secs: Some(OrderedFloat::from(0.0)),
            idle_instances: Some(OrderedFloat::from(0.0)),
            sent: Some(0),
            ready: Some(0),
            late: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WorkAsked {
    pub seq: Option<i64>,
    pub ago_ms: Option<i64>,
    pub left_ms: Option<i64>,
    pub of_types: Option<Vec<WorkAskedOfType>>,
    pub text: Option<String>,
}

impl TSerializable for WorkAsked {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<WorkAsked> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i64> = Some(0);
        let mut f_2: Option<i64> = Some(0);
        let mut f_3: Option<i64> = None;
        let mut f_4: Option<Vec<WorkAskedOfType>> = Some(Vec::new());
        let mut f_5: Option<String> = Some("".to_owned());
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<WorkAskedOfType> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_3 = WorkAskedOfType::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_3);
                    }
                    i_prot.read_list_end()?;
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
        let ret = WorkAsked {
            seq: f_1,
            ago_ms: f_2,
            left_ms: f_3,
            of_types: f_4,
            text: f_5,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("WorkAsked");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.seq {
            o_prot.write_field_begin(&TFieldIdentifier::new("seq", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.ago_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("agoMs", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.left_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("leftMs", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.of_types {
            o_prot.write_field_begin(&TFieldIdentifier::new("ofTypes", TType::List, 4))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.text {
            o_prot.write_field_begin(&TFieldIdentifier::new("text", TType::String, 5))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for WorkAsked {
    fn default() -> Self {
        WorkAsked {
            seq: Some(0),
            ago_ms: Some(0),
            left_ms: None,
            of_types: Some(Vec::new()),
            text: Some("".to_owned()),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DiskStatus {
    pub medium: Option<String>,
    pub state: Option<String>,
    pub total_bytes: Option<i64>,
    pub usable_bytes: Option<i64>,
    pub artifacts: Option<i64>,
    pub problem: Option<String>,
    pub flush_micros: Option<i64>,
    pub fetch_micros: Option<i64>,
}

impl TSerializable for DiskStatus {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<DiskStatus> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<i64> = Some(0);
        let mut f_4: Option<i64> = Some(0);
        let mut f_5: Option<i64> = Some(0);
        let mut f_6: Option<String> = None;
        let mut f_7: Option<i64> = None;
        let mut f_8: Option<i64> = None;
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
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_7 = Some(val);
                }
                8 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_8 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = DiskStatus {
            medium: f_1,
            state: f_2,
            total_bytes: f_3,
            usable_bytes: f_4,
            artifacts: f_5,
            problem: f_6,
            flush_micros: f_7,
            fetch_micros: f_8,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("DiskStatus");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.medium {
            o_prot.write_field_begin(&TFieldIdentifier::new("medium", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.state {
            o_prot.write_field_begin(&TFieldIdentifier::new("state", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.total_bytes {
            o_prot.write_field_begin(&TFieldIdentifier::new("totalBytes", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.usable_bytes {
            o_prot.write_field_begin(&TFieldIdentifier::new("usableBytes", TType::I64, 4))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.artifacts {
            o_prot.write_field_begin(&TFieldIdentifier::new("artifacts", TType::I64, 5))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.problem {
            o_prot.write_field_begin(&TFieldIdentifier::new("problem", TType::String, 6))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.flush_micros {
            o_prot.write_field_begin(&TFieldIdentifier::new("flushMicros", TType::I64, 7))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.fetch_micros {
            o_prot.write_field_begin(&TFieldIdentifier::new("fetchMicros", TType::I64, 8))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for DiskStatus {
    fn default() -> Self {
        DiskStatus {
            medium: Some("".to_owned()),
            state: Some("".to_owned()),
            total_bytes: Some(0),
            usable_bytes: Some(0),
            artifacts: Some(0),
            problem: None,
            flush_micros: None,
            fetch_micros: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TransferCounts {
    pub done: Option<i64>,
    pub bytes: Option<i64>,
    pub busy: Option<i64>,
    pub failed: Option<i64>,
}

impl TSerializable for TransferCounts {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<TransferCounts> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i64> = Some(0);
        let mut f_2: Option<i64> = Some(0);
        let mut f_3: Option<i64> = Some(0);
        let mut f_4: Option<i64> = Some(0);
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_4 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = TransferCounts {
            done: f_1,
            bytes: f_2,
            busy: f_3,
            failed: f_4,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("TransferCounts");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.done {
            o_prot.write_field_begin(&TFieldIdentifier::new("done", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.bytes {
            o_prot.write_field_begin(&TFieldIdentifier::new("bytes", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.busy {
            o_prot.write_field_begin(&TFieldIdentifier::new("busy", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.failed {
            o_prot.write_field_begin(&TFieldIdentifier::new("failed", TType::I64, 4))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for TransferCounts {
    fn default() -> Self {
        TransferCounts {
            done: Some(0),
            bytes: Some(0),
            busy: Some(0),
            failed: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LocalityCounts {
    pub hits: Option<i64>,
    pub misses: Option<i64>,
}

impl TSerializable for LocalityCounts {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<LocalityCounts> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i64> = Some(0);
        let mut f_2: Option<i64> = Some(0);
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
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
        let ret = LocalityCounts {
            hits: f_1,
            misses: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("LocalityCounts");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.hits {
            o_prot.write_field_begin(&TFieldIdentifier::new("hits", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.misses {
            o_prot.write_field_begin(&TFieldIdentifier::new("misses", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for LocalityCounts {
    fn default() -> Self {
        LocalityCounts {
            hits: Some(0),
            misses: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WorkerStatus {
    pub shard: Option<String>,
    pub hostname: Option<String>,
    pub address: Option<String>,
    pub state: Option<String>,
    pub instance: Option<common::BistroInstanceID>,
    pub running_tasks: Option<i32>,
    pub slots: Option<Vec<SlotUse>>,
    pub unsure_tasks: Option<i32>,
    pub since_heartbeat_ms: Option<i64>,
    pub waits_for: Option<String>,
    pub notes: Option<Vec<String>>,
    pub begun_anew: Option<i32>,
    pub asked: Option<WorkAsked>,
    pub containment: Option<String>,
    pub lost_in_ms: Option<i64>,
    pub problems: Option<Vec<String>>,
    pub silent_for_ms: Option<i64>,
    pub standby_tasks: Option<i32>,
    pub taken_back: Option<i64>,
    pub disks: Option<Vec<DiskStatus>>,
    pub transfers: Option<TransferCounts>,
    pub artifacts_only_here: Option<i64>,
    pub bytes_only_here: Option<i64>,
}

impl TSerializable for WorkerStatus {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<WorkerStatus> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<String> = Some("".to_owned());
        let mut f_4: Option<String> = Some("".to_owned());
        let mut f_5: Option<common::BistroInstanceID> = None;
        let mut f_6: Option<i32> = Some(0);
        let mut f_7: Option<Vec<SlotUse>> = Some(Vec::new());
        let mut f_8: Option<i32> = Some(0);
        let mut f_9: Option<i64> = None;
        let mut f_10: Option<String> = None;
        let mut f_11: Option<Vec<String>> = Some(Vec::new());
        let mut f_12: Option<i32> = Some(0);
        let mut f_13: Option<WorkAsked> = None;
        let mut f_14: Option<String> = None;
        let mut f_15: Option<i64> = None;
        let mut f_16: Option<Vec<String>> = None;
        let mut f_17: Option<i64> = None;
        let mut f_18: Option<i32> = None;
        let mut f_19: Option<i64> = None;
        let mut f_20: Option<Vec<DiskStatus>> = None;
        let mut f_21: Option<TransferCounts> = None;
        let mut f_22: Option<i64> = None;
        let mut f_23: Option<i64> = None;
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
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::Struct => {
                    let val = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<SlotUse> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_4 = SlotUse::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_4);
                    }
                    i_prot.read_list_end()?;
                    f_7 = Some(val);
                }
                8 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_8 = Some(val);
                }
                9 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_9 = Some(val);
                }
                10 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_10 = Some(val);
                }
                11 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_5 = i_prot.read_string()?;
                        val.push(list_elem_5);
                    }
                    i_prot.read_list_end()?;
                    f_11 = Some(val);
                }
                12 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_12 = Some(val);
                }
                13 if field_ident.field_type == TType::Struct => {
                    let val = WorkAsked::read_from_in_protocol(i_prot)?;
                    f_13 = Some(val);
                }
                14 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_14 = Some(val);
                }
                15 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_15 = Some(val);
                }
                16 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_6 = i_prot.read_string()?;
                        val.push(list_elem_6);
                    }
                    i_prot.read_list_end()?;
                    f_16 = Some(val);
                }
                17 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_17 = Some(val);
                }
                18 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_18 = Some(val);
                }
                19 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_19 = Some(val);
                }
                20 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<DiskStatus> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_7 = DiskStatus::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_7);
                    }
                    i_prot.read_list_end()?;
                    f_20 = Some(val);
                }
                21 if field_ident.field_type == TType::Struct => {
                    let val = TransferCounts::read_from_in_protocol(i_prot)?;
                    f_21 = Some(val);
                }
                22 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_22 = Some(val);
                }
                23 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_23 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = WorkerStatus {
            shard: f_1,
            hostname: f_2,
            address: f_3,
            state: f_4,
            instance: f_5,
            running_tasks: f_6,
            slots: f_7,
            unsure_tasks: f_8,
            since_heartbeat_ms: f_9,
            waits_for: f_10,
            notes: f_11,
            begun_anew: f_12,
            asked: f_13,
            containment: f_14,
            lost_in_ms: f_15,
            problems: f_16,
            silent_for_ms: f_17,
            standby_tasks: f_18,
            taken_back: f_19,
            disks: f_20,
            transfers: f_21,
            artifacts_only_here: f_22,
            bytes_only_here: f_23,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("WorkerStatus");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.shard {
            o_prot.write_field_begin(&TFieldIdentifier::new("shard", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.hostname {
            o_prot.write_field_begin(&TFieldIdentifier::new("hostname", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.address {
            o_prot.write_field_begin(&TFieldIdentifier::new("address", TType::String, 3))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.state {
            o_prot.write_field_begin(&TFieldIdentifier::new("state", TType::String, 4))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.instance {
            o_prot.write_field_begin(&TFieldIdentifier::new("instance", TType::Struct, 5))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.running_tasks {
            o_prot.write_field_begin(&TFieldIdentifier::new("runningTasks", TType::I32, 6))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.slots {
            o_prot.write_field_begin(&TFieldIdentifier::new("slots", TType::List, 7))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.unsure_tasks {
            o_prot.write_field_begin(&TFieldIdentifier::new("unsureTasks", TType::I32, 8))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.since_heartbeat_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("sinceHeartbeatMs", TType::I64, 9))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.waits_for {
            o_prot.write_field_begin(&TFieldIdentifier::new("waitsFor", TType::String, 10))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.notes {
            o_prot.write_field_begin(&TFieldIdentifier::new("notes", TType::List, 11))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.begun_anew {
            o_prot.write_field_begin(&TFieldIdentifier::new("begunAnew", TType::I32, 12))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.asked {
            o_prot.write_field_begin(&TFieldIdentifier::new("asked", TType::Struct, 13))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.containment {
            o_prot.write_field_begin(&TFieldIdentifier::new("containment", TType::String, 14))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.lost_in_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("lostInMs", TType::I64, 15))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.problems {
            o_prot.write_field_begin(&TFieldIdentifier::new("problems", TType::List, 16))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.silent_for_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("silentForMs", TType::I64, 17))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.standby_tasks {
            o_prot.write_field_begin(&TFieldIdentifier::new("standbyTasks", TType::I32, 18))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.taken_back {
            o_prot.write_field_begin(&TFieldIdentifier::new("takenBack", TType::I64, 19))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.disks {
            o_prot.write_field_begin(&TFieldIdentifier::new("disks", TType::List, 20))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.transfers {
            o_prot.write_field_begin(&TFieldIdentifier::new("transfers", TType::Struct, 21))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.artifacts_only_here {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "artifactsOnlyHere",
                TType::I64,
                22,
            ))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.bytes_only_here {
            o_prot.write_field_begin(&TFieldIdentifier::new("bytesOnlyHere", TType::I64, 23))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for WorkerStatus {
    fn default() -> Self {
        WorkerStatus {
            shard: Some("".to_owned()),
            hostname: Some("".to_owned()),
            address: Some("".to_owned()),
            state: Some("".to_owned()),
            instance: None,
            running_tasks: Some(0),
            slots: Some(Vec::new()),
            unsure_tasks: Some(0),
            since_heartbeat_ms: None,
            waits_for: None,
            notes: Some(Vec::new()),
            begun_anew: Some(0),
            asked: None,
            containment: None,
            lost_in_ms: None,
            problems: None,
            silent_for_ms: None,
            standby_tasks: None,
            taken_back: None,
            disks: None,
            transfers: None,
            artifacts_only_here: None,
            bytes_only_here: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WorkRequestCounts {
    pub heard: Option<i64>,
    pub looked_at: Option<i64>,
    pub repeated: Option<i64>,
    pub not_ready: Option<i64>,
    pub too_soon: Option<i64>,
    pub too_many: Option<i64>,
    pub missing_runs: Option<i64>,
}

impl TSerializable for WorkRequestCounts {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<WorkRequestCounts> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i64> = Some(0);
        let mut f_2: Option<i64> = Some(0);
        let mut f_3: Option<i64> = Some(0);
        let mut f_4: Option<i64> = Some(0);
        let mut f_5: Option<i64> = Some(0);
        let mut f_6: Option<i64> = Some(0);
        let mut f_7: Option<i64> = Some(0);
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_7 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = WorkRequestCounts {
            heard: f_1,
            looked_at: f_2,
            repeated: f_3,
            not_ready: f_4,
            too_soon: f_5,
            too_many: f_6,
            missing_runs: f_7,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("WorkRequestCounts");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.heard {
            o_prot.write_field_begin(&TFieldIdentifier::new("heard", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.looked_at {
            o_prot.write_field_begin(&TFieldIdentifier::new("lookedAt", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.repeated {
            o_prot.write_field_begin(&TFieldIdentifier::new("repeated", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.not_ready {
            o_prot.write_field_begin(&TFieldIdentifier::new("notReady", TType::I64, 4))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.too_soon {
            o_prot.write_field_begin(&TFieldIdentifier::new("tooSoon", TType::I64, 5))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.too_many {
            o_prot.write_field_begin(&TFieldIdentifier::new("tooMany", TType::I64, 6))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.missing_runs {
            o_prot.write_field_begin(&TFieldIdentifier::new("missingRuns", TType::I64, 7))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for WorkRequestCounts {
    fn default() -> Self {
        WorkRequestCounts {
            heard: Some(0),
            looked_at: Some(0),
            repeated: Some(0),
            not_ready: Some(0),
            too_soon: Some(0),
            too_many: Some(0),
            missing_runs: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ConfigStatus {
    pub path: Option<String>,
    pub is_kept: Option<bool>,
    pub since_ms: Option<i64>,
}

impl TSerializable for ConfigStatus {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ConfigStatus> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<bool> = Some(false);
        let mut f_3: Option<i64> = Some(0);
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
                2 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
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
        let ret = ConfigStatus {
            path: f_1,
            is_kept: f_2,
            since_ms: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ConfigStatus");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.path {
            o_prot.write_field_begin(&TFieldIdentifier::new("path", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.is_kept {
            o_prot.write_field_begin(&TFieldIdentifier::new("isKept", TType::Bool, 2))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.since_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("sinceMs", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ConfigStatus {
    fn default() -> Self {
        ConfigStatus {
            path: None,
            is_kept: Some(false),
            since_ms: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct StoreStatus {
    pub bytes: Option<i64>,
    pub free_bytes: Option<i64>,
    pub completions: Option<i64>,
    pub missing_completions: Option<i64>,
    pub disk_free_bytes: Option<i64>,
    pub growth_bytes: Option<i64>,
    pub growth_sec: Option<i64>,
}

impl TSerializable for StoreStatus {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<StoreStatus> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i64> = Some(0);
        let mut f_2: Option<i64> = Some(0);
        let mut f_3: Option<i64> = Some(0);
        let mut f_4: Option<i64> = Some(0);
        let mut f_5: Option<i64> = Some(0);
        let mut f_6: Option<i64> = None;
        let mut f_7: Option<i64> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_7 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = StoreStatus {
            bytes: f_1,
            free_bytes: f_2,
            completions: f_3,
            missing_completions: f_4,
            disk_free_bytes: f_5,
            growth_bytes: f_6,
            growth_sec: f_7,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("StoreStatus");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.bytes {
            o_prot.write_field_begin(&TFieldIdentifier::new("bytes", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.free_bytes {
            o_prot.write_field_begin(&TFieldIdentifier::new("freeBytes", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.completions {
            o_prot.write_field_begin(&TFieldIdentifier::new("completions", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.missing_completions {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "missingCompletions",
                TType::I64,
                4,
            ))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.disk_free_bytes {
            o_prot.write_field_begin(&TFieldIdentifier::new("diskFreeBytes", TType::I64, 5))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.growth_bytes {
            o_prot.write_field_begin(&TFieldIdentifier::new("growthBytes", TType::I64, 6))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.growth_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new("growthSec", TType::I64, 7))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for StoreStatus {
    fn default() -> Self {
        StoreStatus {
            bytes: Some(0),
            free_bytes: Some(0),
            completions: Some(0),
            missing_completions: Some(0),
            disk_free_bytes: Some(0),
            growth_bytes: None,
            growth_sec: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WorkerOrder {
    pub shard: Option<String>,
    pub state: Option<String>,
    pub reason: Option<String>,
    pub by: Option<String>,
    pub since_ms: Option<i64>,
    pub deadline_ms: Option<i64>,
    pub then_idle: Option<bool>,
    pub connected: Option<bool>,
    pub running_tasks: Option<i32>,
    pub artifacts_only_here: Option<i64>,
    pub bytes_only_here: Option<i64>,
    pub unknown: Option<bool>,
    pub exits: Option<bool>,
    pub copies_wait_for: Option<String>,
    pub artifacts_lost: Option<i64>,
    pub bytes_lost: Option<i64>,
}

impl TSerializable for WorkerOrder {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<WorkerOrder> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<String> = Some("".to_owned());
        let mut f_4: Option<String> = Some("".to_owned());
        let mut f_5: Option<i64> = Some(0);
        let mut f_6: Option<i64> = None;
        let mut f_7: Option<bool> = Some(false);
        let mut f_8: Option<bool> = Some(false);
        let mut f_9: Option<i32> = Some(0);
        let mut f_10: Option<i64> = Some(0);
        let mut f_11: Option<i64> = Some(0);
        let mut f_12: Option<bool> = Some(false);
        let mut f_13: Option<bool> = Some(false);
        let mut f_14: Option<String> = None;
        let mut f_15: Option<i64> = None;
        let mut f_16: Option<i64> = None;
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
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_7 = Some(val);
                }
                8 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_8 = Some(val);
                }
                9 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_9 = Some(val);
                }
                10 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_10 = Some(val);
                }
                11 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_11 = Some(val);
                }
                12 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_12 = Some(val);
                }
                13 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_13 = Some(val);
                }
                14 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_14 = Some(val);
                }
                15 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_15 = Some(val);
                }
                16 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_16 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = WorkerOrder {
            shard: f_1,
            state: f_2,
            reason: f_3,
            by: f_4,
            since_ms: f_5,
            deadline_ms: f_6,
            then_idle: f_7,
            connected: f_8,
            running_tasks: f_9,
            artifacts_only_here: f_10,
            bytes_only_here: f_11,
            unknown: f_12,
            exits: f_13,
            copies_wait_for: f_14,
            artifacts_lost: f_15,
            bytes_lost: f_16,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("WorkerOrder");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.shard {
            o_prot.write_field_begin(&TFieldIdentifier::new("shard", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.state {
            o_prot.write_field_begin(&TFieldIdentifier::new("state", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.reason {
            o_prot.write_field_begin(&TFieldIdentifier::new("reason", TType::String, 3))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.by {
            o_prot.write_field_begin(&TFieldIdentifier::new("by", TType::String, 4))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.since_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("sinceMs", TType::I64, 5))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.deadline_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("deadlineMs", TType::I64, 6))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.then_idle {
            o_prot.write_field_begin(&TFieldIdentifier::new("thenIdle", TType::Bool, 7))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.connected {
            o_prot.write_field_begin(&TFieldIdentifier::new("connected", TType::Bool, 8))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.running_tasks {
            o_prot.write_field_begin(&TFieldIdentifier::new("runningTasks", TType::I32, 9))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.artifacts_only_here {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "artifactsOnlyHere",
                TType::I64,
                10,
            ))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.bytes_only_here {
            o_prot.write_field_begin(&TFieldIdentifier::new("bytesOnlyHere", TType::I64, 11))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.unknown {
            o_prot.write_field_begin(&TFieldIdentifier::new("unknown", TType::Bool, 12))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.exits {
            o_prot.write_field_begin(&TFieldIdentifier::new("exits", TType::Bool, 13))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.copies_wait_for {
            o_prot.write_field_begin(&TFieldIdentifier::new("copiesWaitFor", TType::String, 14))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.artifacts_lost {
            o_prot.write_field_begin(&TFieldIdentifier::new("artifactsLost", TType::I64, 15))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.bytes_lost {
            o_prot.write_field_begin(&TFieldIdentifier::new("bytesLost", TType::I64, 16))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for WorkerOrder {
    fn default() -> Self {
        WorkerOrder {
            shard: Some("".to_owned()),
            state: Some("".to_owned()),
            reason: Some("".to_owned()),
            by: Some("".to_owned()),
            since_ms: Some(0),
            deadline_ms: None,
            then_idle: Some(false),
            connected: Some(false),
            running_tasks: Some(0),
            artifacts_only_here: Some(0),
            bytes_only_here: Some(0),
            unknown: Some(false),
            exits: Some(false),
            copies_wait_for: None,
            artifacts_lost: None,
            bytes_lost: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WorkerOrderRequest {
    pub order: Option<String>,
    pub reason: Option<String>,
    pub deadline_ms: Option<i64>,
    pub then_idle: Option<bool>,
    pub user: Option<String>,
}

impl TSerializable for WorkerOrderRequest {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<WorkerOrderRequest> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<i64> = None;
        let mut f_4: Option<bool> = Some(false);
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
                2 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
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
        let ret = WorkerOrderRequest {
            order: f_1,
            reason: f_2,
            deadline_ms: f_3,
            then_idle: f_4,
            user: f_5,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("WorkerOrderRequest");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.order {
            o_prot.write_field_begin(&TFieldIdentifier::new("order", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.reason {
            o_prot.write_field_begin(&TFieldIdentifier::new("reason", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.deadline_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("deadlineMs", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.then_idle {
            o_prot.write_field_begin(&TFieldIdentifier::new("thenIdle", TType::Bool, 4))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.user {
            o_prot.write_field_begin(&TFieldIdentifier::new("user", TType::String, 5))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for WorkerOrderRequest {
    fn default() -> Self {
        WorkerOrderRequest {
            order: Some("".to_owned()),
            reason: Some("".to_owned()),
            deadline_ms: None,
            then_idle: Some(false),
            user: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct OrderRefusedException {
    pub message: Option<String>,
}

impl TSerializable for OrderRefusedException {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<OrderRefusedException> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
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
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = OrderRefusedException { message: f_1 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("OrderRefusedException");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.message {
            o_prot.write_field_begin(&TFieldIdentifier::new("message", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for OrderRefusedException {
    fn default() -> Self {
        OrderRefusedException {
            message: Some("".to_owned()),
        }
    }
}

impl Error for OrderRefusedException {}

impl From<OrderRefusedException> for thrift::Error {
    fn from(e: OrderRefusedException) -> Self {
        thrift::Error::User(Box::new(e))
    }
}

impl Display for OrderRefusedException {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "remote service threw OrderRefusedException")
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ScheduleStatus {
    pub source: Option<i32>,
    pub level: Option<String>,
    pub next_time_ms: Option<i64>,
    pub next_time: Option<String>,
}

impl TSerializable for ScheduleStatus {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ScheduleStatus> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i32> = Some(0);
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<i64> = None;
        let mut f_4: Option<String> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_4 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = ScheduleStatus {
            source: f_1,
            level: f_2,
            next_time_ms: f_3,
            next_time: f_4,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ScheduleStatus");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.source {
            o_prot.write_field_begin(&TFieldIdentifier::new("source", TType::I32, 1))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.level {
            o_prot.write_field_begin(&TFieldIdentifier::new("level", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.next_time_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("nextTimeMs", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.next_time {
            o_prot.write_field_begin(&TFieldIdentifier::new("nextTime", TType::String, 4))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ScheduleStatus {
    fn default() -> Self {
        ScheduleStatus {
            source: Some(0),
            level: Some("".to_owned()),
            next_time_ms: None,
            next_time: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ClusterStatus {
    pub scheduler: Option<common::BistroInstanceID>,
    pub cluster_id: Option<String>,
    pub initial_wait: Option<String>,
    pub jobs: Option<Vec<JobStatus>>,
    pub workers: Option<Vec<WorkerStatus>>,
    pub errors: Option<Vec<String>>,
    pub wall_time_ms: Option<i64>,
    pub wait_ended: Option<String>,
    pub nodes_loaded: Option<bool>,
    pub config: Option<ConfigStatus>,
    pub work_requests: Option<WorkRequestCounts>,
    pub store: Option<StoreStatus>,
    pub nothing_starts: Option<Vec<String>>,
    pub job_totals: Option<JobTotals>,
    pub more_jobs: Option<bool>,
    pub workers_total: Option<i64>,
    pub schedules: Option<Vec<ScheduleStatus>>,
    pub nodes_error: Option<String>,
    pub orders: Option<Vec<WorkerOrder>>,
    pub transfers: Option<TransferCounts>,
    pub locality: Option<LocalityCounts>,
    pub refused_calls: Option<BTreeMap<String, i64>>,
}

impl TSerializable for ClusterStatus {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ClusterStatus> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<common::BistroInstanceID> = None;
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<String> = None;
        let mut f_4: Option<Vec<JobStatus>> = Some(Vec::new());
        let mut f_5: Option<Vec<WorkerStatus>> = Some(Vec::new());
        let mut f_6: Option<Vec<String>> = Some(Vec::new());
        let mut f_7: Option<i64> = Some(0);
        let mut f_8: Option<String> = None;
        let mut f_9: Option<bool> = Some(false);
        let mut f_10: Option<ConfigStatus> = None;
        let mut f_11: Option<WorkRequestCounts> = None;
        let mut f_12: Option<StoreStatus> = None;
        let mut f_13: Option<Vec<String>> = None;
        let mut f_14: Option<JobTotals> = None;
        let mut f_15: Option<bool> = None;
        let mut f_16: Option<i64> = None;
        let mut f_17: Option<Vec<ScheduleStatus>> = None;
        let mut f_18: Option<String> = None;
        let mut f_19: Option<Vec<WorkerOrder>> = None;
        let mut f_20: Option<TransferCounts> = None;
        let mut f_21: Option<LocalityCounts> = None;
        let mut f_22: Option<BTreeMap<String, i64>> = None;
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
                2 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<JobStatus> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_8 = JobStatus::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_8);
                    }
                    i_prot.read_list_end()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<WorkerStatus> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_9 = WorkerStatus::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_9);
                    }
                    i_prot.read_list_end()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_10 = i_prot.read_string()?;
                        val.push(list_elem_10);
                    }
                    i_prot.read_list_end()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_7 = Some(val);
                }
                8 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_8 = Some(val);
                }
                9 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_9 = Some(val);
                }
                10 if field_ident.field_type == TType::Struct => {
                    let val = ConfigStatus::read_from_in_protocol(i_prot)?;
                    f_10 = Some(val);
                }
                11 if field_ident.field_type == TType::Struct => {
                    let val = WorkRequestCounts::read_from_in_protocol(i_prot)?;
                    f_11 = Some(val);
                }
                12 if field_ident.field_type == TType::Struct => {
                    let val = StoreStatus::read_from_in_protocol(i_prot)?;
                    f_12 = Some(val);
                }
                13 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_11 = i_prot.read_string()?;
                        val.push(list_elem_11);
                    }
                    i_prot.read_list_end()?;
                    f_13 = Some(val);
                }
                14 if field_ident.field_type == TType::Struct => {
                    let val = JobTotals::read_from_in_protocol(i_prot)?;
                    f_14 = Some(val);
                }
                15 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_15 = Some(val);
                }
                16 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_16 = Some(val);
                }
                17 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<ScheduleStatus> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_12 = ScheduleStatus::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_12);
                    }
                    i_prot.read_list_end()?;
                    f_17 = Some(val);
                }
                18 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_18 = Some(val);
                }
                19 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<WorkerOrder> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_13 = WorkerOrder::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_13);
                    }
                    i_prot.read_list_end()?;
                    f_19 = Some(val);
                }
                20 if field_ident.field_type == TType::Struct => {
                    let val = TransferCounts::read_from_in_protocol(i_prot)?;
                    f_20 = Some(val);
                }
                21 if field_ident.field_type == TType::Struct => {
                    let val = LocalityCounts::read_from_in_protocol(i_prot)?;
                    f_21 = Some(val);
                }
                22 if field_ident.field_type == TType::Map => {
                    let map_ident = i_prot.read_map_begin()?;
                    let mut val: BTreeMap<String, i64> = BTreeMap::new();
                    for _ in 0..map_ident.size {
                        let map_key_14 = i_prot.read_string()?;
                        let map_val_15 = i_prot.read_i64()?;
                        val.insert(map_key_14, map_val_15);
                    }
                    i_prot.read_map_end()?;
                    f_22 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = ClusterStatus {
            scheduler: f_1,
            cluster_id: f_2,
            initial_wait: f_3,
            jobs: f_4,
            workers: f_5,
            errors: f_6,
            wall_time_ms: f_7,
            wait_ended: f_8,
            nodes_loaded: f_9,
            config: f_10,
            work_requests: f_11,
            store: f_12,
            nothing_starts: f_13,
            job_totals: f_14,
            more_jobs: f_15,
            workers_total: f_16,
            schedules: f_17,
            nodes_error: f_18,
            orders: f_19,
            transfers: f_20,
            locality: f_21,
            refused_calls: f_22,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ClusterStatus");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.scheduler {
            o_prot.write_field_begin(&TFieldIdentifier::new("scheduler", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.cluster_id {
            o_prot.write_field_begin(&TFieldIdentifier::new("clusterID", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.initial_wait {
            o_prot.write_field_begin(&TFieldIdentifier::new("initialWait", TType::String, 3))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.jobs {
            o_prot.write_field_begin(&TFieldIdentifier::new("jobs", TType::List, 4))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.workers {
            o_prot.write_field_begin(&TFieldIdentifier::new("workers", TType::List, 5))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.errors {
            o_prot.write_field_begin(&TFieldIdentifier::new("errors", TType::List, 6))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.wall_time_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("wallTimeMs", TType::I64, 7))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.wait_ended {
            o_prot.write_field_begin(&TFieldIdentifier::new("waitEnded", TType::String, 8))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.nodes_loaded {
            o_prot.write_field_begin(&TFieldIdentifier::new("nodesLoaded", TType::Bool, 9))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.config {
            o_prot.write_field_begin(&TFieldIdentifier::new("config", TType::Struct, 10))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.work_requests {
            o_prot.write_field_begin(&TFieldIdentifier::new("workRequests", TType::Struct, 11))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.store {
            o_prot.write_field_begin(&TFieldIdentifier::new("store", TType::Struct, 12))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.nothing_starts {
            o_prot.write_field_begin(&TFieldIdentifier::new("nothingStarts", TType::List, 13))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.job_totals {
            o_prot.write_field_begin(&TFieldIdentifier::new("jobTotals", TType::Struct, 14))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.more_jobs {
            o_prot.write_field_begin(&TFieldIdentifier::new("moreJobs", TType::Bool, 15))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.workers_total {
            o_prot.write_field_begin(&TFieldIdentifier::new("workersTotal", TType::I64, 16))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.schedules {
            o_prot.write_field_begin(&TFieldIdentifier::new("schedules", TType::List, 17))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.nodes_error {
            o_prot.write_field_begin(&TFieldIdentifier::new("nodesError", TType::String, 18))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.orders {
            o_prot.write_field_begin(&TFieldIdentifier::new("orders", TType::List, 19))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.transfers {
            o_prot.write_field_begin(&TFieldIdentifier::new("transfers", TType::Struct, 20))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.locality {
            o_prot.write_field_begin(&TFieldIdentifier::new("locality", TType::Struct, 21))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.refused_calls {
            o_prot.write_field_begin(&TFieldIdentifier::new("refusedCalls", TType::Map, 22))?;
            o_prot.write_map_begin(&TMapIdentifier::new(
                TType::String,
                TType::I64,
                fld_var.len() as i32,
            ))?;
            for (k, v) in fld_var {
                o_prot.write_string(k)?;
                o_prot.write_i64(*v)?;
            }
            o_prot.write_map_end()?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ClusterStatus {
    fn default() -> Self {
        ClusterStatus {
            scheduler: None,
            cluster_id: Some("".to_owned()),
            initial_wait: None,
            jobs: Some(Vec::new()),
            workers: Some(Vec::new()),
            errors: Some(Vec::new()),
            wall_time_ms: Some(0),
            wait_ended: None,
            nodes_loaded: Some(false),
            config: None,
            work_requests: None,
            store: None,
            nothing_starts: None,
            job_totals: None,
            more_jobs: None,
            workers_total: None,
            schedules: None,
            nodes_error: None,
            orders: None,
            transfers: None,
            locality: None,
            refused_calls: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct JobStatusPage {
    pub jobs: Option<Vec<JobStatus>>,
    pub total: Option<i64>,
    pub has_more: Option<bool>,
}

impl TSerializable for JobStatusPage {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<JobStatusPage> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<JobStatus>> = Some(Vec::new());
        let mut f_2: Option<i64> = Some(0);
        let mut f_3: Option<bool> = Some(false);
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<JobStatus> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_16 = JobStatus::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_16);
                    }
                    i_prot.read_list_end()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_3 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = JobStatusPage {
            jobs: f_1,
            total: f_2,
            has_more: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("JobStatusPage");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.jobs {
            o_prot.write_field_begin(&TFieldIdentifier::new("jobs", TType::List, 1))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.total {
            o_prot.write_field_begin(&TFieldIdentifier::new("total", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.has_more {
            o_prot.write_field_begin(&TFieldIdentifier::new("hasMore", TType::Bool, 3))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for JobStatusPage {
    fn default() -> Self {
        JobStatusPage {
            jobs: Some(Vec::new()),
            total: Some(0),
            has_more: Some(false),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TaskCursor {
    pub scheduler: Option<common::BistroInstanceID>,
    pub job: Option<i64>,
    pub running_from: Option<i64>,
    pub node: Option<i64>,
    pub position: Option<i64>,
}

impl TSerializable for TaskCursor {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<TaskCursor> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<common::BistroInstanceID> = None;
        let mut f_2: Option<i64> = Some(0);
        let mut f_3: Option<i64> = None;
        let mut f_4: Option<i64> = None;
        let mut f_5: Option<i64> = Some(0);
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
                2 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
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
        let ret = TaskCursor {
            scheduler: f_1,
            job: f_2,
            running_from: f_3,
            node: f_4,
            position: f_5,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("TaskCursor");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.scheduler {
            o_prot.write_field_begin(&TFieldIdentifier::new("scheduler", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.job {
            o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.running_from {
            o_prot.write_field_begin(&TFieldIdentifier::new("runningFrom", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.node {
            o_prot.write_field_begin(&TFieldIdentifier::new("node", TType::I64, 4))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.position {
            o_prot.write_field_begin(&TFieldIdentifier::new("position", TType::I64, 5))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for TaskCursor {
    fn default() -> Self {
        TaskCursor {
            scheduler: None,
            job: Some(0),
            running_from: None,
            node: None,
            position: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ListedTask {
    pub job: Option<String>,
    pub node: Option<String>,
    pub state: Option<String>,
    pub worker_shard: Option<String>,
    pub invocation_id: Option<common::BistroInstanceID>,
    pub since_ms: Option<i64>,
    pub reason: Option<String>,
    pub failed_tries: Option<i64>,
    pub most_tries: Option<i64>,
}

impl TSerializable for ListedTask {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ListedTask> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<String> = Some("".to_owned());
        let mut f_4: Option<String> = None;
        let mut f_5: Option<common::BistroInstanceID> = None;
        let mut f_6: Option<i64> = None;
        let mut f_7: Option<String> = None;
        let mut f_8: Option<i64> = None;
        let mut f_9: Option<i64> = None;
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
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
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
                7 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_7 = Some(val);
                }
                8 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_8 = Some(val);
                }
                9 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_9 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = ListedTask {
            job: f_1,
            node: f_2,
            state: f_3,
            worker_shard: f_4,
            invocation_id: f_5,
            since_ms: f_6,
            reason: f_7,
            failed_tries: f_8,
            most_tries: f_9,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ListedTask");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.job {
            o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.node {
            o_prot.write_field_begin(&TFieldIdentifier::new("node", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.state {
            o_prot.write_field_begin(&TFieldIdentifier::new("state", TType::String, 3))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.worker_shard {
            o_prot.write_field_begin(&TFieldIdentifier::new("workerShard", TType::String, 4))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.invocation_id {
            o_prot.write_field_begin(&TFieldIdentifier::new("invocationID", TType::Struct, 5))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.since_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("sinceMs", TType::I64, 6))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.reason {
            o_prot.write_field_begin(&TFieldIdentifier::new("reason", TType::String, 7))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.failed_tries {
            o_prot.write_field_begin(&TFieldIdentifier::new("failedTries", TType::I64, 8))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.most_tries {
            o_prot.write_field_begin(&TFieldIdentifier::new("mostTries", TType::I64, 9))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ListedTask {
    fn default() -> Self {
        ListedTask {
            job: Some("".to_owned()),
            node: Some("".to_owned()),
            state: Some("".to_owned()),
            worker_shard: None,
            invocation_id: None,
            since_ms: None,
            reason: None,
            failed_tries: None,
            most_tries: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TaskPage {
    pub tasks: Option<Vec<ListedTask>>,
    pub next_page: Option<TaskCursor>,
    pub wall_time_ms: Option<i64>,
}

impl TSerializable for TaskPage {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<TaskPage> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<ListedTask>> = Some(Vec::new());
        let mut f_2: Option<TaskCursor> = None;
        let mut f_3: Option<i64> = Some(0);
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<ListedTask> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_17 = ListedTask::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_17);
                    }
                    i_prot.read_list_end()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::Struct => {
                    let val = TaskCursor::read_from_in_protocol(i_prot)?;
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
        let ret = TaskPage {
            tasks: f_1,
            next_page: f_2,
            wall_time_ms: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("TaskPage");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.tasks {
            o_prot.write_field_begin(&TFieldIdentifier::new("tasks", TType::List, 1))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.next_page {
            o_prot.write_field_begin(&TFieldIdentifier::new("nextPage", TType::Struct, 2))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.wall_time_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("wallTimeMs", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for TaskPage {
    fn default() -> Self {
        TaskPage {
            tasks: Some(Vec::new()),
            next_page: None,
            wall_time_ms: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TaskKill {
    pub worker_shard: Option<String>,
    pub invocation_id: Option<common::BistroInstanceID>,
    pub kill_request: Option<common::KillRequest>,
    pub held: Option<bool>,
    pub unwanted: Option<String>,
    pub wait_sec: Option<i32>,
}

impl TSerializable for TaskKill {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<TaskKill> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<common::BistroInstanceID> = None;
        let mut f_3: Option<common::KillRequest> = None;
        let mut f_4: Option<bool> = Some(false);
        let mut f_5: Option<String> = None;
        let mut f_6: Option<i32> = None;
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
                2 if field_ident.field_type == TType::Struct => {
                    let val = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Struct => {
                    let val = common::KillRequest::read_from_in_protocol(i_prot)?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_6 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = TaskKill {
            worker_shard: f_1,
            invocation_id: f_2,
            kill_request: f_3,
            held: f_4,
            unwanted: f_5,
            wait_sec: f_6,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("TaskKill");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.worker_shard {
            o_prot.write_field_begin(&TFieldIdentifier::new("workerShard", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.invocation_id {
            o_prot.write_field_begin(&TFieldIdentifier::new("invocationID", TType::Struct, 2))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.kill_request {
            o_prot.write_field_begin(&TFieldIdentifier::new("killRequest", TType::Struct, 3))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.held {
            o_prot.write_field_begin(&TFieldIdentifier::new("held", TType::Bool, 4))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.unwanted {
            o_prot.write_field_begin(&TFieldIdentifier::new("unwanted", TType::String, 5))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.wait_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new("waitSec", TType::I32, 6))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for TaskKill {
    fn default() -> Self {
        TaskKill {
            worker_shard: Some("".to_owned()),
            invocation_id: None,
            kill_request: None,
            held: Some(false),
            unwanted: None,
            wait_sec: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SubmittedJob {
    pub version: Option<i64>,
    pub warnings: Option<Vec<String>>,
}

impl TSerializable for SubmittedJob {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<SubmittedJob> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i64> = Some(0);
        let mut f_2: Option<Vec<String>> = Some(Vec::new());
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_18 = i_prot.read_string()?;
                        val.push(list_elem_18);
                    }
                    i_prot.read_list_end()?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = SubmittedJob {
            version: f_1,
            warnings: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("SubmittedJob");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.version {
            o_prot.write_field_begin(&TFieldIdentifier::new("version", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.warnings {
            o_prot.write_field_begin(&TFieldIdentifier::new("warnings", TType::List, 2))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for SubmittedJob {
    fn default() -> Self {
        SubmittedJob {
            version: Some(0),
            warnings: Some(Vec::new()),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DeletedHistory {
    pub tasks: Option<i64>,
    pub running: Option<i64>,
    pub maybe_alive: Option<i64>,
}

impl TSerializable for DeletedHistory {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<DeletedHistory> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i64> = Some(0);
        let mut f_2: Option<i64> = Some(0);
        let mut f_3: Option<i64> = Some(0);
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
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
        let ret = DeletedHistory {
            tasks: f_1,
            running: f_2,
            maybe_alive: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("DeletedHistory");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.tasks {
            o_prot.write_field_begin(&TFieldIdentifier::new("tasks", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.running {
            o_prot.write_field_begin(&TFieldIdentifier::new("running", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.maybe_alive {
            o_prot.write_field_begin(&TFieldIdentifier::new("maybeAlive", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for DeletedHistory {
    fn default() -> Self {
        DeletedHistory {
            tasks: Some(0),
            running: Some(0),
            maybe_alive: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct OutputHolder {
    pub shard: Option<String>,
    pub hostname: Option<String>,
    pub address: Option<common::ServiceAddress>,
    pub state: Option<String>,
}

impl TSerializable for OutputHolder {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<OutputHolder> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<common::ServiceAddress> = None;
        let mut f_4: Option<String> = None;
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
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Struct => {
                    let val = common::ServiceAddress::read_from_in_protocol(i_prot)?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_4 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = OutputHolder {
            shard: f_1,
            hostname: f_2,
            address: f_3,
            state: f_4,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("OutputHolder");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.shard {
            o_prot.write_field_begin(&TFieldIdentifier::new("shard", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.hostname {
            o_prot.write_field_begin(&TFieldIdentifier::new("hostname", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.address {
            o_prot.write_field_begin(&TFieldIdentifier::new("address", TType::Struct, 3))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.state {
            o_prot.write_field_begin(&TFieldIdentifier::new("state", TType::String, 4))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for OutputHolder {
    fn default() -> Self {
        OutputHolder {
            shard: Some("".to_owned()),
            hostname: Some("".to_owned()),
            address: None,
            state: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ListedOutput {
    pub job: Option<String>,
    pub node: Option<String>,
    pub path: Option<String>,
    pub artifact: Option<common::Artifact>,
    pub copies: Option<i64>,
    pub holders: Option<Vec<OutputHolder>>,
    pub state: Option<String>,
    pub replicas: Option<i64>,
}

impl TSerializable for ListedOutput {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ListedOutput> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<String> = Some("".to_owned());
        let mut f_4: Option<common::Artifact> = None;
        let mut f_5: Option<i64> = Some(0);
        let mut f_6: Option<Vec<OutputHolder>> = Some(Vec::new());
        let mut f_7: Option<String> = Some("".to_owned());
        let mut f_8: Option<i64> = None;
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
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::Struct => {
                    let val = common::Artifact::read_from_in_protocol(i_prot)?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<OutputHolder> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_19 = OutputHolder::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_19);
                    }
                    i_prot.read_list_end()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_7 = Some(val);
                }
                8 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_8 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = ListedOutput {
            job: f_1,
            node: f_2,
            path: f_3,
            artifact: f_4,
            copies: f_5,
            holders: f_6,
            state: f_7,
            replicas: f_8,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ListedOutput");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.job {
            o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.node {
            o_prot.write_field_begin(&TFieldIdentifier::new("node", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.path {
            o_prot.write_field_begin(&TFieldIdentifier::new("path", TType::String, 3))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.artifact {
            o_prot.write_field_begin(&TFieldIdentifier::new("artifact", TType::Struct, 4))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.copies {
            o_prot.write_field_begin(&TFieldIdentifier::new("copies", TType::I64, 5))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.holders {
            o_prot.write_field_begin(&TFieldIdentifier::new("holders", TType::List, 6))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.state {
            o_prot.write_field_begin(&TFieldIdentifier::new("state", TType::String, 7))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.replicas {
            o_prot.write_field_begin(&TFieldIdentifier::new("replicas", TType::I64, 8))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ListedOutput {
    fn default() -> Self {
        ListedOutput {
            job: Some("".to_owned()),
            node: Some("".to_owned()),
            path: Some("".to_owned()),
            artifact: None,
            copies: Some(0),
            holders: Some(Vec::new()),
            state: Some("".to_owned()),
            replicas: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct OutputSet {
    pub job: Option<String>,
    pub keep: Option<String>,
    pub keep_sec: Option<OrderedFloat<f64>>,
    pub consumers: Option<Vec<String>>,
    pub expires_in_ms: Option<i64>,
    pub kept_because: Option<String>,
    pub tasks: Option<i64>,
    pub artifacts: Option<i64>,
    pub bytes: Option<i64>,
    pub copies: Option<i64>,
    pub without_copy: Option<i64>,
    pub ends_because: Option<String>,
}

impl TSerializable for OutputSet {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<OutputSet> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<OrderedFloat<f64>> = None;
        let mut f_4: Option<Vec<String>> = Some(Vec::new());
        let mut f_5: Option<i64> = None;
        let mut f_6: Option<String> = None;
        let mut f_7: Option<i64> = Some(0);
        let mut f_8: Option<i64> = Some(0);
        let mut f_9: Option<i64> = Some(0);
        let mut f_10: Option<i64> = Some(0);
        let mut f_11: Option<i64> = Some(0);
        let mut f_12: Option<String> = None;
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
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_20 = i_prot.read_string()?;
                        val.push(list_elem_20);
                    }
                    i_prot.read_list_end()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_7 = Some(val);
                }
                8 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_8 = Some(val);
                }
                9 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_9 = Some(val);
                }
                10 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_10 = Some(val);
                }
                11 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_11 = Some(val);
                }
                12 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_12 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = OutputSet {
            job: f_1,
            keep: f_2,
            keep_sec: f_3,
            consumers: f_4,
            expires_in_ms: f_5,
            kept_because: f_6,
            tasks: f_7,
            artifacts: f_8,
            bytes: f_9,
            copies: f_10,
            without_copy: f_11,
            ends_because: f_12,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("OutputSet");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.job {
            o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.keep {
            o_prot.write_field_begin(&TFieldIdentifier::new("keep", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.keep_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new("keepSec", TType::Double, 3))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.consumers {
            o_prot.write_field_begin(&TFieldIdentifier::new("consumers", TType::List, 4))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.expires_in_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("expiresInMs", TType::I64, 5))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.kept_because {
            o_prot.write_field_begin(&TFieldIdentifier::new("keptBecause", TType::String, 6))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.tasks {
            o_prot.write_field_begin(&TFieldIdentifier::new("tasks", TType::I64, 7))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.artifacts {
            o_prot.write_field_begin(&TFieldIdentifier::new("artifacts", TType::I64, 8))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.bytes {
            o_prot.write_field_begin(&TFieldIdentifier::new("bytes", TType::I64, 9))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.copies {
            o_prot.write_field_begin(&TFieldIdentifier::new("copies", TType::I64, 10))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.without_copy {
            o_prot.write_field_begin(&TFieldIdentifier::new("withoutCopy", TType::I64, 11))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.ends_because {
            o_prot.write_field_begin(&TFieldIdentifier::new("endsBecause", TType::String, 12))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for OutputSet {
    fn default() -> Self {
        OutputSet {
            job: Some("".to_owned()),
            keep: Some("".to_owned()),
            keep_sec: None,
            consumers: Some(Vec::new()),
            expires_in_ms: None,
            kept_because: None,
            tasks: Some(0),
            artifacts: Some(0),
            bytes: Some(0),
            copies: Some(0),
            without_copy: Some(0),
            ends_because: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct OutputCursor {
    pub job: Option<String>,
    pub node: Option<String>,
    pub path: Option<String>,
}

impl TSerializable for OutputCursor {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<OutputCursor> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<String> = Some("".to_owned());
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
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_3 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = OutputCursor {
            job: f_1,
            node: f_2,
            path: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("OutputCursor");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.job {
            o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.node {
            o_prot.write_field_begin(&TFieldIdentifier::new("node", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.path {
            o_prot.write_field_begin(&TFieldIdentifier::new("path", TType::String, 3))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for OutputCursor {
    fn default() -> Self {
        OutputCursor {
            job: Some("".to_owned()),
            node: Some("".to_owned()),
            path: Some("".to_owned()),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct OutputPage {
    pub outputs: Option<Vec<ListedOutput>>,
    pub sets: Option<Vec<OutputSet>>,
    pub next_page: Option<OutputCursor>,
    pub cluster: Option<String>,
    pub why_empty: Option<String>,
}

impl TSerializable for OutputPage {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<OutputPage> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<ListedOutput>> = Some(Vec::new());
        let mut f_2: Option<Vec<OutputSet>> = Some(Vec::new());
        let mut f_3: Option<OutputCursor> = None;
        let mut f_4: Option<String> = Some("".to_owned());
        let mut f_5: Option<String> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<ListedOutput> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_21 = ListedOutput::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_21);
                    }
                    i_prot.read_list_end()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<OutputSet> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_22 = OutputSet::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_22);
                    }
                    i_prot.read_list_end()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Struct => {
                    let val = OutputCursor::read_from_in_protocol(i_prot)?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
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
        let ret = OutputPage {
            outputs: f_1,
            sets: f_2,
            next_page: f_3,
            cluster: f_4,
            why_empty: f_5,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("OutputPage");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.outputs {
            o_prot.write_field_begin(&TFieldIdentifier::new("outputs", TType::List, 1))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.sets {
            o_prot.write_field_begin(&TFieldIdentifier::new("sets", TType::List, 2))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.next_page {
            o_prot.write_field_begin(&TFieldIdentifier::new("nextPage", TType::Struct, 3))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.cluster {
            o_prot.write_field_begin(&TFieldIdentifier::new("cluster", TType::String, 4))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.why_empty {
            o_prot.write_field_begin(&TFieldIdentifier::new("whyEmpty", TType::String, 5))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for OutputPage {
    fn default() -> Self {
        OutputPage {
            outputs: Some(Vec::new()),
            sets: Some(Vec::new()),
            next_page: None,
            cluster: Some("".to_owned()),
            why_empty: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ForgottenOutputs {
    pub tasks: Option<i64>,
    pub outputs: Option<i64>,
}

impl TSerializable for ForgottenOutputs {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ForgottenOutputs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i64> = Some(0);
        let mut f_2: Option<i64> = Some(0);
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
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
        let ret = ForgottenOutputs {
            tasks: f_1,
            outputs: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ForgottenOutputs");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.tasks {
            o_prot.write_field_begin(&TFieldIdentifier::new("tasks", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.outputs {
            o_prot.write_field_begin(&TFieldIdentifier::new("outputs", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ForgottenOutputs {
    fn default() -> Self {
        ForgottenOutputs {
            tasks: Some(0),
            outputs: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ListedFile {
    pub name: Option<String>,
    pub origin: Option<String>,
    pub artifact: Option<common::Artifact>,
    pub problem: Option<String>,
    pub jobs: Option<Vec<String>>,
    pub jobs_total: Option<i64>,
    pub copies: Option<i64>,
    pub holders: Option<Vec<OutputHolder>>,
}

impl TSerializable for ListedFile {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ListedFile> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<common::Artifact> = None;
        let mut f_4: Option<String> = None;
        let mut f_5: Option<Vec<String>> = Some(Vec::new());
        let mut f_6: Option<i64> = Some(0);
        let mut f_7: Option<i64> = Some(0);
        let mut f_8: Option<Vec<OutputHolder>> = Some(Vec::new());
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
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Struct => {
                    let val = common::Artifact::read_from_in_protocol(i_prot)?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_23 = i_prot.read_string()?;
                        val.push(list_elem_23);
                    }
                    i_prot.read_list_end()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_7 = Some(val);
                }
                8 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<OutputHolder> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_24 = OutputHolder::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_24);
                    }
                    i_prot.read_list_end()?;
                    f_8 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = ListedFile {
            name: f_1,
            origin: f_2,
            artifact: f_3,
            problem: f_4,
            jobs: f_5,
            jobs_total: f_6,
            copies: f_7,
            holders: f_8,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ListedFile");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.name {
            o_prot.write_field_begin(&TFieldIdentifier::new("name", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.origin {
            o_prot.write_field_begin(&TFieldIdentifier::new("origin", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.artifact {
            o_prot.write_field_begin(&TFieldIdentifier::new("artifact", TType::Struct, 3))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.problem {
            o_prot.write_field_begin(&TFieldIdentifier::new("problem", TType::String, 4))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.jobs {
            o_prot.write_field_begin(&TFieldIdentifier::new("jobs", TType::List, 5))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.jobs_total {
            o_prot.write_field_begin(&TFieldIdentifier::new("jobsTotal", TType::I64, 6))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.copies {
            o_prot.write_field_begin(&TFieldIdentifier::new("copies", TType::I64, 7))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.holders {
            o_prot.write_field_begin(&TFieldIdentifier::new("holders", TType::List, 8))?;
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

impl Default for ListedFile {
    fn default() -> Self {
        ListedFile {
            name: Some("".to_owned()),
            origin: Some("".to_owned()),
            artifact: None,
            problem: None,
            jobs: Some(Vec::new()),
            jobs_total: Some(0),
            copies: Some(0),
            holders: Some(Vec::new()),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FilePage {
    pub files: Option<Vec<ListedFile>>,
    pub has_more: Option<bool>,
    pub cluster: Option<String>,
}

impl TSerializable for FilePage {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<FilePage> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<ListedFile>> = Some(Vec::new());
        let mut f_2: Option<bool> = Some(false);
        let mut f_3: Option<String> = Some("".to_owned());
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<ListedFile> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_25 = ListedFile::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_25);
                    }
                    i_prot.read_list_end()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_3 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = FilePage {
            files: f_1,
            has_more: f_2,
            cluster: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("FilePage");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.files {
            o_prot.write_field_begin(&TFieldIdentifier::new("files", TType::List, 1))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.has_more {
            o_prot.write_field_begin(&TFieldIdentifier::new("hasMore", TType::Bool, 2))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.cluster {
            o_prot.write_field_begin(&TFieldIdentifier::new("cluster", TType::String, 3))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for FilePage {
    fn default() -> Self {
        FilePage {
            files: Some(Vec::new()),
            has_more: Some(false),
            cluster: Some("".to_owned()),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FileUpload {
    pub upload: Option<i64>,
    pub offset: Option<i64>,
    pub done: Option<bool>,
}

impl TSerializable for FileUpload {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<FileUpload> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i64> = Some(0);
        let mut f_2: Option<i64> = Some(0);
        let mut f_3: Option<bool> = Some(false);
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_3 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = FileUpload {
            upload: f_1,
            offset: f_2,
            done: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("FileUpload");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.upload {
            o_prot.write_field_begin(&TFieldIdentifier::new("upload", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.offset {
            o_prot.write_field_begin(&TFieldIdentifier::new("offset", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.done {
            o_prot.write_field_begin(&TFieldIdentifier::new("done", TType::Bool, 3))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for FileUpload {
    fn default() -> Self {
        FileUpload {
            upload: Some(0),
            offset: Some(0),
            done: Some(false),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FileRefusedException {
    pub message: Option<String>,
    pub busy: Option<bool>,
}

impl TSerializable for FileRefusedException {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<FileRefusedException> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<bool> = None;
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
                2 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = FileRefusedException {
            message: f_1,
            busy: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("FileRefusedException");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.message {
            o_prot.write_field_begin(&TFieldIdentifier::new("message", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.busy {
            o_prot.write_field_begin(&TFieldIdentifier::new("busy", TType::Bool, 2))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for FileRefusedException {
    fn default() -> Self {
        FileRefusedException {
            message: Some("".to_owned()),
            busy: None,
        }
    }
}

impl Error for FileRefusedException {}

impl From<FileRefusedException> for thrift::Error {
    fn from(e: FileRefusedException) -> Self {
        thrift::Error::User(Box::new(e))
    }
}

impl Display for FileRefusedException {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "remote service threw FileRefusedException")
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct JobPage {
    pub jobs: Option<Vec<scheduler::BistroJobConfig>>,
    pub total: Option<i64>,
    pub has_more: Option<bool>,
}

impl TSerializable for JobPage {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<JobPage> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<scheduler::BistroJobConfig>> = Some(Vec::new());
        let mut f_2: Option<i64> = Some(0);
        let mut f_3: Option<bool> = Some(false);
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<scheduler::BistroJobConfig> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_26 =
                            scheduler::BistroJobConfig::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_26);
                    }
                    i_prot.read_list_end()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_3 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = JobPage {
            jobs: f_1,
            total: f_2,
            has_more: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("JobPage");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.jobs {
            o_prot.write_field_begin(&TFieldIdentifier::new("jobs", TType::List, 1))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.total {
            o_prot.write_field_begin(&TFieldIdentifier::new("total", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.has_more {
            o_prot.write_field_begin(&TFieldIdentifier::new("hasMore", TType::Bool, 3))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for JobPage {
    fn default() -> Self {
        JobPage {
            jobs: Some(Vec::new()),
            total: Some(0),
            has_more: Some(false),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct JobRefusedException {
    pub message: Option<String>,
    pub problems: Option<Vec<String>>,
}

impl TSerializable for JobRefusedException {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<JobRefusedException> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<Vec<String>> = Some(Vec::new());
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
                        let list_elem_27 = i_prot.read_string()?;
                        val.push(list_elem_27);
                    }
                    i_prot.read_list_end()?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = JobRefusedException {
            message: f_1,
            problems: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("JobRefusedException");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.message {
            o_prot.write_field_begin(&TFieldIdentifier::new("message", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.problems {
            o_prot.write_field_begin(&TFieldIdentifier::new("problems", TType::List, 2))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for JobRefusedException {
    fn default() -> Self {
        JobRefusedException {
            message: Some("".to_owned()),
            problems: Some(Vec::new()),
        }
    }
}

impl Error for JobRefusedException {}

impl From<JobRefusedException> for thrift::Error {
    fn from(e: JobRefusedException) -> Self {
        thrift::Error::User(Box::new(e))
    }
}

impl Display for JobRefusedException {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "remote service threw JobRefusedException")
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct MissingInstance {
    pub instance: Option<common::BistroInstanceID>,
    pub hostname: Option<String>,
    pub running_tasks: Option<i32>,
    pub silent_for_ms: Option<i64>,
    pub left_for_ms: Option<i64>,
    pub waits_for_ms: Option<i64>,
}

impl TSerializable for MissingInstance {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<MissingInstance> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<common::BistroInstanceID> = None;
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<i32> = Some(0);
        let mut f_4: Option<i64> = None;
        let mut f_5: Option<i64> = None;
        let mut f_6: Option<i64> = None;
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
                2 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
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
                5 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_6 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = MissingInstance {
            instance: f_1,
            hostname: f_2,
            running_tasks: f_3,
            silent_for_ms: f_4,
            left_for_ms: f_5,
            waits_for_ms: f_6,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("MissingInstance");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.instance {
            o_prot.write_field_begin(&TFieldIdentifier::new("instance", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.hostname {
            o_prot.write_field_begin(&TFieldIdentifier::new("hostname", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.running_tasks {
            o_prot.write_field_begin(&TFieldIdentifier::new("runningTasks", TType::I32, 3))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.silent_for_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("silentForMs", TType::I64, 4))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.left_for_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("leftForMs", TType::I64, 5))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.waits_for_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("waitsForMs", TType::I64, 6))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for MissingInstance {
    fn default() -> Self {
        MissingInstance {
            instance: None,
            hostname: Some("".to_owned()),
            running_tasks: Some(0),
            silent_for_ms: None,
            left_for_ms: None,
            waits_for_ms: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ForgetRefusedException {
    pub message: Option<String>,
}

impl TSerializable for ForgetRefusedException {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<ForgetRefusedException> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
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
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = ForgetRefusedException { message: f_1 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ForgetRefusedException");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.message {
            o_prot.write_field_begin(&TFieldIdentifier::new("message", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ForgetRefusedException {
    fn default() -> Self {
        ForgetRefusedException {
            message: Some("".to_owned()),
        }
    }
}

impl Error for ForgetRefusedException {}

impl From<ForgetRefusedException> for thrift::Error {
    fn from(e: ForgetRefusedException) -> Self {
        thrift::Error::User(Box::new(e))
    }
}

impl Display for ForgetRefusedException {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "remote service threw ForgetRefusedException")
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PlannedKey {
    pub key: Option<String>,
    pub before: Option<String>,
    pub after: Option<String>,
}

impl TSerializable for PlannedKey {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<PlannedKey> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<String> = None;
        let mut f_3: Option<String> = None;
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
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_3 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = PlannedKey {
            key: f_1,
            before: f_2,
            after: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("PlannedKey");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.key {
            o_prot.write_field_begin(&TFieldIdentifier::new("key", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.before {
            o_prot.write_field_begin(&TFieldIdentifier::new("before", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.after {
            o_prot.write_field_begin(&TFieldIdentifier::new("after", TType::String, 3))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for PlannedKey {
    fn default() -> Self {
        PlannedKey {
            key: Some("".to_owned()),
            before: None,
            after: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PlannedJob {
    pub name: Option<String>,
    pub keys: Option<Vec<PlannedKey>>,
    pub keys_total: Option<i64>,
}

impl TSerializable for PlannedJob {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<PlannedJob> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<Vec<PlannedKey>> = Some(Vec::new());
        let mut f_3: Option<i64> = None;
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
                    let mut val: Vec<PlannedKey> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_28 = PlannedKey::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_28);
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
        let ret = PlannedJob {
            name: f_1,
            keys: f_2,
            keys_total: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("PlannedJob");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.name {
            o_prot.write_field_begin(&TFieldIdentifier::new("name", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.keys {
            o_prot.write_field_begin(&TFieldIdentifier::new("keys", TType::List, 2))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.keys_total {
            o_prot.write_field_begin(&TFieldIdentifier::new("keysTotal", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for PlannedJob {
    fn default() -> Self {
        PlannedJob {
            name: Some("".to_owned()),
            keys: Some(Vec::new()),
            keys_total: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PlannedNames {
    pub total: Option<i64>,
    pub first: Option<Vec<String>>,
}

impl TSerializable for PlannedNames {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<PlannedNames> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i64> = Some(0);
        let mut f_2: Option<Vec<String>> = Some(Vec::new());
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_29 = i_prot.read_string()?;
                        val.push(list_elem_29);
                    }
                    i_prot.read_list_end()?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = PlannedNames {
            total: f_1,
            first: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("PlannedNames");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.total {
            o_prot.write_field_begin(&TFieldIdentifier::new("total", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.first {
            o_prot.write_field_begin(&TFieldIdentifier::new("first", TType::List, 2))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for PlannedNames {
    fn default() -> Self {
        PlannedNames {
            total: Some(0),
            first: Some(Vec::new()),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PlannedNodes {
    pub level: Option<String>,
    pub added: Option<PlannedNames>,
    pub removed: Option<PlannedNames>,
    pub changed: Option<PlannedNames>,
}

impl TSerializable for PlannedNodes {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<PlannedNodes> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<PlannedNames> = None;
        let mut f_3: Option<PlannedNames> = None;
        let mut f_4: Option<PlannedNames> = None;
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
                2 if field_ident.field_type == TType::Struct => {
                    let val = PlannedNames::read_from_in_protocol(i_prot)?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Struct => {
                    let val = PlannedNames::read_from_in_protocol(i_prot)?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::Struct => {
                    let val = PlannedNames::read_from_in_protocol(i_prot)?;
                    f_4 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = PlannedNodes {
            level: f_1,
            added: f_2,
            removed: f_3,
            changed: f_4,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("PlannedNodes");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.level {
            o_prot.write_field_begin(&TFieldIdentifier::new("level", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.added {
            o_prot.write_field_begin(&TFieldIdentifier::new("added", TType::Struct, 2))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.removed {
            o_prot.write_field_begin(&TFieldIdentifier::new("removed", TType::Struct, 3))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.changed {
            o_prot.write_field_begin(&TFieldIdentifier::new("changed", TType::Struct, 4))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for PlannedNodes {
    fn default() -> Self {
        PlannedNodes {
            level: Some("".to_owned()),
            added: None,
            removed: None,
            changed: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PlannedStarts {
    pub job: Option<String>,
    pub nodes: Option<PlannedNames>,
    pub waiting: Option<i64>,
    pub infeasible: Option<i64>,
    pub bytes_to_move: Option<i64>,
}

impl TSerializable for PlannedStarts {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<PlannedStarts> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<PlannedNames> = None;
        let mut f_3: Option<i64> = Some(0);
        let mut f_4: Option<i64> = Some(0);
        let mut f_5: Option<i64> = None;
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
                2 if field_ident.field_type == TType::Struct => {
                    let val = PlannedNames::read_from_in_protocol(i_prot)?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
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
        let ret = PlannedStarts {
            job: f_1,
            nodes: f_2,
            waiting: f_3,
            infeasible: f_4,
            bytes_to_move: f_5,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("PlannedStarts");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.job {
            o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.nodes {
            o_prot.write_field_begin(&TFieldIdentifier::new("nodes", TType::Struct, 2))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.waiting {
            o_prot.write_field_begin(&TFieldIdentifier::new("waiting", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.infeasible {
            o_prot.write_field_begin(&TFieldIdentifier::new("infeasible", TType::I64, 4))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.bytes_to_move {
            o_prot.write_field_begin(&TFieldIdentifier::new("bytesToMove", TType::I64, 5))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for PlannedStarts {
    fn default() -> Self {
        PlannedStarts {
            job: Some("".to_owned()),
            nodes: None,
            waiting: Some(0),
            infeasible: Some(0),
            bytes_to_move: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PlannedOrphan {
    pub job: Option<String>,
    pub node: Option<String>,
    pub worker_shard: Option<String>,
    pub invocation_id: Option<common::BistroInstanceID>,
    pub reason: Option<String>,
    pub kill_after_ms: Option<i64>,
    pub kill_request: Option<common::KillRequest>,
    pub already: Option<bool>,
}

impl TSerializable for PlannedOrphan {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<PlannedOrphan> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<String> = Some("".to_owned());
        let mut f_4: Option<common::BistroInstanceID> = None;
        let mut f_5: Option<String> = Some("".to_owned());
        let mut f_6: Option<i64> = None;
        let mut f_7: Option<common::KillRequest> = None;
        let mut f_8: Option<bool> = Some(false);
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
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::Struct => {
                    let val = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::Struct => {
                    let val = common::KillRequest::read_from_in_protocol(i_prot)?;
                    f_7 = Some(val);
                }
                8 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_8 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = PlannedOrphan {
            job: f_1,
            node: f_2,
            worker_shard: f_3,
            invocation_id: f_4,
            reason: f_5,
            kill_after_ms: f_6,
            kill_request: f_7,
            already: f_8,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("PlannedOrphan");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.job {
            o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.node {
            o_prot.write_field_begin(&TFieldIdentifier::new("node", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.worker_shard {
            o_prot.write_field_begin(&TFieldIdentifier::new("workerShard", TType::String, 3))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.invocation_id {
            o_prot.write_field_begin(&TFieldIdentifier::new("invocationID", TType::Struct, 4))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.reason {
            o_prot.write_field_begin(&TFieldIdentifier::new("reason", TType::String, 5))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.kill_after_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("killAfterMs", TType::I64, 6))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.kill_request {
            o_prot.write_field_begin(&TFieldIdentifier::new("killRequest", TType::Struct, 7))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.already {
            o_prot.write_field_begin(&TFieldIdentifier::new("already", TType::Bool, 8))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for PlannedOrphan {
    fn default() -> Self {
        PlannedOrphan {
            job: Some("".to_owned()),
            node: Some("".to_owned()),
            worker_shard: Some("".to_owned()),
            invocation_id: None,
            reason: Some("".to_owned()),
            kill_after_ms: None,
            kill_request: None,
            already: Some(false),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PlannedOrphans {
    pub total: Option<i64>,
    pub first: Option<Vec<PlannedOrphan>>,
}

impl TSerializable for PlannedOrphans {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<PlannedOrphans> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i64> = Some(0);
        let mut f_2: Option<Vec<PlannedOrphan>> = Some(Vec::new());
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<PlannedOrphan> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_30 = PlannedOrphan::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_30);
                    }
                    i_prot.read_list_end()?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = PlannedOrphans {
            total: f_1,
            first: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("PlannedOrphans");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.total {
            o_prot.write_field_begin(&TFieldIdentifier::new("total", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.first {
            o_prot.write_field_begin(&TFieldIdentifier::new("first", TType::List, 2))?;
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

impl Default for PlannedOrphans {
    fn default() -> Self {
        PlannedOrphans {
            total: Some(0),
            first: Some(Vec::new()),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Plan {
    pub errors: Option<Vec<String>>,
    pub warnings: Option<Vec<String>>,
    pub usable: Option<bool>,
    pub refused: Option<String>,
    pub changes_nothing: Option<bool>,
    pub file: Option<String>,
    pub settings: Option<Vec<PlannedKey>>,
    pub jobs_added: Option<PlannedNames>,
    pub jobs_removed: Option<PlannedNames>,
    pub jobs_changed: Option<i64>,
    pub first_jobs_changed: Option<Vec<PlannedJob>>,
    pub nodes_before: Option<i64>,
    pub nodes_after: Option<i64>,
    pub nodes: Option<Vec<PlannedNodes>>,
    pub nodes_error: Option<String>,
    pub not_counted: Option<String>,
    pub held: Option<Vec<String>>,
    pub starts: Option<i64>,
    pub starts_more: Option<bool>,
    pub jobs: Option<Vec<PlannedStarts>>,
    pub killed: Option<PlannedOrphans>,
    pub left: Option<PlannedOrphans>,
    pub spared: Option<PlannedNames>,
    pub problems: Option<Vec<String>>,
    pub notes: Option<Vec<String>>,
    pub errors_total: Option<i64>,
    pub warnings_total: Option<i64>,
    pub settings_total: Option<i64>,
    pub jobs_total: Option<i64>,
}

impl TSerializable for Plan {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<Plan> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<String>> = Some(Vec::new());
        let mut f_2: Option<Vec<String>> = Some(Vec::new());
        let mut f_3: Option<bool> = Some(false);
        let mut f_4: Option<String> = None;
        let mut f_5: Option<bool> = Some(false);
        let mut f_6: Option<String> = Some("".to_owned());
        let mut f_7: Option<Vec<PlannedKey>> = Some(Vec::new());
        let mut f_8: Option<PlannedNames> = None;
        let mut f_9: Option<PlannedNames> = None;
        let mut f_10: Option<i64> = Some(0);
        let mut f_11: Option<Vec<PlannedJob>> = Some(Vec::new());
        let mut f_12: Option<i64> = Some(0);
        let mut f_13: Option<i64> = Some(0);
        let mut f_14: Option<Vec<PlannedNodes>> = Some(Vec::new());
        let mut f_15: Option<String> = None;
        let mut f_16: Option<String> = None;
        let mut f_17: Option<Vec<String>> = Some(Vec::new());
        let mut f_18: Option<i64> = Some(0);
        let mut f_19: Option<bool> = Some(false);
        let mut f_20: Option<Vec<PlannedStarts>> = Some(Vec::new());
        let mut f_21: Option<PlannedOrphans> = None;
        let mut f_22: Option<PlannedOrphans> = None;
        let mut f_23: Option<PlannedNames> = None;
        let mut f_24: Option<Vec<String>> = Some(Vec::new());
        let mut f_25: Option<Vec<String>> = Some(Vec::new());
        let mut f_26: Option<i64> = None;
        let mut f_27: Option<i64> = None;
        let mut f_28: Option<i64> = None;
        let mut f_29: Option<i64> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_31 = i_prot.read_string()?;
                        val.push(list_elem_31);
                    }
                    i_prot.read_list_end()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_32 = i_prot.read_string()?;
                        val.push(list_elem_32);
                    }
                    i_prot.read_list_end()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<PlannedKey> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_33 = PlannedKey::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_33);
                    }
                    i_prot.read_list_end()?;
                    f_7 = Some(val);
                }
                8 if field_ident.field_type == TType::Struct => {
                    let val = PlannedNames::read_from_in_protocol(i_prot)?;
                    f_8 = Some(val);
                }
                9 if field_ident.field_type == TType::Struct => {
                    let val = PlannedNames::read_from_in_protocol(i_prot)?;
                    f_9 = Some(val);
                }
                10 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_10 = Some(val);
                }
                11 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<PlannedJob> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_34 = PlannedJob::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_34);
                    }
                    i_prot.read_list_end()?;
                    f_11 = Some(val);
                }
                12 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_12 = Some(val);
                }
                13 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_13 = Some(val);
                }
                14 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<PlannedNodes> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_35 = PlannedNodes::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_35);
                    }
                    i_prot.read_list_end()?;
                    f_14 = Some(val);
                }
                15 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_15 = Some(val);
                }
                16 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_16 = Some(val);
                }
                17 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_36 = i_prot.read_string()?;
                        val.push(list_elem_36);
                    }
                    i_prot.read_list_end()?;
                    f_17 = Some(val);
                }
                18 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_18 = Some(val);
                }
                19 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_19 = Some(val);
                }
                20 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<PlannedStarts> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_37 = PlannedStarts::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_37);
                    }
                    i_prot.read_list_end()?;
                    f_20 = Some(val);
                }
                21 if field_ident.field_type == TType::Struct => {
                    let val = PlannedOrphans::read_from_in_protocol(i_prot)?;
                    f_21 = Some(val);
                }
                22 if field_ident.field_type == TType::Struct => {
                    let val = PlannedOrphans::read_from_in_protocol(i_prot)?;
                    f_22 = Some(val);
                }
                23 if field_ident.field_type == TType::Struct => {
                    let val = PlannedNames::read_from_in_protocol(i_prot)?;
                    f_23 = Some(val);
                }
                24 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_38 = i_prot.read_string()?;
                        val.push(list_elem_38);
                    }
                    i_prot.read_list_end()?;
                    f_24 = Some(val);
                }
                25 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_39 = i_prot.read_string()?;
                        val.push(list_elem_39);
                    }
                    i_prot.read_list_end()?;
                    f_25 = Some(val);
                }
                26 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_26 = Some(val);
                }
                27 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_27 = Some(val);
                }
                28 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_28 = Some(val);
                }
                29 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_29 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = Plan {
            errors: f_1,
            warnings: f_2,
            usable: f_3,
            refused: f_4,
            changes_nothing: f_5,
            file: f_6,
            settings: f_7,
            jobs_added: f_8,
            jobs_removed: f_9,
            jobs_changed: f_10,
            first_jobs_changed: f_11,
            nodes_before: f_12,
            nodes_after: f_13,
            nodes: f_14,
            nodes_error: f_15,
            not_counted: f_16,
            held: f_17,
            starts: f_18,
            starts_more: f_19,
            jobs: f_20,
            killed: f_21,
            left: f_22,
            spared: f_23,
            problems: f_24,
            notes: f_25,
            errors_total: f_26,
            warnings_total: f_27,
            settings_total: f_28,
            jobs_total: f_29,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("Plan");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.errors {
            o_prot.write_field_begin(&TFieldIdentifier::new("errors", TType::List, 1))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.warnings {
            o_prot.write_field_begin(&TFieldIdentifier::new("warnings", TType::List, 2))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.usable {
            o_prot.write_field_begin(&TFieldIdentifier::new("usable", TType::Bool, 3))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.refused {
            o_prot.write_field_begin(&TFieldIdentifier::new("refused", TType::String, 4))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.changes_nothing {
            o_prot.write_field_begin(&TFieldIdentifier::new("changesNothing", TType::Bool, 5))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.file {
            o_prot.write_field_begin(&TFieldIdentifier::new("file", TType::String, 6))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.settings {
            o_prot.write_field_begin(&TFieldIdentifier::new("settings", TType::List, 7))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.jobs_added {
            o_prot.write_field_begin(&TFieldIdentifier::new("jobsAdded", TType::Struct, 8))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.jobs_removed {
            o_prot.write_field_begin(&TFieldIdentifier::new("jobsRemoved", TType::Struct, 9))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.jobs_changed {
            o_prot.write_field_begin(&TFieldIdentifier::new("jobsChanged", TType::I64, 10))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.first_jobs_changed {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "firstJobsChanged",
                TType::List,
                11,
            ))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.nodes_before {
            o_prot.write_field_begin(&TFieldIdentifier::new("nodesBefore", TType::I64, 12))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.nodes_after {
            o_prot.write_field_begin(&TFieldIdentifier::new("nodesAfter", TType::I64, 13))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.nodes {
            o_prot.write_field_begin(&TFieldIdentifier::new("nodes", TType::List, 14))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.nodes_error {
            o_prot.write_field_begin(&TFieldIdentifier::new("nodesError", TType::String, 15))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.not_counted {
            o_prot.write_field_begin(&TFieldIdentifier::new("notCounted", TType::String, 16))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.held {
            o_prot.write_field_begin(&TFieldIdentifier::new("held", TType::List, 17))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.starts {
            o_prot.write_field_begin(&TFieldIdentifier::new("starts", TType::I64, 18))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.starts_more {
            o_prot.write_field_begin(&TFieldIdentifier::new("startsMore", TType::Bool, 19))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.jobs {
            o_prot.write_field_begin(&TFieldIdentifier::new("jobs", TType::List, 20))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.killed {
            o_prot.write_field_begin(&TFieldIdentifier::new("killed", TType::Struct, 21))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.left {
            o_prot.write_field_begin(&TFieldIdentifier::new("left", TType::Struct, 22))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.spared {
            o_prot.write_field_begin(&TFieldIdentifier::new("spared", TType::Struct, 23))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.problems {
            o_prot.write_field_begin(&TFieldIdentifier::new("problems", TType::List, 24))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.notes {
            o_prot.write_field_begin(&TFieldIdentifier::new("notes", TType::List, 25))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.errors_total {
            o_prot.write_field_begin(&TFieldIdentifier::new("errorsTotal", TType::I64, 26))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.warnings_total {
            o_prot.write_field_begin(&TFieldIdentifier::new("warningsTotal", TType::I64, 27))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.settings_total {
            o_prot.write_field_begin(&TFieldIdentifier::new("settingsTotal", TType::I64, 28))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.jobs_total {
            o_prot.write_field_begin(&TFieldIdentifier::new("jobsTotal", TType::I64, 29))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            errors: Some(Vec::new()),
            warnings: Some(Vec::new()),
            usable: Some(false),
            refused: None,
            changes_nothing: Some(false),
            file: Some("".to_owned()),
            settings: Some(Vec::new()),
            jobs_added: None,
            jobs_removed: None,
            jobs_changed: Some(0),
            first_jobs_changed: Some(Vec::new()),
            nodes_before: Some(0),
            nodes_after: Some(0),
            nodes: Some(Vec::new()),
            nodes_error: None,
            not_counted: None,
            held: Some(Vec::new()),
            starts: Some(0),
            starts_more: Some(false),
            jobs: Some(Vec::new()),
            killed: None,
            left: None,
            spared: None,
            problems: Some(Vec::new()),
            notes: Some(Vec::new()),
            errors_total: None,
            warnings_total: None,
            settings_total: None,
            jobs_total: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LastRun {
    pub invocation_id: Option<common::BistroInstanceID>,
    pub worker_shard: Option<String>,
    pub queued_ms: Option<i64>,
    pub story: Option<common::TaskStory>,
}

impl TSerializable for LastRun {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<LastRun> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<common::BistroInstanceID> = None;
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<i64> = None;
        let mut f_4: Option<common::TaskStory> = None;
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
                2 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::Struct => {
                    let val = common::TaskStory::read_from_in_protocol(i_prot)?;
                    f_4 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = LastRun {
            invocation_id: f_1,
            worker_shard: f_2,
            queued_ms: f_3,
            story: f_4,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("LastRun");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.invocation_id {
            o_prot.write_field_begin(&TFieldIdentifier::new("invocationID", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.worker_shard {
            o_prot.write_field_begin(&TFieldIdentifier::new("workerShard", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.queued_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("queuedMs", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.story {
            o_prot.write_field_begin(&TFieldIdentifier::new("story", TType::Struct, 4))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for LastRun {
    fn default() -> Self {
        LastRun {
            invocation_id: None,
            worker_shard: Some("".to_owned()),
            queued_ms: None,
            story: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PlanRefusedException {
    pub message: Option<String>,
}

impl TSerializable for PlanRefusedException {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<PlanRefusedException> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
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
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = PlanRefusedException { message: f_1 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("PlanRefusedException");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.message {
            o_prot.write_field_begin(&TFieldIdentifier::new("message", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for PlanRefusedException {
    fn default() -> Self {
        PlanRefusedException {
            message: Some("".to_owned()),
        }
    }
}

impl Error for PlanRefusedException {}

impl From<PlanRefusedException> for thrift::Error {
    fn from(e: PlanRefusedException) -> Self {
        thrift::Error::User(Box::new(e))
    }
}

impl Display for PlanRefusedException {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "remote service threw PlanRefusedException")
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Caller {
    pub role: Option<String>,
    pub owner: Option<String>,
    pub cluster: Option<String>,
    pub created_ms: Option<i64>,
    pub expires_ms: Option<i64>,
}

impl TSerializable for Caller {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<Caller> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<String> = None;
        let mut f_3: Option<String> = None;
        let mut f_4: Option<i64> = None;
        let mut f_5: Option<i64> = None;
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
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
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
        let ret = Caller {
            role: f_1,
            owner: f_2,
            cluster: f_3,
            created_ms: f_4,
            expires_ms: f_5,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("Caller");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.role {
            o_prot.write_field_begin(&TFieldIdentifier::new("role", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.owner {
            o_prot.write_field_begin(&TFieldIdentifier::new("owner", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.cluster {
            o_prot.write_field_begin(&TFieldIdentifier::new("cluster", TType::String, 3))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.created_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("createdMs", TType::I64, 4))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.expires_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("expiresMs", TType::I64, 5))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for Caller {
    fn default() -> Self {
        Caller {
            role: Some("".to_owned()),
            owner: None,
            cluster: None,
            created_ms: None,
            expires_ms: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TokenTerms {
    pub role: Option<String>,
    pub seconds: Option<i64>,
    pub uses: Option<i32>,
    pub shard: Option<String>,
    pub owner: Option<String>,
    pub run_as: Option<Vec<String>>,
    pub note: Option<String>,
}

impl TSerializable for TokenTerms {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<TokenTerms> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<i64> = Some(0);
        let mut f_3: Option<i32> = None;
        let mut f_4: Option<String> = None;
        let mut f_5: Option<String> = None;
        let mut f_6: Option<Vec<String>> = None;
        let mut f_7: Option<String> = None;
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
                2 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_40 = i_prot.read_string()?;
                        val.push(list_elem_40);
                    }
                    i_prot.read_list_end()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_7 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = TokenTerms {
            role: f_1,
            seconds: f_2,
            uses: f_3,
            shard: f_4,
            owner: f_5,
            run_as: f_6,
            note: f_7,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("TokenTerms");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.role {
            o_prot.write_field_begin(&TFieldIdentifier::new("role", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.seconds {
            o_prot.write_field_begin(&TFieldIdentifier::new("seconds", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.uses {
            o_prot.write_field_begin(&TFieldIdentifier::new("uses", TType::I32, 3))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.shard {
            o_prot.write_field_begin(&TFieldIdentifier::new("shard", TType::String, 4))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.owner {
            o_prot.write_field_begin(&TFieldIdentifier::new("owner", TType::String, 5))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.run_as {
            o_prot.write_field_begin(&TFieldIdentifier::new("runAs", TType::List, 6))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.note {
            o_prot.write_field_begin(&TFieldIdentifier::new("note", TType::String, 7))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for TokenTerms {
    fn default() -> Self {
        TokenTerms {
            role: Some("".to_owned()),
            seconds: Some(0),
            uses: None,
            shard: None,
            owner: None,
            run_as: None,
            note: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TokenStatus {
    pub number: Option<String>,
    pub terms: Option<TokenTerms>,
    pub created_ms: Option<i64>,
    pub expires_ms: Option<i64>,
    pub uses_left: Option<i32>,
    pub created_by: Option<String>,
    pub authority: Option<String>,
}

impl TSerializable for TokenStatus {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<TokenStatus> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<TokenTerms> = None;
        let mut f_3: Option<i64> = Some(0);
        let mut f_4: Option<i64> = Some(0);
        let mut f_5: Option<i32> = None;
        let mut f_6: Option<String> = None;
        let mut f_7: Option<String> = None;
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
                2 if field_ident.field_type == TType::Struct => {
                    let val = TokenTerms::read_from_in_protocol(i_prot)?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_7 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = TokenStatus {
            number: f_1,
            terms: f_2,
            created_ms: f_3,
            expires_ms: f_4,
            uses_left: f_5,
            created_by: f_6,
            authority: f_7,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("TokenStatus");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.number {
            o_prot.write_field_begin(&TFieldIdentifier::new("number", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.terms {
            o_prot.write_field_begin(&TFieldIdentifier::new("terms", TType::Struct, 2))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.created_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("createdMs", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.expires_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("expiresMs", TType::I64, 4))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.uses_left {
            o_prot.write_field_begin(&TFieldIdentifier::new("usesLeft", TType::I32, 5))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.created_by {
            o_prot.write_field_begin(&TFieldIdentifier::new("createdBy", TType::String, 6))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.authority {
            o_prot.write_field_begin(&TFieldIdentifier::new("authority", TType::String, 7))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for TokenStatus {
    fn default() -> Self {
        TokenStatus {
            number: Some("".to_owned()),
            terms: None,
            created_ms: Some(0),
            expires_ms: Some(0),
            uses_left: None,
            created_by: None,
            authority: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CreatedToken {
    pub token: Option<String>,
    pub status: Option<TokenStatus>,
}

impl TSerializable for CreatedToken {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<CreatedToken> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<TokenStatus> = None;
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
                2 if field_ident.field_type == TType::Struct => {
                    let val = TokenStatus::read_from_in_protocol(i_prot)?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = CreatedToken {
            token: f_1,
            status: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("CreatedToken");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.token {
            o_prot.write_field_begin(&TFieldIdentifier::new("token", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.status {
            o_prot.write_field_begin(&TFieldIdentifier::new("status", TType::Struct, 2))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for CreatedToken {
    fn default() -> Self {
        CreatedToken {
            token: Some("".to_owned()),
            status: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NotAdmittedException {
    pub message: Option<String>,
}

impl TSerializable for NotAdmittedException {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<NotAdmittedException> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
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
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = NotAdmittedException { message: f_1 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("NotAdmittedException");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.message {
            o_prot.write_field_begin(&TFieldIdentifier::new("message", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for NotAdmittedException {
    fn default() -> Self {
        NotAdmittedException {
            message: Some("".to_owned()),
        }
    }
}

impl Error for NotAdmittedException {}

impl From<NotAdmittedException> for thrift::Error {
    fn from(e: NotAdmittedException) -> Self {
        thrift::Error::User(Box::new(e))
    }
}

impl Display for NotAdmittedException {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "remote service threw NotAdmittedException")
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RevokedShard {
    pub shard: Option<String>,
    pub issued_before: Option<i64>,
}

impl TSerializable for RevokedShard {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<RevokedShard> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<i64> = Some(0);
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
        let ret = RevokedShard {
            shard: f_1,
            issued_before: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("RevokedShard");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.shard {
            o_prot.write_field_begin(&TFieldIdentifier::new("shard", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.issued_before {
            o_prot.write_field_begin(&TFieldIdentifier::new("issuedBefore", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for RevokedShard {
    fn default() -> Self {
        RevokedShard {
            shard: Some("".to_owned()),
            issued_before: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct IssuedCertificate {
    pub chain: Option<Vec<Vec<u8>>>,
    pub revoked: Option<Vec<RevokedShard>>,
}

impl TSerializable for IssuedCertificate {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<IssuedCertificate> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<Vec<u8>>> = Some(Vec::new());
        let mut f_2: Option<Vec<RevokedShard>> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<Vec<u8>> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_41 = i_prot.read_bytes()?;
                        val.push(list_elem_41);
                    }
                    i_prot.read_list_end()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<RevokedShard> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_42 = RevokedShard::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_42);
                    }
                    i_prot.read_list_end()?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = IssuedCertificate {
            chain: f_1,
            revoked: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("IssuedCertificate");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.chain {
            o_prot.write_field_begin(&TFieldIdentifier::new("chain", TType::List, 1))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_bytes(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.revoked {
            o_prot.write_field_begin(&TFieldIdentifier::new("revoked", TType::List, 2))?;
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

impl Default for IssuedCertificate {
    fn default() -> Self {
        IssuedCertificate {
            chain: Some(Vec::new()),
            revoked: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CertificateNews {
    pub shards: Option<Vec<RevokedShard>>,
    pub tokens: Option<Vec<String>>,
    pub authorities: Option<Vec<Vec<u8>>>,
    pub source: Option<i64>,
    pub number: Option<i64>,
}

impl TSerializable for CertificateNews {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<CertificateNews> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<RevokedShard>> = Some(Vec::new());
        let mut f_2: Option<Vec<String>> = Some(Vec::new());
        let mut f_3: Option<Vec<Vec<u8>>> = Some(Vec::new());
        let mut f_4: Option<i64> = None;
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
                    let mut val: Vec<RevokedShard> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_43 = RevokedShard::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_43);
                    }
                    i_prot.read_list_end()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_44 = i_prot.read_string()?;
                        val.push(list_elem_44);
                    }
                    i_prot.read_list_end()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<Vec<u8>> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_45 = i_prot.read_bytes()?;
                        val.push(list_elem_45);
                    }
                    i_prot.read_list_end()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
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
        let ret = CertificateNews {
            shards: f_1,
            tokens: f_2,
            authorities: f_3,
            source: f_4,
            number: f_5,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("CertificateNews");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.shards {
            o_prot.write_field_begin(&TFieldIdentifier::new("shards", TType::List, 1))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.tokens {
            o_prot.write_field_begin(&TFieldIdentifier::new("tokens", TType::List, 2))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.authorities {
            o_prot.write_field_begin(&TFieldIdentifier::new("authorities", TType::List, 3))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_bytes(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.source {
            o_prot.write_field_begin(&TFieldIdentifier::new("source", TType::I64, 4))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.number {
            o_prot.write_field_begin(&TFieldIdentifier::new("number", TType::I64, 5))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for CertificateNews {
    fn default() -> Self {
        CertificateNews {
            shards: Some(Vec::new()),
            tokens: Some(Vec::new()),
            authorities: Some(Vec::new()),
            source: None,
            number: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct AuthorityStatus {
    pub cluster: Option<String>,
    pub hash: Option<String>,
    pub expires_ms: Option<i64>,
    pub former: Option<String>,
    pub behind: Option<Vec<String>>,
    pub behind_count: Option<i64>,
}

impl TSerializable for AuthorityStatus {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<AuthorityStatus> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<i64> = Some(0);
        let mut f_4: Option<String> = None;
        let mut f_5: Option<Vec<String>> = Some(Vec::new());
        let mut f_6: Option<i64> = Some(0);
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
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_46 = i_prot.read_string()?;
                        val.push(list_elem_46);
                    }
                    i_prot.read_list_end()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_6 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = AuthorityStatus {
            cluster: f_1,
            hash: f_2,
            expires_ms: f_3,
            former: f_4,
            behind: f_5,
            behind_count: f_6,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("AuthorityStatus");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.cluster {
            o_prot.write_field_begin(&TFieldIdentifier::new("cluster", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.hash {
            o_prot.write_field_begin(&TFieldIdentifier::new("hash", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.expires_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("expiresMs", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.former {
            o_prot.write_field_begin(&TFieldIdentifier::new("former", TType::String, 4))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.behind {
            o_prot.write_field_begin(&TFieldIdentifier::new("behind", TType::List, 5))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.behind_count {
            o_prot.write_field_begin(&TFieldIdentifier::new("behindCount", TType::I64, 6))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for AuthorityStatus {
    fn default() -> Self {
        AuthorityStatus {
            cluster: Some("".to_owned()),
            hash: Some("".to_owned()),
            expires_ms: Some(0),
            former: None,
            behind: Some(Vec::new()),
            behind_count: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct AuditCursor {
    pub file: Option<i64>,
    pub offset: Option<i64>,
}

impl TSerializable for AuditCursor {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<AuditCursor> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i64> = Some(0);
        let mut f_2: Option<i64> = Some(0);
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
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
        let ret = AuditCursor {
            file: f_1,
            offset: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("AuditCursor");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.file {
            o_prot.write_field_begin(&TFieldIdentifier::new("file", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
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

impl Default for AuditCursor {
    fn default() -> Self {
        AuditCursor {
            file: Some(0),
            offset: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct AuditQuery {
    pub after: Option<AuditCursor>,
    pub since_ms: Option<i64>,
    pub until_ms: Option<i64>,
    pub who: Option<String>,
    pub what: Option<String>,
    pub refused_only: Option<bool>,
}

impl TSerializable for AuditQuery {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<AuditQuery> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<AuditCursor> = None;
        let mut f_2: Option<i64> = None;
        let mut f_3: Option<i64> = None;
        let mut f_4: Option<String> = None;
        let mut f_5: Option<String> = None;
        let mut f_6: Option<bool> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = AuditCursor::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_6 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = AuditQuery {
            after: f_1,
            since_ms: f_2,
            until_ms: f_3,
            who: f_4,
            what: f_5,
            refused_only: f_6,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("AuditQuery");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.after {
            o_prot.write_field_begin(&TFieldIdentifier::new("after", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.since_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("sinceMs", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.until_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("untilMs", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.who {
            o_prot.write_field_begin(&TFieldIdentifier::new("who", TType::String, 4))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.what {
            o_prot.write_field_begin(&TFieldIdentifier::new("what", TType::String, 5))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.refused_only {
            o_prot.write_field_begin(&TFieldIdentifier::new("refusedOnly", TType::Bool, 6))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for AuditQuery {
    fn default() -> Self {
        AuditQuery {
            after: None,
            since_ms: None,
            until_ms: None,
            who: None,
            what: None,
            refused_only: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct AuditPage {
    pub lines: Option<Vec<String>>,
    pub read_to: Option<AuditCursor>,
    pub has_more: Option<bool>,
}

impl TSerializable for AuditPage {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<AuditPage> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<String>> = Some(Vec::new());
        let mut f_2: Option<AuditCursor> = None;
        let mut f_3: Option<bool> = Some(false);
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_47 = i_prot.read_string()?;
                        val.push(list_elem_47);
                    }
                    i_prot.read_list_end()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::Struct => {
                    let val = AuditCursor::read_from_in_protocol(i_prot)?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_3 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = AuditPage {
            lines: f_1,
            read_to: f_2,
            has_more: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("AuditPage");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.lines {
            o_prot.write_field_begin(&TFieldIdentifier::new("lines", TType::List, 1))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.read_to {
            o_prot.write_field_begin(&TFieldIdentifier::new("readTo", TType::Struct, 2))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.has_more {
            o_prot.write_field_begin(&TFieldIdentifier::new("hasMore", TType::Bool, 3))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for AuditPage {
    fn default() -> Self {
        AuditPage {
            lines: Some(Vec::new()),
            read_to: None,
            has_more: Some(false),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WorkFetchStatus {
    pub taken_ms: Option<i64>,
    pub overview: Option<String>,
}

impl TSerializable for WorkFetchStatus {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<WorkFetchStatus> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i64> = Some(0);
        let mut f_3: Option<String> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_1 = Some(val);
                }
                3 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_3 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = WorkFetchStatus {
            taken_ms: f_1,
            overview: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("WorkFetchStatus");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.taken_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("takenMs", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.overview {
            o_prot.write_field_begin(&TFieldIdentifier::new("overview", TType::String, 3))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for WorkFetchStatus {
    fn default() -> Self {
        WorkFetchStatus {
            taken_ms: Some(0),
            overview: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WorkWish {
    pub members: Option<Vec<common::ServiceAddress>>,
    pub ended: Option<Vec<String>>,
    pub state: Option<String>,
    pub left_sec: Option<OrderedFloat<f64>>,
    pub why: Option<String>,
}

impl TSerializable for WorkWish {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<WorkWish> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<common::ServiceAddress>> = Some(Vec::new());
        let mut f_2: Option<Vec<String>> = Some(Vec::new());
        let mut f_3: Option<String> = Some("".to_owned());
        let mut f_4: Option<OrderedFloat<f64>> = None;
        let mut f_5: Option<String> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<common::ServiceAddress> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_48 = common::ServiceAddress::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_48);
                    }
                    i_prot.read_list_end()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_49 = i_prot.read_string()?;
                        val.push(list_elem_49);
                    }
                    i_prot.read_list_end()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
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
        let ret = WorkWish {
            members: f_1,
            ended: f_2,
            state: f_3,
            left_sec: f_4,
            why: f_5,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("WorkWish");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.members {
            o_prot.write_field_begin(&TFieldIdentifier::new("members", TType::List, 1))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.ended {
            o_prot.write_field_begin(&TFieldIdentifier::new("ended", TType::List, 2))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.state {
            o_prot.write_field_begin(&TFieldIdentifier::new("state", TType::String, 3))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.left_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new("leftSec", TType::Double, 4))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.why {
            o_prot.write_field_begin(&TFieldIdentifier::new("why", TType::String, 5))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for WorkWish {
    fn default() -> Self {
        WorkWish {
            members: Some(Vec::new()),
            ended: Some(Vec::new()),
            state: Some("".to_owned()),
            left_sec: None,
            why: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DrainTerms {
    pub deadline_ms: Option<i64>,
    pub reason: Option<String>,
}

impl TSerializable for DrainTerms {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<DrainTerms> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i64> = None;
        let mut f_2: Option<String> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = DrainTerms {
            deadline_ms: f_1,
            reason: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("DrainTerms");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.deadline_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("deadlineMs", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.reason {
            o_prot.write_field_begin(&TFieldIdentifier::new("reason", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for DrainTerms {
    fn default() -> Self {
        DrainTerms {
            deadline_ms: None,
            reason: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieGetClusterStatusArgs {}

impl TSerializable for BrasserieGetClusterStatusArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieGetClusterStatusArgs> {
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
        let ret = BrasserieGetClusterStatusArgs {};
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("getClusterStatus_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieGetClusterStatusResult {
    pub result_value: Option<ClusterStatus>,
}

impl TSerializable for BrasserieGetClusterStatusResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieGetClusterStatusResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<ClusterStatus> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = ClusterStatus::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieGetClusterStatusResult { result_value: f_0 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieGetClusterStatusResult");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.result_value {
            o_prot.write_field_begin(&TFieldIdentifier::new("result_value", TType::Struct, 0))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieGetJobStatusPageArgs {
    pub after: String,
    pub limit: i32,
}

impl TSerializable for BrasserieGetJobStatusPageArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieGetJobStatusPageArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<i32> = None;
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
                    let val = i_prot.read_i32()?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieGetJobStatusPageArgs.after", &f_1)?;
        verify_required_field_exists("BrasserieGetJobStatusPageArgs.limit", &f_2)?;
        let ret = BrasserieGetJobStatusPageArgs {
            after: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            limit: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("getJobStatusPage_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("after", TType::String, 1))?;
        o_prot.write_string(&self.after)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("limit", TType::I32, 2))?;
        o_prot.write_i32(self.limit)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieGetJobStatusPageResult {
    pub result_value: Option<JobStatusPage>,
}

impl TSerializable for BrasserieGetJobStatusPageResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieGetJobStatusPageResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<JobStatusPage> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = JobStatusPage::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieGetJobStatusPageResult { result_value: f_0 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieGetJobStatusPageResult");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.result_value {
            o_prot.write_field_begin(&TFieldIdentifier::new("result_value", TType::Struct, 0))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieGetJobPageArgs {
    pub after: String,
    pub limit: i32,
}

impl TSerializable for BrasserieGetJobPageArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieGetJobPageArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<i32> = None;
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
                    let val = i_prot.read_i32()?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieGetJobPageArgs.after", &f_1)?;
        verify_required_field_exists("BrasserieGetJobPageArgs.limit", &f_2)?;
        let ret = BrasserieGetJobPageArgs {
            after: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            limit: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("getJobPage_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("after", TType::String, 1))?;
        o_prot.write_string(&self.after)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("limit", TType::I32, 2))?;
        o_prot.write_i32(self.limit)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieGetJobPageResult {
    pub result_value: Option<JobPage>,
}

impl TSerializable for BrasserieGetJobPageResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieGetJobPageResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<JobPage> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = JobPage::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieGetJobPageResult { result_value: f_0 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieGetJobPageResult");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.result_value {
            o_prot.write_field_begin(&TFieldIdentifier::new("result_value", TType::Struct, 0))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieGetJobStatusArgs {
    pub job: String,
}

impl TSerializable for BrasserieGetJobStatusArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieGetJobStatusArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
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
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieGetJobStatusArgs.job", &f_1)?;
        let ret = BrasserieGetJobStatusArgs {
            job: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("getJobStatus_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
        o_prot.write_string(&self.job)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieGetJobStatusResult {
    pub result_value: Option<JobStatus>,
    pub ex: Option<scheduler::BistroSchedulerUnknownJobException>,
}

impl TSerializable for BrasserieGetJobStatusResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieGetJobStatusResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<JobStatus> = None;
        let mut f_1: Option<scheduler::BistroSchedulerUnknownJobException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = JobStatus::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = scheduler::BistroSchedulerUnknownJobException::read_from_in_protocol(
                        i_prot,
                    )?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieGetJobStatusResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieGetJobStatusResult");
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
pub struct BrasserieGetTaskPageArgs {
    pub job: String,
    pub states: Vec<String>,
    pub after: Option<TaskCursor>,
    pub limit: i32,
}

impl TSerializable for BrasserieGetTaskPageArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieGetTaskPageArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<Vec<String>> = None;
        let mut f_3: Option<TaskCursor> = None;
        let mut f_4: Option<i32> = None;
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
                        let list_elem_50 = i_prot.read_string()?;
                        val.push(list_elem_50);
                    }
                    i_prot.read_list_end()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Struct => {
                    let val = TaskCursor::read_from_in_protocol(i_prot)?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_4 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieGetTaskPageArgs.job", &f_1)?;
        verify_required_field_exists("BrasserieGetTaskPageArgs.states", &f_2)?;
        verify_required_field_exists("BrasserieGetTaskPageArgs.limit", &f_4)?;
        let ret = BrasserieGetTaskPageArgs {
            job: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            states: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
            after: f_3,
            limit: f_4
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("getTaskPage_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
        o_prot.write_string(&self.job)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("states", TType::List, 2))?;
        o_prot.write_list_begin(&TListIdentifier::new(
            TType::String,
            self.states.len() as i32,
        ))?;
        for e in &self.states {
            o_prot.write_string(e)?;
        }
        o_prot.write_list_end()?;
        o_prot.write_field_end()?;
        if let Some(ref fld_var) = self.after {
            o_prot.write_field_begin(&TFieldIdentifier::new("after", TType::Struct, 3))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?;
        }
        o_prot.write_field_begin(&TFieldIdentifier::new("limit", TType::I32, 4))?;
        o_prot.write_i32(self.limit)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieGetTaskPageResult {
    pub result_value: Option<TaskPage>,
    pub ex: Option<scheduler::BistroSchedulerUnknownJobException>,
}

impl TSerializable for BrasserieGetTaskPageResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieGetTaskPageResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<TaskPage> = None;
        let mut f_1: Option<scheduler::BistroSchedulerUnknownJobException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = TaskPage::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = scheduler::BistroSchedulerUnknownJobException::read_from_in_protocol(
                        i_prot,
                    )?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieGetTaskPageResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieGetTaskPageResult");
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
pub struct BrasserieExplainTaskArgs {
    pub job: String,
    pub node: String,
}

impl TSerializable for BrasserieExplainTaskArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieExplainTaskArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<String> = None;
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
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieExplainTaskArgs.job", &f_1)?;
        verify_required_field_exists("BrasserieExplainTaskArgs.node", &f_2)?;
        let ret = BrasserieExplainTaskArgs {
            job: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            node: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("explainTask_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
        o_prot.write_string(&self.job)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("node", TType::String, 2))?;
        o_prot.write_string(&self.node)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieExplainTaskResult {
    pub result_value: Option<Vec<String>>,
    pub ex: Option<scheduler::BistroSchedulerUnknownJobException>,
}

impl TSerializable for BrasserieExplainTaskResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieExplainTaskResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<Vec<String>> = None;
        let mut f_1: Option<scheduler::BistroSchedulerUnknownJobException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_51 = i_prot.read_string()?;
                        val.push(list_elem_51);
                    }
                    i_prot.read_list_end()?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = scheduler::BistroSchedulerUnknownJobException::read_from_in_protocol(
                        i_prot,
                    )?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieExplainTaskResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieExplainTaskResult");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.result_value {
            o_prot.write_field_begin(&TFieldIdentifier::new("result_value", TType::List, 0))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
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
pub struct BrasserieGetOutputPageArgs {
    pub job: String,
    pub node: String,
    pub after: Option<OutputCursor>,
    pub limit: i32,
}

impl TSerializable for BrasserieGetOutputPageArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieGetOutputPageArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<String> = None;
        let mut f_3: Option<OutputCursor> = None;
        let mut f_4: Option<i32> = None;
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
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Struct => {
                    let val = OutputCursor::read_from_in_protocol(i_prot)?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_4 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieGetOutputPageArgs.job", &f_1)?;
        verify_required_field_exists("BrasserieGetOutputPageArgs.node", &f_2)?;
        verify_required_field_exists("BrasserieGetOutputPageArgs.limit", &f_4)?;
        let ret = BrasserieGetOutputPageArgs {
            job: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            node: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
            after: f_3,
            limit: f_4
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("getOutputPage_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
        o_prot.write_string(&self.job)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("node", TType::String, 2))?;
        o_prot.write_string(&self.node)?;
        o_prot.write_field_end()?;
        if let Some(ref fld_var) = self.after {
            o_prot.write_field_begin(&TFieldIdentifier::new("after", TType::Struct, 3))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?;
        }
        o_prot.write_field_begin(&TFieldIdentifier::new("limit", TType::I32, 4))?;
        o_prot.write_i32(self.limit)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieGetOutputPageResult {
    pub result_value: Option<OutputPage>,
    pub ex: Option<scheduler::BistroSchedulerUnknownJobException>,
}

impl TSerializable for BrasserieGetOutputPageResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieGetOutputPageResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<OutputPage> = None;
        let mut f_1: Option<scheduler::BistroSchedulerUnknownJobException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = OutputPage::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = scheduler::BistroSchedulerUnknownJobException::read_from_in_protocol(
                        i_prot,
                    )?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieGetOutputPageResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieGetOutputPageResult");
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
pub struct BrasserieGetFilePageArgs {
    pub name: String,
    pub after: String,
    pub limit: i32,
}

impl TSerializable for BrasserieGetFilePageArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieGetFilePageArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<String> = None;
        let mut f_3: Option<i32> = None;
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
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_3 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieGetFilePageArgs.name", &f_1)?;
        verify_required_field_exists("BrasserieGetFilePageArgs.after", &f_2)?;
        verify_required_field_exists("BrasserieGetFilePageArgs.limit", &f_3)?;
        let ret = BrasserieGetFilePageArgs {
            name: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            after: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
            limit: f_3
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("getFilePage_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("name", TType::String, 1))?;
        o_prot.write_string(&self.name)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("after", TType::String, 2))?;
        o_prot.write_string(&self.after)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("limit", TType::I32, 3))?;
        o_prot.write_i32(self.limit)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieGetFilePageResult {
    pub result_value: Option<FilePage>,
}

impl TSerializable for BrasserieGetFilePageResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieGetFilePageResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<FilePage> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = FilePage::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieGetFilePageResult { result_value: f_0 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieGetFilePageResult");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.result_value {
            o_prot.write_field_begin(&TFieldIdentifier::new("result_value", TType::Struct, 0))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieGetTaskHistoryArgs {
    pub job: String,
    pub node: String,
}

impl TSerializable for BrasserieGetTaskHistoryArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieGetTaskHistoryArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<String> = None;
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
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieGetTaskHistoryArgs.job", &f_1)?;
        verify_required_field_exists("BrasserieGetTaskHistoryArgs.node", &f_2)?;
        let ret = BrasserieGetTaskHistoryArgs {
            job: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            node: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("getTaskHistory_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
        o_prot.write_string(&self.job)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("node", TType::String, 2))?;
        o_prot.write_string(&self.node)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieGetTaskHistoryResult {
    pub result_value: Option<Vec<LastRun>>,
}

impl TSerializable for BrasserieGetTaskHistoryResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieGetTaskHistoryResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<Vec<LastRun>> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<LastRun> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_52 = LastRun::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_52);
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
        let ret = BrasserieGetTaskHistoryResult { result_value: f_0 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieGetTaskHistoryResult");
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
pub struct BrasserieKillTaskArgs {
    pub job: String,
    pub node: String,
}

impl TSerializable for BrasserieKillTaskArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieKillTaskArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<String> = None;
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
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieKillTaskArgs.job", &f_1)?;
        verify_required_field_exists("BrasserieKillTaskArgs.node", &f_2)?;
        let ret = BrasserieKillTaskArgs {
            job: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            node: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("killTask_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
        o_prot.write_string(&self.job)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("node", TType::String, 2))?;
        o_prot.write_string(&self.node)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieKillTaskResult {
    pub result_value: Option<TaskKill>,
    pub ex: Option<JobRefusedException>,
}

impl TSerializable for BrasserieKillTaskResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieKillTaskResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<TaskKill> = None;
        let mut f_1: Option<JobRefusedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = TaskKill::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = JobRefusedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieKillTaskResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieKillTaskResult");
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
pub struct BrasserieSubmitJobArgs {
    pub job: String,
    pub text: String,
    pub expected_version: i64,
}

impl TSerializable for BrasserieSubmitJobArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieSubmitJobArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<String> = None;
        let mut f_3: Option<i64> = None;
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
                    let val = i_prot.read_string()?;
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
        verify_required_field_exists("BrasserieSubmitJobArgs.job", &f_1)?;
        verify_required_field_exists("BrasserieSubmitJobArgs.text", &f_2)?;
        verify_required_field_exists("BrasserieSubmitJobArgs.expected_version", &f_3)?;
        let ret = BrasserieSubmitJobArgs {
            job: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            text: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
            expected_version: f_3
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("submitJob_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
        o_prot.write_string(&self.job)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("text", TType::String, 2))?;
        o_prot.write_string(&self.text)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("expectedVersion", TType::I64, 3))?;
        o_prot.write_i64(self.expected_version)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieSubmitJobResult {
    pub result_value: Option<SubmittedJob>,
    pub ex: Option<JobRefusedException>,
}

impl TSerializable for BrasserieSubmitJobResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieSubmitJobResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<SubmittedJob> = None;
        let mut f_1: Option<JobRefusedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = SubmittedJob::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = JobRefusedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieSubmitJobResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieSubmitJobResult");
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
pub struct BrasserieRemoveJobArgs {
    pub job: String,
    pub expected_version: i64,
}

impl TSerializable for BrasserieRemoveJobArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieRemoveJobArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<i64> = None;
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
        verify_required_field_exists("BrasserieRemoveJobArgs.job", &f_1)?;
        verify_required_field_exists("BrasserieRemoveJobArgs.expected_version", &f_2)?;
        let ret = BrasserieRemoveJobArgs {
            job: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            expected_version: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("removeJob_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
        o_prot.write_string(&self.job)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("expectedVersion", TType::I64, 2))?;
        o_prot.write_i64(self.expected_version)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieRemoveJobResult {
    pub ex: Option<JobRefusedException>,
}

impl TSerializable for BrasserieRemoveJobResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieRemoveJobResult> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<JobRefusedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = JobRefusedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieRemoveJobResult { ex: f_1 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieRemoveJobResult");
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
pub struct BrasseriePauseJobArgs {
    pub job: String,
}

impl TSerializable for BrasseriePauseJobArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasseriePauseJobArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
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
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasseriePauseJobArgs.job", &f_1)?;
        let ret = BrasseriePauseJobArgs {
            job: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("pauseJob_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
        o_prot.write_string(&self.job)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasseriePauseJobResult {
    pub ex: Option<JobRefusedException>,
}

impl TSerializable for BrasseriePauseJobResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasseriePauseJobResult> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<JobRefusedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = JobRefusedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasseriePauseJobResult { ex: f_1 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasseriePauseJobResult");
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
pub struct BrasserieResumeJobArgs {
    pub job: String,
}

impl TSerializable for BrasserieResumeJobArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieResumeJobArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
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
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieResumeJobArgs.job", &f_1)?;
        let ret = BrasserieResumeJobArgs {
            job: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("resumeJob_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
        o_prot.write_string(&self.job)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieResumeJobResult {
    pub ex: Option<JobRefusedException>,
}

impl TSerializable for BrasserieResumeJobResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieResumeJobResult> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<JobRefusedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = JobRefusedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieResumeJobResult { ex: f_1 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieResumeJobResult");
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
pub struct BrasserieCancelJobArgs {
    pub job: String,
}

impl TSerializable for BrasserieCancelJobArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieCancelJobArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
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
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieCancelJobArgs.job", &f_1)?;
        let ret = BrasserieCancelJobArgs {
            job: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("cancelJob_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
        o_prot.write_string(&self.job)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieCancelJobResult {
    pub result_value: Option<i64>,
    pub ex: Option<JobRefusedException>,
}

impl TSerializable for BrasserieCancelJobResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieCancelJobResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<i64> = None;
        let mut f_1: Option<JobRefusedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = JobRefusedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieCancelJobResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieCancelJobResult");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.result_value {
            o_prot.write_field_begin(&TFieldIdentifier::new("result_value", TType::I64, 0))?;
            o_prot.write_i64(fld_var)?;
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
pub struct BrasserieForgiveTasksArgs {
    pub job: String,
    pub failed_only: bool,
}

impl TSerializable for BrasserieForgiveTasksArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieForgiveTasksArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<bool> = Some(false);
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
                2 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieForgiveTasksArgs.job", &f_1)?;
        verify_required_field_exists("BrasserieForgiveTasksArgs.failed_only", &f_2)?;
        let ret = BrasserieForgiveTasksArgs {
            job: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            failed_only: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("forgiveTasks_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
        o_prot.write_string(&self.job)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("failedOnly", TType::Bool, 2))?;
        o_prot.write_bool(self.failed_only)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieForgiveTasksResult {
    pub result_value: Option<i64>,
    pub ex: Option<JobRefusedException>,
}

impl TSerializable for BrasserieForgiveTasksResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieForgiveTasksResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<i64> = None;
        let mut f_1: Option<JobRefusedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = JobRefusedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieForgiveTasksResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieForgiveTasksResult");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.result_value {
            o_prot.write_field_begin(&TFieldIdentifier::new("result_value", TType::I64, 0))?;
            o_prot.write_i64(fld_var)?;
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
pub struct BrasserieForgetWorkerArgs {
    pub shard: String,
    pub instances: Vec<common::BistroInstanceID>,
}

impl TSerializable for BrasserieForgetWorkerArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieForgetWorkerArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<Vec<common::BistroInstanceID>> = None;
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
                    let mut val: Vec<common::BistroInstanceID> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_53 = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_53);
                    }
                    i_prot.read_list_end()?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieForgetWorkerArgs.shard", &f_1)?;
        verify_required_field_exists("BrasserieForgetWorkerArgs.instances", &f_2)?;
        let ret = BrasserieForgetWorkerArgs {
            shard: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            instances: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("forgetWorker_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("shard", TType::String, 1))?;
        o_prot.write_string(&self.shard)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("instances", TType::List, 2))?;
        o_prot.write_list_begin(&TListIdentifier::new(
            TType::Struct,
            self.instances.len() as i32,
        ))?;
        for e in &self.instances {
            e.write_to_out_protocol(o_prot)?;
        }
        o_prot.write_list_end()?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieForgetWorkerResult {
    pub result_value: Option<Vec<MissingInstance>>,
    pub ex: Option<ForgetRefusedException>,
}

impl TSerializable for BrasserieForgetWorkerResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieForgetWorkerResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<Vec<MissingInstance>> = None;
        let mut f_1: Option<ForgetRefusedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<MissingInstance> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_54 = MissingInstance::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_54);
                    }
                    i_prot.read_list_end()?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = ForgetRefusedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieForgetWorkerResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieForgetWorkerResult");
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
pub struct BrasserieOrderWorkerArgs {
    pub shard: String,
    pub order: WorkerOrderRequest,
}

impl TSerializable for BrasserieOrderWorkerArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieOrderWorkerArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<WorkerOrderRequest> = None;
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
                2 if field_ident.field_type == TType::Struct => {
                    let val = WorkerOrderRequest::read_from_in_protocol(i_prot)?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieOrderWorkerArgs.shard", &f_1)?;
        verify_required_field_exists("BrasserieOrderWorkerArgs.order", &f_2)?;
        let ret = BrasserieOrderWorkerArgs {
            shard: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            order: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("orderWorker_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("shard", TType::String, 1))?;
        o_prot.write_string(&self.shard)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("order", TType::Struct, 2))?;
        self.order.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieOrderWorkerResult {
    pub result_value: Option<WorkerOrder>,
    pub ex: Option<OrderRefusedException>,
}

impl TSerializable for BrasserieOrderWorkerResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieOrderWorkerResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<WorkerOrder> = None;
        let mut f_1: Option<OrderRefusedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = WorkerOrder::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = OrderRefusedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieOrderWorkerResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieOrderWorkerResult");
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
pub struct BrasseriePlanConfigArgs {
    pub text: Vec<u8>,
    pub format: String,
    pub folder: String,
}

impl TSerializable for BrasseriePlanConfigArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasseriePlanConfigArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<u8>> = None;
        let mut f_2: Option<String> = None;
        let mut f_3: Option<String> = None;
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
                2 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_3 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasseriePlanConfigArgs.text", &f_1)?;
        verify_required_field_exists("BrasseriePlanConfigArgs.format", &f_2)?;
        verify_required_field_exists("BrasseriePlanConfigArgs.folder", &f_3)?;
        let ret = BrasseriePlanConfigArgs {
            text: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            format: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
            folder: f_3
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("planConfig_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("text", TType::String, 1))?;
        o_prot.write_bytes(&self.text)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("format", TType::String, 2))?;
        o_prot.write_string(&self.format)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("folder", TType::String, 3))?;
        o_prot.write_string(&self.folder)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasseriePlanConfigResult {
    pub result_value: Option<Plan>,
    pub ex: Option<PlanRefusedException>,
}

impl TSerializable for BrasseriePlanConfigResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasseriePlanConfigResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<Plan> = None;
        let mut f_1: Option<PlanRefusedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = Plan::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = PlanRefusedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasseriePlanConfigResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasseriePlanConfigResult");
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
pub struct BrasserieDeleteHistoryArgs {
    pub job: String,
    pub nodes: Vec<String>,
}

impl TSerializable for BrasserieDeleteHistoryArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieDeleteHistoryArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<Vec<String>> = None;
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
                        let list_elem_55 = i_prot.read_string()?;
                        val.push(list_elem_55);
                    }
                    i_prot.read_list_end()?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieDeleteHistoryArgs.job", &f_1)?;
        verify_required_field_exists("BrasserieDeleteHistoryArgs.nodes", &f_2)?;
        let ret = BrasserieDeleteHistoryArgs {
            job: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            nodes: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("deleteHistory_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
        o_prot.write_string(&self.job)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("nodes", TType::List, 2))?;
        o_prot.write_list_begin(&TListIdentifier::new(
            TType::String,
            self.nodes.len() as i32,
        ))?;
        for e in &self.nodes {
            o_prot.write_string(e)?;
        }
        o_prot.write_list_end()?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieDeleteHistoryResult {
    pub result_value: Option<DeletedHistory>,
    pub ex: Option<JobRefusedException>,
}

impl TSerializable for BrasserieDeleteHistoryResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieDeleteHistoryResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<DeletedHistory> = None;
        let mut f_1: Option<JobRefusedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = DeletedHistory::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = JobRefusedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieDeleteHistoryResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieDeleteHistoryResult");
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
pub struct BrasseriePutFileArgs {
    pub name: String,
    pub artifact: common::Artifact,
    pub upload: i64,
    pub offset: i64,
    pub bytes: Vec<u8>,
}

impl TSerializable for BrasseriePutFileArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasseriePutFileArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<common::Artifact> = None;
        let mut f_3: Option<i64> = None;
        let mut f_4: Option<i64> = None;
        let mut f_5: Option<Vec<u8>> = None;
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
                2 if field_ident.field_type == TType::Struct => {
                    let val = common::Artifact::read_from_in_protocol(i_prot)?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_bytes()?;
                    f_5 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasseriePutFileArgs.name", &f_1)?;
        verify_required_field_exists("BrasseriePutFileArgs.artifact", &f_2)?;
        verify_required_field_exists("BrasseriePutFileArgs.upload", &f_3)?;
        verify_required_field_exists("BrasseriePutFileArgs.offset", &f_4)?;
        verify_required_field_exists("BrasseriePutFileArgs.bytes", &f_5)?;
        let ret = BrasseriePutFileArgs {
            name: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            artifact: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
            upload: f_3
                .expect("auto-generated code should have checked for presence of required fields"),
            offset: f_4
                .expect("auto-generated code should have checked for presence of required fields"),
            bytes: f_5
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("putFile_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("name", TType::String, 1))?;
        o_prot.write_string(&self.name)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("artifact", TType::Struct, 2))?;
        self.artifact.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("upload", TType::I64, 3))?;
        o_prot.write_i64(self.upload)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("offset", TType::I64, 4))?;
        o_prot.write_i64(self.offset)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("bytes", TType::String, 5))?;
        o_prot.write_bytes(&self.bytes)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasseriePutFileResult {
    pub result_value: Option<FileUpload>,
    pub ex: Option<FileRefusedException>,
}

impl TSerializable for BrasseriePutFileResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasseriePutFileResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<FileUpload> = None;
        let mut f_1: Option<FileRefusedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = FileUpload::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = FileRefusedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasseriePutFileResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasseriePutFileResult");
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
pub struct BrasserieRemoveFileArgs {
    pub name: String,
    pub force: bool,
}

impl TSerializable for BrasserieRemoveFileArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieRemoveFileArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<bool> = None;
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
                2 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieRemoveFileArgs.name", &f_1)?;
        verify_required_field_exists("BrasserieRemoveFileArgs.force", &f_2)?;
        let ret = BrasserieRemoveFileArgs {
            name: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            force: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("removeFile_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("name", TType::String, 1))?;
        o_prot.write_string(&self.name)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("force", TType::Bool, 2))?;
        o_prot.write_bool(self.force)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieRemoveFileResult {
    pub ex: Option<FileRefusedException>,
}

impl TSerializable for BrasserieRemoveFileResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieRemoveFileResult> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<FileRefusedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = FileRefusedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieRemoveFileResult { ex: f_1 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieRemoveFileResult");
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
pub struct BrasserieForgetOutputsArgs {
    pub job: String,
    pub nodes: Vec<String>,
    pub force: bool,
}

impl TSerializable for BrasserieForgetOutputsArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieForgetOutputsArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<Vec<String>> = None;
        let mut f_3: Option<bool> = None;
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
                        let list_elem_56 = i_prot.read_string()?;
                        val.push(list_elem_56);
                    }
                    i_prot.read_list_end()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_3 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieForgetOutputsArgs.job", &f_1)?;
        verify_required_field_exists("BrasserieForgetOutputsArgs.nodes", &f_2)?;
        verify_required_field_exists("BrasserieForgetOutputsArgs.force", &f_3)?;
        let ret = BrasserieForgetOutputsArgs {
            job: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            nodes: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
            force: f_3
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("forgetOutputs_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
        o_prot.write_string(&self.job)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("nodes", TType::List, 2))?;
        o_prot.write_list_begin(&TListIdentifier::new(
            TType::String,
            self.nodes.len() as i32,
        ))?;
        for e in &self.nodes {
            o_prot.write_string(e)?;
        }
        o_prot.write_list_end()?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("force", TType::Bool, 3))?;
        o_prot.write_bool(self.force)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieForgetOutputsResult {
    pub result_value: Option<ForgottenOutputs>,
    pub ex: Option<JobRefusedException>,
}

impl TSerializable for BrasserieForgetOutputsResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieForgetOutputsResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<ForgottenOutputs> = None;
        let mut f_1: Option<JobRefusedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = ForgottenOutputs::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = JobRefusedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieForgetOutputsResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieForgetOutputsResult");
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
pub struct BrasserieHoldOutputsArgs {
    pub job: String,
    pub release: bool,
    pub hold: Option<i64>,
}

impl TSerializable for BrasserieHoldOutputsArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieHoldOutputsArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<bool> = None;
        let mut f_3: Option<i64> = None;
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
                2 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
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
        verify_required_field_exists("BrasserieHoldOutputsArgs.job", &f_1)?;
        verify_required_field_exists("BrasserieHoldOutputsArgs.release", &f_2)?;
        let ret = BrasserieHoldOutputsArgs {
            job: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            release: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
            hold: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("holdOutputs_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
        o_prot.write_string(&self.job)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("release", TType::Bool, 2))?;
        o_prot.write_bool(self.release)?;
        o_prot.write_field_end()?;
        if let Some(ref fld_var) = self.hold {
            o_prot.write_field_begin(&TFieldIdentifier::new("hold", TType::I64, 3))?;
            o_prot.write_i64(*fld_var)?;
            o_prot.write_field_end()?;
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieHoldOutputsResult {
    pub result_value: Option<bool>,
    pub ex: Option<JobRefusedException>,
}

impl TSerializable for BrasserieHoldOutputsResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieHoldOutputsResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<bool> = None;
        let mut f_1: Option<JobRefusedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = JobRefusedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieHoldOutputsResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieHoldOutputsResult");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.result_value {
            o_prot.write_field_begin(&TFieldIdentifier::new("result_value", TType::Bool, 0))?;
            o_prot.write_bool(fld_var)?;
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
pub struct BrasserieJoinArgs {
    pub secret: String,
    pub shard: String,
    pub request: Vec<u8>,
}

impl TSerializable for BrasserieJoinArgs {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<BrasserieJoinArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<String> = None;
        let mut f_3: Option<Vec<u8>> = None;
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
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_bytes()?;
                    f_3 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieJoinArgs.secret", &f_1)?;
        verify_required_field_exists("BrasserieJoinArgs.shard", &f_2)?;
        verify_required_field_exists("BrasserieJoinArgs.request", &f_3)?;
        let ret = BrasserieJoinArgs {
            secret: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            shard: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
            request: f_3
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("join_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("secret", TType::String, 1))?;
        o_prot.write_string(&self.secret)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("shard", TType::String, 2))?;
        o_prot.write_string(&self.shard)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("request", TType::String, 3))?;
        o_prot.write_bytes(&self.request)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieJoinResult {
    pub result_value: Option<IssuedCertificate>,
    pub ex: Option<NotAdmittedException>,
}

impl TSerializable for BrasserieJoinResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieJoinResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<IssuedCertificate> = None;
        let mut f_1: Option<NotAdmittedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = IssuedCertificate::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = NotAdmittedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieJoinResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieJoinResult");
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
pub struct BrasserieRenewCertificateArgs {
    pub request: Vec<u8>,
}

impl TSerializable for BrasserieRenewCertificateArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieRenewCertificateArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<u8>> = None;
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
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieRenewCertificateArgs.request", &f_1)?;
        let ret = BrasserieRenewCertificateArgs {
            request: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("renewCertificate_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("request", TType::String, 1))?;
        o_prot.write_bytes(&self.request)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieRenewCertificateResult {
    pub result_value: Option<IssuedCertificate>,
    pub ex: Option<NotAdmittedException>,
}

impl TSerializable for BrasserieRenewCertificateResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieRenewCertificateResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<IssuedCertificate> = None;
        let mut f_1: Option<NotAdmittedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = IssuedCertificate::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = NotAdmittedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieRenewCertificateResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieRenewCertificateResult");
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
pub struct BrasserieCertifyArgs {
    pub request: Vec<u8>,
}

impl TSerializable for BrasserieCertifyArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieCertifyArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<u8>> = None;
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
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieCertifyArgs.request", &f_1)?;
        let ret = BrasserieCertifyArgs {
            request: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("certify_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("request", TType::String, 1))?;
        o_prot.write_bytes(&self.request)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieCertifyResult {
    pub result_value: Option<IssuedCertificate>,
    pub ex: Option<NotAdmittedException>,
}

impl TSerializable for BrasserieCertifyResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieCertifyResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<IssuedCertificate> = None;
        let mut f_1: Option<NotAdmittedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = IssuedCertificate::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = NotAdmittedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieCertifyResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieCertifyResult");
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
pub struct BrasserieAuthenticateArgs {
    pub secret: String,
}

impl TSerializable for BrasserieAuthenticateArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieAuthenticateArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
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
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieAuthenticateArgs.secret", &f_1)?;
        let ret = BrasserieAuthenticateArgs {
            secret: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("authenticate_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("secret", TType::String, 1))?;
        o_prot.write_string(&self.secret)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieAuthenticateResult {
    pub result_value: Option<Caller>,
    pub ex: Option<NotAdmittedException>,
}

impl TSerializable for BrasserieAuthenticateResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieAuthenticateResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<Caller> = None;
        let mut f_1: Option<NotAdmittedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = Caller::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = NotAdmittedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieAuthenticateResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieAuthenticateResult");
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
pub struct BrasserieCreateTokenArgs {
    pub terms: TokenTerms,
}

impl TSerializable for BrasserieCreateTokenArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieCreateTokenArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<TokenTerms> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = TokenTerms::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieCreateTokenArgs.terms", &f_1)?;
        let ret = BrasserieCreateTokenArgs {
            terms: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("createToken_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("terms", TType::Struct, 1))?;
        self.terms.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieCreateTokenResult {
    pub result_value: Option<CreatedToken>,
    pub ex: Option<NotAdmittedException>,
}

impl TSerializable for BrasserieCreateTokenResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieCreateTokenResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<CreatedToken> = None;
        let mut f_1: Option<NotAdmittedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = CreatedToken::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = NotAdmittedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieCreateTokenResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieCreateTokenResult");
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
pub struct BrasserieListTokensArgs {}

impl TSerializable for BrasserieListTokensArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieListTokensArgs> {
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
        let ret = BrasserieListTokensArgs {};
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("listTokens_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieListTokensResult {
    pub result_value: Option<Vec<TokenStatus>>,
    pub ex: Option<NotAdmittedException>,
}

impl TSerializable for BrasserieListTokensResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieListTokensResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<Vec<TokenStatus>> = None;
        let mut f_1: Option<NotAdmittedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<TokenStatus> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_57 = TokenStatus::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_57);
                    }
                    i_prot.read_list_end()?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = NotAdmittedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieListTokensResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieListTokensResult");
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
pub struct BrasserieRevokeTokenArgs {
    pub number: String,
}

impl TSerializable for BrasserieRevokeTokenArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieRevokeTokenArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
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
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieRevokeTokenArgs.number", &f_1)?;
        let ret = BrasserieRevokeTokenArgs {
            number: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("revokeToken_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("number", TType::String, 1))?;
        o_prot.write_string(&self.number)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieRevokeTokenResult {
    pub ex: Option<NotAdmittedException>,
}

impl TSerializable for BrasserieRevokeTokenResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieRevokeTokenResult> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<NotAdmittedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = NotAdmittedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieRevokeTokenResult { ex: f_1 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieRevokeTokenResult");
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
pub struct BrasserieRevokeWorkerArgs {
    pub shard: String,
}

impl TSerializable for BrasserieRevokeWorkerArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieRevokeWorkerArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
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
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieRevokeWorkerArgs.shard", &f_1)?;
        let ret = BrasserieRevokeWorkerArgs {
            shard: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("revokeWorker_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("shard", TType::String, 1))?;
        o_prot.write_string(&self.shard)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieRevokeWorkerResult {
    pub result_value: Option<bool>,
    pub ex: Option<NotAdmittedException>,
}

impl TSerializable for BrasserieRevokeWorkerResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieRevokeWorkerResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<bool> = None;
        let mut f_1: Option<NotAdmittedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = NotAdmittedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieRevokeWorkerResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieRevokeWorkerResult");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.result_value {
            o_prot.write_field_begin(&TFieldIdentifier::new("result_value", TType::Bool, 0))?;
            o_prot.write_bool(fld_var)?;
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
pub struct BrasserieGetAuthorityArgs {}

impl TSerializable for BrasserieGetAuthorityArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieGetAuthorityArgs> {
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
        let ret = BrasserieGetAuthorityArgs {};
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("getAuthority_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieGetAuthorityResult {
    pub result_value: Option<AuthorityStatus>,
    pub ex: Option<NotAdmittedException>,
}

impl TSerializable for BrasserieGetAuthorityResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieGetAuthorityResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<AuthorityStatus> = None;
        let mut f_1: Option<NotAdmittedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = AuthorityStatus::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = NotAdmittedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieGetAuthorityResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieGetAuthorityResult");
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
pub struct BrasserieRotateAuthorityArgs {
    pub finish: bool,
    pub force: bool,
}

impl TSerializable for BrasserieRotateAuthorityArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieRotateAuthorityArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<bool> = None;
        let mut f_2: Option<bool> = None;
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
                2 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieRotateAuthorityArgs.finish", &f_1)?;
        verify_required_field_exists("BrasserieRotateAuthorityArgs.force", &f_2)?;
        let ret = BrasserieRotateAuthorityArgs {
            finish: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            force: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("rotateAuthority_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("finish", TType::Bool, 1))?;
        o_prot.write_bool(self.finish)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("force", TType::Bool, 2))?;
        o_prot.write_bool(self.force)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieRotateAuthorityResult {
    pub result_value: Option<AuthorityStatus>,
    pub ex: Option<NotAdmittedException>,
}

impl TSerializable for BrasserieRotateAuthorityResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieRotateAuthorityResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<AuthorityStatus> = None;
        let mut f_1: Option<NotAdmittedException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = AuthorityStatus::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = NotAdmittedException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieRotateAuthorityResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieRotateAuthorityResult");
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
pub struct BrasserieGetAuditPageArgs {
    pub query: AuditQuery,
}

impl TSerializable for BrasserieGetAuditPageArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieGetAuditPageArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<AuditQuery> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = AuditQuery::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieGetAuditPageArgs.query", &f_1)?;
        let ret = BrasserieGetAuditPageArgs {
            query: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("getAuditPage_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("query", TType::Struct, 1))?;
        self.query.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieGetAuditPageResult {
    pub result_value: Option<AuditPage>,
}

impl TSerializable for BrasserieGetAuditPageResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieGetAuditPageResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<AuditPage> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = AuditPage::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieGetAuditPageResult { result_value: f_0 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieGetAuditPageResult");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.result_value {
            o_prot.write_field_begin(&TFieldIdentifier::new("result_value", TType::Struct, 0))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieWorkerGetWorkFetchArgs {}

impl TSerializable for BrasserieWorkerGetWorkFetchArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieWorkerGetWorkFetchArgs> {
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
        let ret = BrasserieWorkerGetWorkFetchArgs {};
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("getWorkFetch_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieWorkerGetWorkFetchResult {
    pub result_value: Option<WorkFetchStatus>,
}

impl TSerializable for BrasserieWorkerGetWorkFetchResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieWorkerGetWorkFetchResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<WorkFetchStatus> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = WorkFetchStatus::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieWorkerGetWorkFetchResult { result_value: f_0 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieWorkerGetWorkFetchResult");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.result_value {
            o_prot.write_field_begin(&TFieldIdentifier::new("result_value", TType::Struct, 0))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieWorkerFetchWorkArgs {
    pub scheduler: Option<common::ServiceAddress>,
}

impl TSerializable for BrasserieWorkerFetchWorkArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieWorkerFetchWorkArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<common::ServiceAddress> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = common::ServiceAddress::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieWorkerFetchWorkArgs { scheduler: f_1 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("fetchWork_args");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.scheduler {
            o_prot.write_field_begin(&TFieldIdentifier::new("scheduler", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?;
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieWorkerFetchWorkResult {
    pub result_value: Option<Vec<WorkWish>>,
    pub ex: Option<worker::BistroWorkerException>,
}

impl TSerializable for BrasserieWorkerFetchWorkResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieWorkerFetchWorkResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<Vec<WorkWish>> = None;
        let mut f_1: Option<worker::BistroWorkerException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<WorkWish> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_58 = WorkWish::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_58);
                    }
                    i_prot.read_list_end()?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = worker::BistroWorkerException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieWorkerFetchWorkResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieWorkerFetchWorkResult");
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
pub struct BrasserieWorkerDrainArgs {
    pub shard: String,
    pub instance: common::BistroInstanceID,
    pub terms: Option<DrainTerms>,
}

impl TSerializable for BrasserieWorkerDrainArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieWorkerDrainArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<common::BistroInstanceID> = None;
        let mut f_3: Option<DrainTerms> = None;
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
                2 if field_ident.field_type == TType::Struct => {
                    let val = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Struct => {
                    let val = DrainTerms::read_from_in_protocol(i_prot)?;
                    f_3 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieWorkerDrainArgs.shard", &f_1)?;
        verify_required_field_exists("BrasserieWorkerDrainArgs.instance", &f_2)?;
        let ret = BrasserieWorkerDrainArgs {
            shard: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            instance: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
            terms: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("drain_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("shard", TType::String, 1))?;
        o_prot.write_string(&self.shard)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("instance", TType::Struct, 2))?;
        self.instance.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        if let Some(ref fld_var) = self.terms {
            o_prot.write_field_begin(&TFieldIdentifier::new("terms", TType::Struct, 3))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?;
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieWorkerDrainResult {
    pub result_value: Option<i32>,
    pub ex: Option<worker::BistroWorkerException>,
}

impl TSerializable for BrasserieWorkerDrainResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieWorkerDrainResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<i32> = None;
        let mut f_1: Option<worker::BistroWorkerException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = worker::BistroWorkerException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BrasserieWorkerDrainResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieWorkerDrainResult");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.result_value {
            o_prot.write_field_begin(&TFieldIdentifier::new("result_value", TType::I32, 0))?;
            o_prot.write_i32(fld_var)?;
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
pub struct BrasserieWorkerLearnCertificatesArgs {
    pub news: CertificateNews,
}

impl TSerializable for BrasserieWorkerLearnCertificatesArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieWorkerLearnCertificatesArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<CertificateNews> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = CertificateNews::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BrasserieWorkerLearnCertificatesArgs.news", &f_1)?;
        let ret = BrasserieWorkerLearnCertificatesArgs {
            news: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("learnCertificates_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("news", TType::Struct, 1))?;
        self.news.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BrasserieWorkerLearnCertificatesResult {}

impl TSerializable for BrasserieWorkerLearnCertificatesResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BrasserieWorkerLearnCertificatesResult> {
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
        let ret = BrasserieWorkerLearnCertificatesResult {};
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BrasserieWorkerLearnCertificatesResult");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}
