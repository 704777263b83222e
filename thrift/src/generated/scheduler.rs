//! Generated from `idl/scheduler.thrift`: the scheduler's service.
// By thrift/regenerate; do not edit.

use crate::generated::bits;
use crate::generated::common;
use crate::generated::worker;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;
use std::fmt::{Display, Formatter};
use thrift::OrderedFloat;
use thrift::protocol::{
    TFieldIdentifier, TInputProtocol, TListIdentifier, TMapIdentifier, TOutputProtocol,
    TSerializable, TSetIdentifier, TStructIdentifier, TType, field_id,
    verify_required_field_exists,
};

pub type StringToIntMap = BTreeMap<String, i32>;

pub type StringSet = BTreeSet<String>;

pub type StringToFiltersMap = BTreeMap<String, BistroJobConfigFilters>;

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroJobConfigFilters {
    pub whitelist: Option<StringSet>,
    pub whitelist_regex: Option<String>,
    pub blacklist: Option<StringSet>,
    pub blacklist_regex: Option<String>,
    pub fraction_of_nodes: Option<OrderedFloat<f64>>,
    pub tag_whitelist: Option<StringSet>,
}

impl TSerializable for BistroJobConfigFilters {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroJobConfigFilters> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<StringSet> = Some(BTreeSet::new());
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<StringSet> = Some(BTreeSet::new());
        let mut f_4: Option<String> = Some("".to_owned());
        let mut f_5: Option<OrderedFloat<f64>> = Some(OrderedFloat::from(1.0));
        let mut f_6: Option<StringSet> = Some(BTreeSet::new());
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Set => {
                    let set_ident = i_prot.read_set_begin()?;
                    let mut val: BTreeSet<String> = BTreeSet::new();
                    for _ in 0..set_ident.size {
                        let set_elem_0 = i_prot.read_string()?;
                        val.insert(set_elem_0);
                    }
                    i_prot.read_set_end()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Set => {
                    let set_ident = i_prot.read_set_begin()?;
                    let mut val: BTreeSet<String> = BTreeSet::new();
                    for _ in 0..set_ident.size {
                        let set_elem_1 = i_prot.read_string()?;
                        val.insert(set_elem_1);
                    }
                    i_prot.read_set_end()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::Set => {
                    let set_ident = i_prot.read_set_begin()?;
                    let mut val: BTreeSet<String> = BTreeSet::new();
                    for _ in 0..set_ident.size {
                        let set_elem_2 = i_prot.read_string()?;
                        val.insert(set_elem_2);
                    }
                    i_prot.read_set_end()?;
                    f_6 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BistroJobConfigFilters {
            whitelist: f_1,
            whitelist_regex: f_2,
            blacklist: f_3,
            blacklist_regex: f_4,
            fraction_of_nodes: f_5,
            tag_whitelist: f_6,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroJobConfigFilters");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.whitelist {
            o_prot.write_field_begin(&TFieldIdentifier::new("whitelist", TType::Set, 1))?;
            o_prot.write_set_begin(&TSetIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_set_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.whitelist_regex {
            o_prot.write_field_begin(&TFieldIdentifier::new("whitelistRegex", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.blacklist {
            o_prot.write_field_begin(&TFieldIdentifier::new("blacklist", TType::Set, 3))?;
            o_prot.write_set_begin(&TSetIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_set_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.blacklist_regex {
            o_prot.write_field_begin(&TFieldIdentifier::new("blacklistRegex", TType::String, 4))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.fraction_of_nodes {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "fractionOfNodes",
                TType::Double,
                5,
            ))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.tag_whitelist {
            o_prot.write_field_begin(&TFieldIdentifier::new("tagWhitelist", TType::Set, 6))?;
            o_prot.write_set_begin(&TSetIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_set_end()?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for BistroJobConfigFilters {
    fn default() -> Self {
        BistroJobConfigFilters {
            whitelist: Some(BTreeSet::new()),
            whitelist_regex: Some("".to_owned()),
            blacklist: Some(BTreeSet::new()),
            blacklist_regex: Some("".to_owned()),
            fraction_of_nodes: Some(OrderedFloat::from(1.0)),
            tag_whitelist: Some(BTreeSet::new()),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroJobConfig {
    pub name: Option<String>,
    pub enabled: Option<bool>,
    pub owner: Option<String>,
    pub resources: Option<StringToIntMap>,
    pub config: Option<String>,
    pub priority: Option<OrderedFloat<f64>>,
    pub filters: Option<StringToFiltersMap>,
    pub error: Option<String>,
    pub backoff_values: Option<Vec<i32>>,
    pub backoff_repeat: Option<bool>,
    pub create_time: Option<i64>,
    pub modify_time: Option<i64>,
    pub level_for_tasks: Option<String>,
    pub level_for_host_placement: Option<String>,
    pub depends_on: Option<Vec<String>>,
    pub host_placement: Option<String>,
    pub kill_orphan_tasks_after_sec: Option<OrderedFloat<f64>>,
    pub version_id: Option<i64>,
    pub task_subprocess_options: Option<common::TaskSubprocessOptions>,
    pub kill_request: Option<common::KillRequest>,
    pub command: Option<Vec<String>>,
    pub backoff_fail: Option<bool>,
    pub run_only_after_all_nodes_are_done_for: Option<Vec<String>>,
    pub timeout_sec: Option<OrderedFloat<f64>>,
    pub status_from: Option<String>,
    pub arguments: Option<String>,
    pub deadline_sec: Option<OrderedFloat<f64>>,
    pub est_duration_sec: Option<OrderedFloat<f64>>,
    pub bufferable: Option<bool>,
    pub report: Option<String>,
    pub max_running: Option<i32>,
}

impl TSerializable for BistroJobConfig {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<BistroJobConfig> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<bool> = Some(false);
        let mut f_3: Option<String> = Some("".to_owned());
        let mut f_4: Option<StringToIntMap> = Some(BTreeMap::new());
        let mut f_5: Option<String> = Some("".to_owned());
        let mut f_6: Option<OrderedFloat<f64>> = Some(OrderedFloat::from(1.0));
        let mut f_7: Option<StringToFiltersMap> = Some(BTreeMap::new());
        let mut f_8: Option<String> = Some("".to_owned());
        let mut f_9: Option<Vec<i32>> = Some(Vec::new());
        let mut f_10: Option<bool> = Some(false);
        let mut f_11: Option<i64> = Some(0);
        let mut f_12: Option<i64> = Some(0);
        let mut f_13: Option<String> = Some("".to_owned());
        let mut f_14: Option<String> = Some("".to_owned());
        let mut f_15: Option<Vec<String>> = Some(Vec::new());
        let mut f_16: Option<String> = Some("".to_owned());
        let mut f_17: Option<OrderedFloat<f64>> = None;
        let mut f_18: Option<i64> = Some(-1);
        let mut f_19: Option<common::TaskSubprocessOptions> = None;
        let mut f_20: Option<common::KillRequest> = None;
        let mut f_21: Option<Vec<String>> = None;
        let mut f_22: Option<bool> = None;
        let mut f_23: Option<Vec<String>> = None;
        let mut f_24: Option<OrderedFloat<f64>> = None;
        let mut f_25: Option<String> = None;
        let mut f_26: Option<String> = None;
        let mut f_27: Option<OrderedFloat<f64>> = None;
        let mut f_28: Option<OrderedFloat<f64>> = None;
        let mut f_29: Option<bool> = None;
        let mut f_30: Option<String> = None;
        let mut f_31: Option<i32> = None;
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
                3 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::Map => {
                    let map_ident = i_prot.read_map_begin()?;
                    let mut val: BTreeMap<String, i32> = BTreeMap::new();
                    for _ in 0..map_ident.size {
                        let map_key_3 = i_prot.read_string()?;
                        let map_val_4 = i_prot.read_i32()?;
                        val.insert(map_key_3, map_val_4);
                    }
                    i_prot.read_map_end()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::Map => {
                    let map_ident = i_prot.read_map_begin()?;
                    let mut val: BTreeMap<String, BistroJobConfigFilters> = BTreeMap::new();
                    for _ in 0..map_ident.size {
                        let map_key_5 = i_prot.read_string()?;
                        let map_val_6 = BistroJobConfigFilters::read_from_in_protocol(i_prot)?;
                        val.insert(map_key_5, map_val_6);
                    }
                    i_prot.read_map_end()?;
                    f_7 = Some(val);
                }
                8 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_8 = Some(val);
                }
                9 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<i32> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_7 = i_prot.read_i32()?;
                        val.push(list_elem_7);
                    }
                    i_prot.read_list_end()?;
                    f_9 = Some(val);
                }
                10 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_10 = Some(val);
                }
                11 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_11 = Some(val);
                }
                12 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_12 = Some(val);
                }
                13 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_13 = Some(val);
                }
                14 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_14 = Some(val);
                }
                15 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_8 = i_prot.read_string()?;
                        val.push(list_elem_8);
                    }
                    i_prot.read_list_end()?;
                    f_15 = Some(val);
                }
                16 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_16 = Some(val);
                }
                17 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_17 = Some(val);
                }
                18 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_18 = Some(val);
                }
                19 if field_ident.field_type == TType::Struct => {
                    let val = common::TaskSubprocessOptions::read_from_in_protocol(i_prot)?;
                    f_19 = Some(val);
                }
                20 if field_ident.field_type == TType::Struct => {
                    let val = common::KillRequest::read_from_in_protocol(i_prot)?;
                    f_20 = Some(val);
                }
                21 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_9 = i_prot.read_string()?;
                        val.push(list_elem_9);
                    }
                    i_prot.read_list_end()?;
                    f_21 = Some(val);
                }
                22 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_22 = Some(val);
                }
                23 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_10 = i_prot.read_string()?;
                        val.push(list_elem_10);
                    }
                    i_prot.read_list_end()?;
                    f_23 = Some(val);
                }
                24 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_24 = Some(val);
                }
                25 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_25 = Some(val);
                }
                26 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_26 = Some(val);
                }
                27 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_27 = Some(val);
                }
                28 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_28 = Some(val);
                }
                29 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_29 = Some(val);
                }
                30 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_30 = Some(val);
                }
                31 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_31 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BistroJobConfig {
            name: f_1,
            enabled: f_2,
            owner: f_3,
            resources: f_4,
            config: f_5,
            priority: f_6,
            filters: f_7,
            error: f_8,
            backoff_values: f_9,
            backoff_repeat: f_10,
            create_time: f_11,
            modify_time: f_12,
            level_for_tasks: f_13,
            level_for_host_placement: f_14,
            depends_on: f_15,
            host_placement: f_16,
            kill_orphan_tasks_after_sec: f_17,
            version_id: f_18,
            task_subprocess_options: f_19,
            kill_request: f_20,
            command: f_21,
            backoff_fail: f_22,
            run_only_after_all_nodes_are_done_for: f_23,
            timeout_sec: f_24,
            status_from: f_25,
            arguments: f_26,
            deadline_sec: f_27,
            est_duration_sec: f_28,
            bufferable: f_29,
            report: f_30,
            max_running: f_31,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroJobConfig");
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
        if let Some(ref fld_var) = self.owner {
            o_prot.write_field_begin(&TFieldIdentifier::new("owner", TType::String, 3))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.resources {
            o_prot.write_field_begin(&TFieldIdentifier::new("resources", TType::Map, 4))?;
            o_prot.write_map_begin(&TMapIdentifier::new(
                TType::String,
                TType::I32,
                fld_var.len() as i32,
            ))?;
            for (k, v) in fld_var {
                o_prot.write_string(k)?;
                o_prot.write_i32(*v)?;
            }
            o_prot.write_map_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.config {
            o_prot.write_field_begin(&TFieldIdentifier::new("config", TType::String, 5))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.priority {
            o_prot.write_field_begin(&TFieldIdentifier::new("priority", TType::Double, 6))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.filters {
            o_prot.write_field_begin(&TFieldIdentifier::new("filters", TType::Map, 7))?;
            o_prot.write_map_begin(&TMapIdentifier::new(
                TType::String,
                TType::Struct,
                fld_var.len() as i32,
            ))?;
            for (k, v) in fld_var {
                o_prot.write_string(k)?;
                v.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_map_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.error {
            o_prot.write_field_begin(&TFieldIdentifier::new("error", TType::String, 8))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.backoff_values {
            o_prot.write_field_begin(&TFieldIdentifier::new("backoffValues", TType::List, 9))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::I32, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_i32(*e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.backoff_repeat {
            o_prot.write_field_begin(&TFieldIdentifier::new("backoffRepeat", TType::Bool, 10))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.create_time {
            o_prot.write_field_begin(&TFieldIdentifier::new("createTime", TType::I64, 11))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.modify_time {
            o_prot.write_field_begin(&TFieldIdentifier::new("modifyTime", TType::I64, 12))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.level_for_tasks {
            o_prot.write_field_begin(&TFieldIdentifier::new("levelForTasks", TType::String, 13))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.level_for_host_placement {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "levelForHostPlacement",
                TType::String,
                14,
            ))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.depends_on {
            o_prot.write_field_begin(&TFieldIdentifier::new("dependsOn", TType::List, 15))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.host_placement {
            o_prot.write_field_begin(&TFieldIdentifier::new("hostPlacement", TType::String, 16))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.kill_orphan_tasks_after_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "killOrphanTasksAfterSec",
                TType::Double,
                17,
            ))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.version_id {
            o_prot.write_field_begin(&TFieldIdentifier::new("versionID", TType::I64, 18))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.task_subprocess_options {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "taskSubprocessOptions",
                TType::Struct,
                19,
            ))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.kill_request {
            o_prot.write_field_begin(&TFieldIdentifier::new("killRequest", TType::Struct, 20))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.command {
            o_prot.write_field_begin(&TFieldIdentifier::new("command", TType::List, 21))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.backoff_fail {
            o_prot.write_field_begin(&TFieldIdentifier::new("backoffFail", TType::Bool, 22))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.run_only_after_all_nodes_are_done_for {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "runOnlyAfterAllNodesAreDoneFor",
                TType::List,
                23,
            ))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.timeout_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new("timeoutSec", TType::Double, 24))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.status_from {
            o_prot.write_field_begin(&TFieldIdentifier::new("statusFrom", TType::String, 25))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.arguments {
            o_prot.write_field_begin(&TFieldIdentifier::new("arguments", TType::String, 26))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.deadline_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new("deadlineSec", TType::Double, 27))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.est_duration_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "estDurationSec",
                TType::Double,
                28,
            ))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.bufferable {
            o_prot.write_field_begin(&TFieldIdentifier::new("bufferable", TType::Bool, 29))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.report {
            o_prot.write_field_begin(&TFieldIdentifier::new("report", TType::String, 30))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.max_running {
            o_prot.write_field_begin(&TFieldIdentifier::new("maxRunning", TType::I32, 31))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for BistroJobConfig {
    fn default() -> Self {
        BistroJobConfig {
            name: Some("".to_owned()),
            enabled: Some(false),
            owner: Some("".to_owned()),
            resources: Some(BTreeMap::new()),
            config: Some("".to_owned()),
            priority: Some(OrderedFloat::from(1.0)),
            filters: Some(BTreeMap::new()),
            error: Some("".to_owned()),
            backoff_values: Some(Vec::new()),
            backoff_repeat: Some(false),
            create_time: Some(0),
            modify_time: Some(0),
            level_for_tasks: Some("".to_owned()),
            level_for_host_placement: Some("".to_owned()),
            depends_on: Some(Vec::new()),
            host_placement: Some("".to_owned()),
            kill_orphan_tasks_after_sec: None,
            version_id: Some(-1),
            task_subprocess_options: None,
            kill_request: None,
            command: None,
            backoff_fail: None,
            run_only_after_all_nodes_are_done_for: None,
            timeout_sec: None,
            status_from: None,
            arguments: None,
            deadline_sec: None,
            est_duration_sec: None,
            bufferable: None,
            report: None,
            max_running: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroCountWithSamples {
    pub count: Option<i32>,
    pub samples: Option<Vec<String>>,
}

impl TSerializable for BistroCountWithSamples {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroCountWithSamples> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i32> = Some(0);
        let mut f_2: Option<Vec<String>> = Some(Vec::new());
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
                2 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_11 = i_prot.read_string()?;
                        val.push(list_elem_11);
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
        let ret = BistroCountWithSamples {
            count: f_1,
            samples: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroCountWithSamples");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.count {
            o_prot.write_field_begin(&TFieldIdentifier::new("count", TType::I32, 1))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.samples {
            o_prot.write_field_begin(&TFieldIdentifier::new("samples", TType::List, 2))?;
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

impl Default for BistroCountWithSamples {
    fn default() -> Self {
        BistroCountWithSamples {
            count: Some(0),
            samples: Some(Vec::new()),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroJobHistogram {
    pub job: Option<String>,
    pub statuses:
        Option<BTreeMap<String, BTreeMap<bits::BistroTaskStatusBits, BistroCountWithSamples>>>,
    pub nodes_loading: Option<bool>,
}

impl TSerializable for BistroJobHistogram {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroJobHistogram> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<
            BTreeMap<String, BTreeMap<bits::BistroTaskStatusBits, BistroCountWithSamples>>,
        > = Some(BTreeMap::new());
        let mut f_16: Option<bool> = None;
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
                2 if field_ident.field_type == TType::Map => {
                    let map_ident = i_prot.read_map_begin()?;
                    let mut val: BTreeMap<
                        String,
                        BTreeMap<bits::BistroTaskStatusBits, BistroCountWithSamples>,
                    > = BTreeMap::new();
                    for _ in 0..map_ident.size {
                        let map_key_12 = i_prot.read_string()?;
                        let map_ident = i_prot.read_map_begin()?;
                        let mut map_val_13: BTreeMap<
                            bits::BistroTaskStatusBits,
                            BistroCountWithSamples,
                        > = BTreeMap::new();
                        for _ in 0..map_ident.size {
                            let map_key_14 =
                                bits::BistroTaskStatusBits::read_from_in_protocol(i_prot)?;
                            let map_val_15 = BistroCountWithSamples::read_from_in_protocol(i_prot)?;
                            map_val_13.insert(map_key_14, map_val_15);
                        }
                        i_prot.read_map_end()?;
                        val.insert(map_key_12, map_val_13);
                    }
                    i_prot.read_map_end()?;
                    f_2 = Some(val);
                }
                16 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_16 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BistroJobHistogram {
            job: f_1,
            statuses: f_2,
            nodes_loading: f_16,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroJobHistogram");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.job {
            o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.statuses {
            o_prot.write_field_begin(&TFieldIdentifier::new("statuses", TType::Map, 2))?;
            o_prot.write_map_begin(&TMapIdentifier::new(
                TType::String,
                TType::Map,
                fld_var.len() as i32,
            ))?;
            for (k, v) in fld_var {
                o_prot.write_string(k)?;
                o_prot.write_map_begin(&TMapIdentifier::new(
                    TType::I32,
                    TType::Struct,
                    v.len() as i32,
                ))?;
                for (k, v) in v {
                    k.write_to_out_protocol(o_prot)?;
                    v.write_to_out_protocol(o_prot)?;
                }
                o_prot.write_map_end()?;
            }
            o_prot.write_map_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.nodes_loading {
            o_prot.write_field_begin(&TFieldIdentifier::new("nodesLoading", TType::Bool, 16))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for BistroJobHistogram {
    fn default() -> Self {
        BistroJobHistogram {
            job: Some("".to_owned()),
            statuses: Some(BTreeMap::new()),
            nodes_loading: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerUnknownJobException {
    pub message: Option<String>,
}

impl TSerializable for BistroSchedulerUnknownJobException {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerUnknownJobException> {
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
        let ret = BistroSchedulerUnknownJobException { message: f_1 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroSchedulerUnknownJobException");
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

impl Default for BistroSchedulerUnknownJobException {
    fn default() -> Self {
        BistroSchedulerUnknownJobException {
            message: Some("".to_owned()),
        }
    }
}

impl Error for BistroSchedulerUnknownJobException {}

impl From<BistroSchedulerUnknownJobException> for thrift::Error {
    fn from(e: BistroSchedulerUnknownJobException) -> Self {
        thrift::Error::User(Box::new(e))
    }
}

impl Display for BistroSchedulerUnknownJobException {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "remote service threw BistroSchedulerUnknownJobException")
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct StatusUpdate {
    pub running_task: Option<common::RunningTask>,
    pub status: Option<String>,
    pub scheduler: Option<common::BistroInstanceID>,
    pub worker: Option<common::BistroInstanceID>,
}

impl TSerializable for StatusUpdate {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<StatusUpdate> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<common::RunningTask> = None;
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<common::BistroInstanceID> = None;
        let mut f_4: Option<common::BistroInstanceID> = None;
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
                3 if field_ident.field_type == TType::Struct => {
                    let val = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::Struct => {
                    let val = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_4 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = StatusUpdate {
            running_task: f_1,
            status: f_2,
            scheduler: f_3,
            worker: f_4,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("StatusUpdate");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.running_task {
            o_prot.write_field_begin(&TFieldIdentifier::new("runningTask", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.status {
            o_prot.write_field_begin(&TFieldIdentifier::new("status", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.scheduler {
            o_prot.write_field_begin(&TFieldIdentifier::new("scheduler", TType::Struct, 3))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.worker {
            o_prot.write_field_begin(&TFieldIdentifier::new("worker", TType::Struct, 4))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for StatusUpdate {
    fn default() -> Self {
        StatusUpdate {
            running_task: None,
            status: Some("".to_owned()),
            scheduler: None,
            worker: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct StatusResult {
    pub refusal: Option<String>,
}

impl TSerializable for StatusResult {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<StatusResult> {
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
        let ret = StatusResult { refusal: f_1 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("StatusResult");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.refusal {
            o_prot.write_field_begin(&TFieldIdentifier::new("refusal", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for StatusResult {
    fn default() -> Self {
        StatusResult { refusal: None }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ArtifactDisk {
    pub generation: Option<Vec<u8>>,
    pub digest: Option<Vec<u8>>,
    pub artifacts: Option<i64>,
    pub medium: Option<String>,
    pub total_bytes: Option<i64>,
    pub used_bytes: Option<i64>,
    pub usable_bytes: Option<i64>,
    pub state: Option<String>,
    pub problem: Option<String>,
    pub flush_micros: Option<i64>,
    pub fetch_micros: Option<i64>,
}

impl TSerializable for ArtifactDisk {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ArtifactDisk> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<u8>> = Some(Vec::new());
        let mut f_2: Option<Vec<u8>> = Some(Vec::new());
        let mut f_3: Option<i64> = Some(0);
        let mut f_4: Option<String> = Some("".to_owned());
        let mut f_5: Option<i64> = Some(0);
        let mut f_6: Option<i64> = Some(0);
        let mut f_7: Option<i64> = Some(0);
        let mut f_8: Option<String> = Some("".to_owned());
        let mut f_9: Option<String> = None;
        let mut f_10: Option<i64> = None;
        let mut f_11: Option<i64> = None;
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
                    let val = i_prot.read_bytes()?;
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
                8 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_8 = Some(val);
                }
                9 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
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
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = ArtifactDisk {
            generation: f_1,
            digest: f_2,
            artifacts: f_3,
            medium: f_4,
            total_bytes: f_5,
            used_bytes: f_6,
            usable_bytes: f_7,
            state: f_8,
            problem: f_9,
            flush_micros: f_10,
            fetch_micros: f_11,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ArtifactDisk");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.generation {
            o_prot.write_field_begin(&TFieldIdentifier::new("generation", TType::String, 1))?;
            o_prot.write_bytes(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.digest {
            o_prot.write_field_begin(&TFieldIdentifier::new("digest", TType::String, 2))?;
            o_prot.write_bytes(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.artifacts {
            o_prot.write_field_begin(&TFieldIdentifier::new("artifacts", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.medium {
            o_prot.write_field_begin(&TFieldIdentifier::new("medium", TType::String, 4))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.total_bytes {
            o_prot.write_field_begin(&TFieldIdentifier::new("totalBytes", TType::I64, 5))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.used_bytes {
            o_prot.write_field_begin(&TFieldIdentifier::new("usedBytes", TType::I64, 6))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.usable_bytes {
            o_prot.write_field_begin(&TFieldIdentifier::new("usableBytes", TType::I64, 7))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.state {
            o_prot.write_field_begin(&TFieldIdentifier::new("state", TType::String, 8))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.problem {
            o_prot.write_field_begin(&TFieldIdentifier::new("problem", TType::String, 9))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.flush_micros {
            o_prot.write_field_begin(&TFieldIdentifier::new("flushMicros", TType::I64, 10))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.fetch_micros {
            o_prot.write_field_begin(&TFieldIdentifier::new("fetchMicros", TType::I64, 11))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ArtifactDisk {
    fn default() -> Self {
        ArtifactDisk {
            generation: Some(Vec::new()),
            digest: Some(Vec::new()),
            artifacts: Some(0),
            medium: Some("".to_owned()),
            total_bytes: Some(0),
            used_bytes: Some(0),
            usable_bytes: Some(0),
            state: Some("".to_owned()),
            problem: None,
            flush_micros: None,
            fetch_micros: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ArtifactCopy {
    pub generation: Option<Vec<u8>>,
    pub id: Option<Vec<u8>>,
    pub size: Option<i64>,
}

impl TSerializable for ArtifactCopy {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ArtifactCopy> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<u8>> = Some(Vec::new());
        let mut f_2: Option<Vec<u8>> = Some(Vec::new());
        let mut f_3: Option<i64> = None;
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
                    let val = i_prot.read_bytes()?;
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
        let ret = ArtifactCopy {
            generation: f_1,
            id: f_2,
            size: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ArtifactCopy");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.generation {
            o_prot.write_field_begin(&TFieldIdentifier::new("generation", TType::String, 1))?;
            o_prot.write_bytes(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.id {
            o_prot.write_field_begin(&TFieldIdentifier::new("id", TType::String, 2))?;
            o_prot.write_bytes(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.size {
            o_prot.write_field_begin(&TFieldIdentifier::new("size", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ArtifactCopy {
    fn default() -> Self {
        ArtifactCopy {
            generation: Some(Vec::new()),
            id: Some(Vec::new()),
            size: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ArtifactListing {
    pub generation: Option<Vec<u8>>,
    pub listing: Option<i64>,
    pub after: Option<Vec<u8>>,
    pub copies: Option<Vec<ArtifactCopy>>,
    pub is_last: Option<bool>,
}

impl TSerializable for ArtifactListing {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ArtifactListing> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<u8>> = Some(Vec::new());
        let mut f_2: Option<i64> = Some(0);
        let mut f_3: Option<Vec<u8>> = None;
        let mut f_4: Option<Vec<ArtifactCopy>> = Some(Vec::new());
        let mut f_5: Option<bool> = Some(false);
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
                3 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_bytes()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<ArtifactCopy> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_16 = ArtifactCopy::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_16);
                    }
                    i_prot.read_list_end()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_5 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = ArtifactListing {
            generation: f_1,
            listing: f_2,
            after: f_3,
            copies: f_4,
            is_last: f_5,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ArtifactListing");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.generation {
            o_prot.write_field_begin(&TFieldIdentifier::new("generation", TType::String, 1))?;
            o_prot.write_bytes(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.listing {
            o_prot.write_field_begin(&TFieldIdentifier::new("listing", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.after {
            o_prot.write_field_begin(&TFieldIdentifier::new("after", TType::String, 3))?;
            o_prot.write_bytes(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.copies {
            o_prot.write_field_begin(&TFieldIdentifier::new("copies", TType::List, 4))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.is_last {
            o_prot.write_field_begin(&TFieldIdentifier::new("isLast", TType::Bool, 5))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ArtifactListing {
    fn default() -> Self {
        ArtifactListing {
            generation: Some(Vec::new()),
            listing: Some(0),
            after: None,
            copies: Some(Vec::new()),
            is_last: Some(false),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct InputPeer {
    pub address: Option<common::ServiceAddress>,
    pub hostname: Option<String>,
    pub busy_answers: Option<i32>,
}

impl TSerializable for InputPeer {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<InputPeer> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<common::ServiceAddress> = None;
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<i32> = Some(0);
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
        let ret = InputPeer {
            address: f_1,
            hostname: f_2,
            busy_answers: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("InputPeer");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.address {
            o_prot.write_field_begin(&TFieldIdentifier::new("address", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.hostname {
            o_prot.write_field_begin(&TFieldIdentifier::new("hostname", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.busy_answers {
            o_prot.write_field_begin(&TFieldIdentifier::new("busyAnswers", TType::I32, 3))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for InputPeer {
    fn default() -> Self {
        InputPeer {
            address: None,
            hostname: Some("".to_owned()),
            busy_answers: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WaitingRun {
    pub job: Option<String>,
    pub node: Option<String>,
    pub invocation: Option<common::BistroInstanceID>,
    pub artifacts: Option<i32>,
    pub present: Option<i32>,
    pub missing_bytes: Option<i64>,
    pub peers: Option<Vec<InputPeer>>,
}

impl TSerializable for WaitingRun {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<WaitingRun> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<common::BistroInstanceID> = None;
        let mut f_4: Option<i32> = Some(0);
        let mut f_5: Option<i32> = Some(0);
        let mut f_6: Option<i64> = Some(0);
        let mut f_7: Option<Vec<InputPeer>> = Some(Vec::new());
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
                    let val = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
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
                7 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<InputPeer> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_17 = InputPeer::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_17);
                    }
                    i_prot.read_list_end()?;
                    f_7 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = WaitingRun {
            job: f_1,
            node: f_2,
            invocation: f_3,
            artifacts: f_4,
            present: f_5,
            missing_bytes: f_6,
            peers: f_7,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("WaitingRun");
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
        if let Some(ref fld_var) = self.invocation {
            o_prot.write_field_begin(&TFieldIdentifier::new("invocation", TType::Struct, 3))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.artifacts {
            o_prot.write_field_begin(&TFieldIdentifier::new("artifacts", TType::I32, 4))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.present {
            o_prot.write_field_begin(&TFieldIdentifier::new("present", TType::I32, 5))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.missing_bytes {
            o_prot.write_field_begin(&TFieldIdentifier::new("missingBytes", TType::I64, 6))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.peers {
            o_prot.write_field_begin(&TFieldIdentifier::new("peers", TType::List, 7))?;
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

impl Default for WaitingRun {
    fn default() -> Self {
        WaitingRun {
            job: Some("".to_owned()),
            node: Some("".to_owned()),
            invocation: None,
            artifacts: Some(0),
            present: Some(0),
            missing_bytes: Some(0),
            peers: Some(Vec::new()),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ArtifactCounters {
    pub transfers_taken: Option<i64>,
    pub transfers_served: Option<i64>,
    pub bytes_taken: Option<i64>,
    pub bytes_served: Option<i64>,
    pub busy_given: Option<i64>,
    pub busy_received: Option<i64>,
    pub inputs_present: Option<i64>,
    pub transfers_failed: Option<i64>,
}

impl TSerializable for ArtifactCounters {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ArtifactCounters> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i64> = Some(0);
        let mut f_2: Option<i64> = Some(0);
        let mut f_3: Option<i64> = Some(0);
        let mut f_4: Option<i64> = Some(0);
        let mut f_5: Option<i64> = Some(0);
        let mut f_6: Option<i64> = Some(0);
        let mut f_7: Option<i64> = Some(0);
        let mut f_8: Option<i64> = None;
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
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = ArtifactCounters {
            transfers_taken: f_1,
            transfers_served: f_2,
            bytes_taken: f_3,
            bytes_served: f_4,
            busy_given: f_5,
            busy_received: f_6,
            inputs_present: f_7,
            transfers_failed: f_8,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ArtifactCounters");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.transfers_taken {
            o_prot.write_field_begin(&TFieldIdentifier::new("transfersTaken", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.transfers_served {
            o_prot.write_field_begin(&TFieldIdentifier::new("transfersServed", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.bytes_taken {
            o_prot.write_field_begin(&TFieldIdentifier::new("bytesTaken", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.bytes_served {
            o_prot.write_field_begin(&TFieldIdentifier::new("bytesServed", TType::I64, 4))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.busy_given {
            o_prot.write_field_begin(&TFieldIdentifier::new("busyGiven", TType::I64, 5))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.busy_received {
            o_prot.write_field_begin(&TFieldIdentifier::new("busyReceived", TType::I64, 6))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.inputs_present {
            o_prot.write_field_begin(&TFieldIdentifier::new("inputsPresent", TType::I64, 7))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.transfers_failed {
            o_prot.write_field_begin(&TFieldIdentifier::new("transfersFailed", TType::I64, 8))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ArtifactCounters {
    fn default() -> Self {
        ArtifactCounters {
            transfers_taken: Some(0),
            transfers_served: Some(0),
            bytes_taken: Some(0),
            bytes_served: Some(0),
            busy_given: Some(0),
            busy_received: Some(0),
            inputs_present: Some(0),
            transfers_failed: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ArtifactsReport {
    pub shard: Option<String>,
    pub worker: Option<common::BistroInstanceID>,
    pub cluster: Option<String>,
    pub rack: Option<String>,
    pub disks: Option<Vec<ArtifactDisk>>,
    pub stored: Option<Vec<ArtifactCopy>>,
    pub gone: Option<Vec<ArtifactCopy>>,
    pub listings: Option<Vec<ArtifactListing>>,
    pub wanted: Option<Vec<Vec<u8>>>,
    pub waiting: Option<Vec<WaitingRun>>,
    pub counters: Option<ArtifactCounters>,
}

impl TSerializable for ArtifactsReport {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ArtifactsReport> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<common::BistroInstanceID> = None;
        let mut f_3: Option<String> = None;
        let mut f_4: Option<String> = None;
        let mut f_5: Option<Vec<ArtifactDisk>> = Some(Vec::new());
        let mut f_6: Option<Vec<ArtifactCopy>> = Some(Vec::new());
        let mut f_7: Option<Vec<ArtifactCopy>> = Some(Vec::new());
        let mut f_8: Option<Vec<ArtifactListing>> = Some(Vec::new());
        let mut f_9: Option<Vec<Vec<u8>>> = Some(Vec::new());
        let mut f_10: Option<Vec<WaitingRun>> = None;
        let mut f_11: Option<ArtifactCounters> = None;
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
                3 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<ArtifactDisk> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_18 = ArtifactDisk::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_18);
                    }
                    i_prot.read_list_end()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<ArtifactCopy> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_19 = ArtifactCopy::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_19);
                    }
                    i_prot.read_list_end()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<ArtifactCopy> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_20 = ArtifactCopy::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_20);
                    }
                    i_prot.read_list_end()?;
                    f_7 = Some(val);
                }
                8 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<ArtifactListing> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_21 = ArtifactListing::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_21);
                    }
                    i_prot.read_list_end()?;
                    f_8 = Some(val);
                }
                9 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<Vec<u8>> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_22 = i_prot.read_bytes()?;
                        val.push(list_elem_22);
                    }
                    i_prot.read_list_end()?;
                    f_9 = Some(val);
                }
                10 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<WaitingRun> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_23 = WaitingRun::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_23);
                    }
                    i_prot.read_list_end()?;
                    f_10 = Some(val);
                }
                11 if field_ident.field_type == TType::Struct => {
                    let val = ArtifactCounters::read_from_in_protocol(i_prot)?;
                    f_11 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = ArtifactsReport {
            shard: f_1,
            worker: f_2,
            cluster: f_3,
            rack: f_4,
            disks: f_5,
            stored: f_6,
            gone: f_7,
            listings: f_8,
            wanted: f_9,
            waiting: f_10,
            counters: f_11,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ArtifactsReport");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.shard {
            o_prot.write_field_begin(&TFieldIdentifier::new("shard", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.worker {
            o_prot.write_field_begin(&TFieldIdentifier::new("worker", TType::Struct, 2))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.cluster {
            o_prot.write_field_begin(&TFieldIdentifier::new("cluster", TType::String, 3))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.rack {
            o_prot.write_field_begin(&TFieldIdentifier::new("rack", TType::String, 4))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.disks {
            o_prot.write_field_begin(&TFieldIdentifier::new("disks", TType::List, 5))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.stored {
            o_prot.write_field_begin(&TFieldIdentifier::new("stored", TType::List, 6))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.gone {
            o_prot.write_field_begin(&TFieldIdentifier::new("gone", TType::List, 7))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.listings {
            o_prot.write_field_begin(&TFieldIdentifier::new("listings", TType::List, 8))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.wanted {
            o_prot.write_field_begin(&TFieldIdentifier::new("wanted", TType::List, 9))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_bytes(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.waiting {
            o_prot.write_field_begin(&TFieldIdentifier::new("waiting", TType::List, 10))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.counters {
            o_prot.write_field_begin(&TFieldIdentifier::new("counters", TType::Struct, 11))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ArtifactsReport {
    fn default() -> Self {
        ArtifactsReport {
            shard: Some("".to_owned()),
            worker: None,
            cluster: None,
            rack: None,
            disks: Some(Vec::new()),
            stored: Some(Vec::new()),
            gone: Some(Vec::new()),
            listings: Some(Vec::new()),
            wanted: Some(Vec::new()),
            waiting: None,
            counters: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ListingWanted {
    pub generation: Option<Vec<u8>>,
    pub listing: Option<i64>,
    pub after: Option<Vec<u8>>,
}

impl TSerializable for ListingWanted {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ListingWanted> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<u8>> = Some(Vec::new());
        let mut f_2: Option<i64> = Some(0);
        let mut f_3: Option<Vec<u8>> = None;
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
        let ret = ListingWanted {
            generation: f_1,
            listing: f_2,
            after: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ListingWanted");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.generation {
            o_prot.write_field_begin(&TFieldIdentifier::new("generation", TType::String, 1))?;
            o_prot.write_bytes(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.listing {
            o_prot.write_field_begin(&TFieldIdentifier::new("listing", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.after {
            o_prot.write_field_begin(&TFieldIdentifier::new("after", TType::String, 3))?;
            o_prot.write_bytes(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ListingWanted {
    fn default() -> Self {
        ListingWanted {
            generation: Some(Vec::new()),
            listing: Some(0),
            after: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ArtifactHolders {
    pub id: Option<Vec<u8>>,
    pub holders: Option<Vec<i32>>,
}

impl TSerializable for ArtifactHolders {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ArtifactHolders> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<u8>> = Some(Vec::new());
        let mut f_2: Option<Vec<i32>> = Some(Vec::new());
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
                2 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<i32> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_24 = i_prot.read_i32()?;
                        val.push(list_elem_24);
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
        let ret = ArtifactHolders {
            id: f_1,
            holders: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ArtifactHolders");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.id {
            o_prot.write_field_begin(&TFieldIdentifier::new("id", TType::String, 1))?;
            o_prot.write_bytes(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.holders {
            o_prot.write_field_begin(&TFieldIdentifier::new("holders", TType::List, 2))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::I32, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_i32(*e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ArtifactHolders {
    fn default() -> Self {
        ArtifactHolders {
            id: Some(Vec::new()),
            holders: Some(Vec::new()),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ArtifactReplica {
    pub artifact: Option<common::Artifact>,
    pub holders: Option<Vec<i32>>,
}

impl TSerializable for ArtifactReplica {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ArtifactReplica> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<common::Artifact> = None;
        let mut f_2: Option<Vec<i32>> = Some(Vec::new());
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = common::Artifact::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<i32> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_25 = i_prot.read_i32()?;
                        val.push(list_elem_25);
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
        let ret = ArtifactReplica {
            artifact: f_1,
            holders: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ArtifactReplica");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.artifact {
            o_prot.write_field_begin(&TFieldIdentifier::new("artifact", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.holders {
            o_prot.write_field_begin(&TFieldIdentifier::new("holders", TType::List, 2))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::I32, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_i32(*e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ArtifactReplica {
    fn default() -> Self {
        ArtifactReplica {
            artifact: None,
            holders: Some(Vec::new()),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ArtifactsAnswer {
    pub cluster: Option<String>,
    pub listings: Option<Vec<ListingWanted>>,
    pub unwanted: Option<Vec<ArtifactCopy>>,
    pub wanted: Option<Vec<ArtifactHolders>>,
    pub holders: Option<Vec<common::ArtifactHolder>>,
    pub replicate: Option<Vec<ArtifactReplica>>,
    pub lost: Option<Vec<Vec<u8>>>,
}

impl TSerializable for ArtifactsAnswer {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ArtifactsAnswer> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<Vec<ListingWanted>> = Some(Vec::new());
        let mut f_3: Option<Vec<ArtifactCopy>> = Some(Vec::new());
        let mut f_4: Option<Vec<ArtifactHolders>> = Some(Vec::new());
        let mut f_5: Option<Vec<common::ArtifactHolder>> = Some(Vec::new());
        let mut f_6: Option<Vec<ArtifactReplica>> = None;
        let mut f_7: Option<Vec<Vec<u8>>> = None;
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
                    let mut val: Vec<ListingWanted> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_26 = ListingWanted::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_26);
                    }
                    i_prot.read_list_end()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<ArtifactCopy> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_27 = ArtifactCopy::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_27);
                    }
                    i_prot.read_list_end()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<ArtifactHolders> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_28 = ArtifactHolders::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_28);
                    }
                    i_prot.read_list_end()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<common::ArtifactHolder> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_29 = common::ArtifactHolder::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_29);
                    }
                    i_prot.read_list_end()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<ArtifactReplica> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_30 = ArtifactReplica::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_30);
                    }
                    i_prot.read_list_end()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<Vec<u8>> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_31 = i_prot.read_bytes()?;
                        val.push(list_elem_31);
                    }
                    i_prot.read_list_end()?;
                    f_7 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = ArtifactsAnswer {
            cluster: f_1,
            listings: f_2,
            unwanted: f_3,
            wanted: f_4,
            holders: f_5,
            replicate: f_6,
            lost: f_7,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ArtifactsAnswer");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.cluster {
            o_prot.write_field_begin(&TFieldIdentifier::new("cluster", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.listings {
            o_prot.write_field_begin(&TFieldIdentifier::new("listings", TType::List, 2))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.unwanted {
            o_prot.write_field_begin(&TFieldIdentifier::new("unwanted", TType::List, 3))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.wanted {
            o_prot.write_field_begin(&TFieldIdentifier::new("wanted", TType::List, 4))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.holders {
            o_prot.write_field_begin(&TFieldIdentifier::new("holders", TType::List, 5))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.replicate {
            o_prot.write_field_begin(&TFieldIdentifier::new("replicate", TType::List, 6))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.lost {
            o_prot.write_field_begin(&TFieldIdentifier::new("lost", TType::List, 7))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_bytes(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ArtifactsAnswer {
    fn default() -> Self {
        ArtifactsAnswer {
            cluster: Some("".to_owned()),
            listings: Some(Vec::new()),
            unwanted: Some(Vec::new()),
            wanted: Some(Vec::new()),
            holders: Some(Vec::new()),
            replicate: None,
            lost: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ArtifactSlotsRequest {
    pub artifacts: Option<i32>,
    pub replicas: Option<String>,
    pub except_shards: Option<Vec<String>>,
    pub most_workers: Option<i32>,
}

impl TSerializable for ArtifactSlotsRequest {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<ArtifactSlotsRequest> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i32> = Some(0);
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<Vec<String>> = Some(Vec::new());
        let mut f_4: Option<i32> = Some(0);
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
                3 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_32 = i_prot.read_string()?;
                        val.push(list_elem_32);
                    }
                    i_prot.read_list_end()?;
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
        let ret = ArtifactSlotsRequest {
            artifacts: f_1,
            replicas: f_2,
            except_shards: f_3,
            most_workers: f_4,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ArtifactSlotsRequest");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.artifacts {
            o_prot.write_field_begin(&TFieldIdentifier::new("artifacts", TType::I32, 1))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.replicas {
            o_prot.write_field_begin(&TFieldIdentifier::new("replicas", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.except_shards {
            o_prot.write_field_begin(&TFieldIdentifier::new("exceptShards", TType::List, 3))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.most_workers {
            o_prot.write_field_begin(&TFieldIdentifier::new("mostWorkers", TType::I32, 4))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ArtifactSlotsRequest {
    fn default() -> Self {
        ArtifactSlotsRequest {
            artifacts: Some(0),
            replicas: Some("".to_owned()),
            except_shards: Some(Vec::new()),
            most_workers: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ArtifactSlotsWorker {
    pub shard: Option<String>,
    pub place: Option<common::ArtifactHolder>,
    pub generations: Option<Vec<Vec<u8>>>,
}

impl TSerializable for ArtifactSlotsWorker {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<ArtifactSlotsWorker> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<common::ArtifactHolder> = None;
        let mut f_3: Option<Vec<Vec<u8>>> = Some(Vec::new());
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
                    let val = common::ArtifactHolder::read_from_in_protocol(i_prot)?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<Vec<u8>> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_33 = i_prot.read_bytes()?;
                        val.push(list_elem_33);
                    }
                    i_prot.read_list_end()?;
                    f_3 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = ArtifactSlotsWorker {
            shard: f_1,
            place: f_2,
            generations: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ArtifactSlotsWorker");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.shard {
            o_prot.write_field_begin(&TFieldIdentifier::new("shard", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.place {
            o_prot.write_field_begin(&TFieldIdentifier::new("place", TType::Struct, 2))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.generations {
            o_prot.write_field_begin(&TFieldIdentifier::new("generations", TType::List, 3))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_bytes(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ArtifactSlotsWorker {
    fn default() -> Self {
        ArtifactSlotsWorker {
            shard: Some("".to_owned()),
            place: None,
            generations: Some(Vec::new()),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ArtifactPlace {
    pub worker: Option<i32>,
    pub disk: Option<i32>,
}

impl TSerializable for ArtifactPlace {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ArtifactPlace> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i32> = Some(0);
        let mut f_2: Option<i32> = Some(0);
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
        let ret = ArtifactPlace {
            worker: f_1,
            disk: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ArtifactPlace");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.worker {
            o_prot.write_field_begin(&TFieldIdentifier::new("worker", TType::I32, 1))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.disk {
            o_prot.write_field_begin(&TFieldIdentifier::new("disk", TType::I32, 2))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ArtifactPlace {
    fn default() -> Self {
        ArtifactPlace {
            worker: Some(0),
            disk: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ArtifactSlot {
    pub primary: Option<ArtifactPlace>,
    pub replica: Option<ArtifactPlace>,
}

impl TSerializable for ArtifactSlot {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ArtifactSlot> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<ArtifactPlace> = None;
        let mut f_2: Option<ArtifactPlace> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = ArtifactPlace::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::Struct => {
                    let val = ArtifactPlace::read_from_in_protocol(i_prot)?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = ArtifactSlot {
            primary: f_1,
            replica: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ArtifactSlot");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.primary {
            o_prot.write_field_begin(&TFieldIdentifier::new("primary", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.replica {
            o_prot.write_field_begin(&TFieldIdentifier::new("replica", TType::Struct, 2))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ArtifactSlot {
    fn default() -> Self {
        ArtifactSlot {
            primary: None,
            replica: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ArtifactSlots {
    pub scheduler: Option<common::BistroInstanceID>,
    pub reservation: Option<i64>,
    pub reserved_sec: Option<OrderedFloat<f64>>,
    pub bytes_each: Option<i64>,
    pub workers: Option<Vec<ArtifactSlotsWorker>>,
    pub slots: Option<Vec<ArtifactSlot>>,
}

impl TSerializable for ArtifactSlots {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ArtifactSlots> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<common::BistroInstanceID> = None;
        let mut f_2: Option<i64> = Some(0);
        let mut f_3: Option<OrderedFloat<f64>> = Some(OrderedFloat::from(0.0));
        let mut f_4: Option<i64> = Some(0);
        let mut f_5: Option<Vec<ArtifactSlotsWorker>> = Some(Vec::new());
        let mut f_6: Option<Vec<ArtifactSlot>> = Some(Vec::new());
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
                3 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<ArtifactSlotsWorker> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_34 = ArtifactSlotsWorker::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_34);
                    }
                    i_prot.read_list_end()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<ArtifactSlot> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_35 = ArtifactSlot::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_35);
                    }
                    i_prot.read_list_end()?;
                    f_6 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = ArtifactSlots {
            scheduler: f_1,
            reservation: f_2,
            reserved_sec: f_3,
            bytes_each: f_4,
            workers: f_5,
            slots: f_6,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ArtifactSlots");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.scheduler {
            o_prot.write_field_begin(&TFieldIdentifier::new("scheduler", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.reservation {
            o_prot.write_field_begin(&TFieldIdentifier::new("reservation", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.reserved_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new("reservedSec", TType::Double, 3))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.bytes_each {
            o_prot.write_field_begin(&TFieldIdentifier::new("bytesEach", TType::I64, 4))?;
            o_prot.write_i64(fld_var)?;
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
        if let Some(ref fld_var) = self.slots {
            o_prot.write_field_begin(&TFieldIdentifier::new("slots", TType::List, 6))?;
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

impl Default for ArtifactSlots {
    fn default() -> Self {
        ArtifactSlots {
            scheduler: None,
            reservation: Some(0),
            reserved_sec: Some(OrderedFloat::from(0.0)),
            bytes_each: Some(0),
            workers: Some(Vec::new()),
            slots: Some(Vec::new()),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NoArtifactSlotsException {
    pub message: Option<String>,
}

impl TSerializable for NoArtifactSlotsException {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<NoArtifactSlotsException> {
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
        let ret = NoArtifactSlotsException { message: f_1 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("NoArtifactSlotsException");
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

impl Default for NoArtifactSlotsException {
    fn default() -> Self {
        NoArtifactSlotsException {
            message: Some("".to_owned()),
        }
    }
}

impl Error for NoArtifactSlotsException {}

impl From<NoArtifactSlotsException> for thrift::Error {
    fn from(e: NoArtifactSlotsException) -> Self {
        thrift::Error::User(Box::new(e))
    }
}

impl Display for NoArtifactSlotsException {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "remote service threw NoArtifactSlotsException")
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerGetJobsArgs {}

impl TSerializable for BistroSchedulerGetJobsArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerGetJobsArgs> {
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
        let ret = BistroSchedulerGetJobsArgs {};
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("getJobs_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerGetJobsResult {
    pub result_value: Option<Vec<BistroJobConfig>>,
}

impl TSerializable for BistroSchedulerGetJobsResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerGetJobsResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<Vec<BistroJobConfig>> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<BistroJobConfig> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_36 = BistroJobConfig::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_36);
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
        let ret = BistroSchedulerGetJobsResult { result_value: f_0 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroSchedulerGetJobsResult");
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
pub struct BistroSchedulerGetJobArgs {
    pub job_name: String,
}

impl TSerializable for BistroSchedulerGetJobArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerGetJobArgs> {
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
        verify_required_field_exists("BistroSchedulerGetJobArgs.job_name", &f_1)?;
        let ret = BistroSchedulerGetJobArgs {
            job_name: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("getJob_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("job_name", TType::String, 1))?;
        o_prot.write_string(&self.job_name)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerGetJobResult {
    pub result_value: Option<BistroJobConfig>,
}

impl TSerializable for BistroSchedulerGetJobResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerGetJobResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<BistroJobConfig> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = BistroJobConfig::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BistroSchedulerGetJobResult { result_value: f_0 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroSchedulerGetJobResult");
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
pub struct BistroSchedulerSaveJobArgs {
    pub job: BistroJobConfig,
}

impl TSerializable for BistroSchedulerSaveJobArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerSaveJobArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<BistroJobConfig> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = BistroJobConfig::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BistroSchedulerSaveJobArgs.job", &f_1)?;
        let ret = BistroSchedulerSaveJobArgs {
            job: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("saveJob_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("job", TType::Struct, 1))?;
        self.job.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerSaveJobResult {}

impl TSerializable for BistroSchedulerSaveJobResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerSaveJobResult> {
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
        let ret = BistroSchedulerSaveJobResult {};
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroSchedulerSaveJobResult");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerDeleteJobArgs {
    pub job_name: String,
}

impl TSerializable for BistroSchedulerDeleteJobArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerDeleteJobArgs> {
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
        verify_required_field_exists("BistroSchedulerDeleteJobArgs.job_name", &f_1)?;
        let ret = BistroSchedulerDeleteJobArgs {
            job_name: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("deleteJob_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("job_name", TType::String, 1))?;
        o_prot.write_string(&self.job_name)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerDeleteJobResult {
    pub ex: Option<BistroSchedulerUnknownJobException>,
}

impl TSerializable for BistroSchedulerDeleteJobResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerDeleteJobResult> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<BistroSchedulerUnknownJobException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = BistroSchedulerUnknownJobException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BistroSchedulerDeleteJobResult { ex: f_1 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroSchedulerDeleteJobResult");
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
pub struct BistroSchedulerGetLevelsArgs {}

impl TSerializable for BistroSchedulerGetLevelsArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerGetLevelsArgs> {
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
        let ret = BistroSchedulerGetLevelsArgs {};
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("getLevels_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerGetLevelsResult {
    pub result_value: Option<Vec<String>>,
}

impl TSerializable for BistroSchedulerGetLevelsResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerGetLevelsResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<Vec<String>> = None;
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
                        let list_elem_37 = i_prot.read_string()?;
                        val.push(list_elem_37);
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
        let ret = BistroSchedulerGetLevelsResult { result_value: f_0 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroSchedulerGetLevelsResult");
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
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerGetJobHistogramsArgs {
    pub jobs: Vec<String>,
    pub samples: i32,
}

impl TSerializable for BistroSchedulerGetJobHistogramsArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerGetJobHistogramsArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<String>> = None;
        let mut f_2: Option<i32> = None;
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
                        let list_elem_38 = i_prot.read_string()?;
                        val.push(list_elem_38);
                    }
                    i_prot.read_list_end()?;
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
        verify_required_field_exists("BistroSchedulerGetJobHistogramsArgs.jobs", &f_1)?;
        verify_required_field_exists("BistroSchedulerGetJobHistogramsArgs.samples", &f_2)?;
        let ret = BistroSchedulerGetJobHistogramsArgs {
            jobs: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            samples: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("getJobHistograms_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("jobs", TType::List, 1))?;
        o_prot.write_list_begin(&TListIdentifier::new(TType::String, self.jobs.len() as i32))?;
        for e in &self.jobs {
            o_prot.write_string(e)?;
        }
        o_prot.write_list_end()?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("samples", TType::I32, 2))?;
        o_prot.write_i32(self.samples)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerGetJobHistogramsResult {
    pub result_value: Option<Vec<BistroJobHistogram>>,
}

impl TSerializable for BistroSchedulerGetJobHistogramsResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerGetJobHistogramsResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<Vec<BistroJobHistogram>> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<BistroJobHistogram> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_39 = BistroJobHistogram::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_39);
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
        let ret = BistroSchedulerGetJobHistogramsResult { result_value: f_0 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroSchedulerGetJobHistogramsResult");
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
pub struct BistroSchedulerGetJobLogsByTimeArgs {
    pub logtype: String,
    pub job_id: String,
    pub node_id: String,
    pub time: i32,
    pub is_ascending: bool,
    pub regex_filter: String,
    pub invocation: Option<common::BistroInstanceID>,
}

impl TSerializable for BistroSchedulerGetJobLogsByTimeArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerGetJobLogsByTimeArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<String> = None;
        let mut f_3: Option<String> = None;
        let mut f_4: Option<i32> = None;
        let mut f_5: Option<bool> = None;
        let mut f_6: Option<String> = Some("".to_owned());
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
                2 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
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
        verify_required_field_exists("BistroSchedulerGetJobLogsByTimeArgs.logtype", &f_1)?;
        verify_required_field_exists("BistroSchedulerGetJobLogsByTimeArgs.job_id", &f_2)?;
        verify_required_field_exists("BistroSchedulerGetJobLogsByTimeArgs.node_id", &f_3)?;
        verify_required_field_exists("BistroSchedulerGetJobLogsByTimeArgs.time", &f_4)?;
        verify_required_field_exists("BistroSchedulerGetJobLogsByTimeArgs.is_ascending", &f_5)?;
        verify_required_field_exists("BistroSchedulerGetJobLogsByTimeArgs.regex_filter", &f_6)?;
        let ret = BistroSchedulerGetJobLogsByTimeArgs {
            logtype: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            job_id: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
            node_id: f_3
                .expect("auto-generated code should have checked for presence of required fields"),
            time: f_4
                .expect("auto-generated code should have checked for presence of required fields"),
            is_ascending: f_5
                .expect("auto-generated code should have checked for presence of required fields"),
            regex_filter: f_6
                .expect("auto-generated code should have checked for presence of required fields"),
            invocation: f_16,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("getJobLogsByTime_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("logtype", TType::String, 1))?;
        o_prot.write_string(&self.logtype)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("job_id", TType::String, 2))?;
        o_prot.write_string(&self.job_id)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("node_id", TType::String, 3))?;
        o_prot.write_string(&self.node_id)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("time", TType::I32, 4))?;
        o_prot.write_i32(self.time)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("is_ascending", TType::Bool, 5))?;
        o_prot.write_bool(self.is_ascending)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("regex_filter", TType::String, 6))?;
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
pub struct BistroSchedulerGetJobLogsByTimeResult {
    pub result_value: Option<common::LogLines>,
}

impl TSerializable for BistroSchedulerGetJobLogsByTimeResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerGetJobLogsByTimeResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<common::LogLines> = None;
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
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BistroSchedulerGetJobLogsByTimeResult { result_value: f_0 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroSchedulerGetJobLogsByTimeResult");
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
pub struct BistroSchedulerGetJobLogsByIDArgs {
    pub logtype: String,
    pub job_id: String,
    pub node_id: String,
    pub line_id: i64,
    pub is_ascending: bool,
    pub regex_filter: String,
    pub invocation: Option<common::BistroInstanceID>,
}

impl TSerializable for BistroSchedulerGetJobLogsByIDArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerGetJobLogsByIDArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<String> = None;
        let mut f_3: Option<String> = None;
        let mut f_4: Option<i64> = None;
        let mut f_5: Option<bool> = None;
        let mut f_6: Option<String> = None;
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
                5 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_6 = Some(val);
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
        verify_required_field_exists("BistroSchedulerGetJobLogsByIDArgs.logtype", &f_1)?;
        verify_required_field_exists("BistroSchedulerGetJobLogsByIDArgs.job_id", &f_2)?;
        verify_required_field_exists("BistroSchedulerGetJobLogsByIDArgs.node_id", &f_3)?;
        verify_required_field_exists("BistroSchedulerGetJobLogsByIDArgs.line_id", &f_4)?;
        verify_required_field_exists("BistroSchedulerGetJobLogsByIDArgs.is_ascending", &f_5)?;
        verify_required_field_exists("BistroSchedulerGetJobLogsByIDArgs.regex_filter", &f_6)?;
        let ret = BistroSchedulerGetJobLogsByIDArgs {
            logtype: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            job_id: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
            node_id: f_3
                .expect("auto-generated code should have checked for presence of required fields"),
            line_id: f_4
                .expect("auto-generated code should have checked for presence of required fields"),
            is_ascending: f_5
                .expect("auto-generated code should have checked for presence of required fields"),
            regex_filter: f_6
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
        o_prot.write_field_begin(&TFieldIdentifier::new("job_id", TType::String, 2))?;
        o_prot.write_string(&self.job_id)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("node_id", TType::String, 3))?;
        o_prot.write_string(&self.node_id)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("line_id", TType::I64, 4))?;
        o_prot.write_i64(self.line_id)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("is_ascending", TType::Bool, 5))?;
        o_prot.write_bool(self.is_ascending)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("regex_filter", TType::String, 6))?;
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
pub struct BistroSchedulerGetJobLogsByIDResult {
    pub result_value: Option<common::LogLines>,
}

impl TSerializable for BistroSchedulerGetJobLogsByIDResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerGetJobLogsByIDResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<common::LogLines> = None;
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
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BistroSchedulerGetJobLogsByIDResult { result_value: f_0 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroSchedulerGetJobLogsByIDResult");
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
pub struct BistroSchedulerForgiveJobArgs {
    pub job_name: String,
}

impl TSerializable for BistroSchedulerForgiveJobArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerForgiveJobArgs> {
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
        verify_required_field_exists("BistroSchedulerForgiveJobArgs.job_name", &f_1)?;
        let ret = BistroSchedulerForgiveJobArgs {
            job_name: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("forgiveJob_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("job_name", TType::String, 1))?;
        o_prot.write_string(&self.job_name)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerForgiveJobResult {}

impl TSerializable for BistroSchedulerForgiveJobResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerForgiveJobResult> {
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
        let ret = BistroSchedulerForgiveJobResult {};
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroSchedulerForgiveJobResult");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerRequestArtifactSlotsArgs {
    pub request: ArtifactSlotsRequest,
}

impl TSerializable for BistroSchedulerRequestArtifactSlotsArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerRequestArtifactSlotsArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<ArtifactSlotsRequest> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = ArtifactSlotsRequest::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BistroSchedulerRequestArtifactSlotsArgs.request", &f_1)?;
        let ret = BistroSchedulerRequestArtifactSlotsArgs {
            request: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("requestArtifactSlots_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("request", TType::Struct, 1))?;
        self.request.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerRequestArtifactSlotsResult {
    pub result_value: Option<ArtifactSlots>,
    pub ex: Option<NoArtifactSlotsException>,
}

impl TSerializable for BistroSchedulerRequestArtifactSlotsResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerRequestArtifactSlotsResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<ArtifactSlots> = None;
        let mut f_1: Option<NoArtifactSlotsException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = ArtifactSlots::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                1 if field_ident.field_type == TType::Struct => {
                    let val = NoArtifactSlotsException::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BistroSchedulerRequestArtifactSlotsResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroSchedulerRequestArtifactSlotsResult");
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
pub struct BistroSchedulerReleaseArtifactSlotsArgs {
    pub scheduler: common::BistroInstanceID,
    pub reservation: i64,
}

impl TSerializable for BistroSchedulerReleaseArtifactSlotsArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerReleaseArtifactSlotsArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<common::BistroInstanceID> = None;
        let mut f_2: Option<i64> = None;
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
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BistroSchedulerReleaseArtifactSlotsArgs.scheduler", &f_1)?;
        verify_required_field_exists("BistroSchedulerReleaseArtifactSlotsArgs.reservation", &f_2)?;
        let ret = BistroSchedulerReleaseArtifactSlotsArgs {
            scheduler: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            reservation: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("releaseArtifactSlots_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("scheduler", TType::Struct, 1))?;
        self.scheduler.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("reservation", TType::I64, 2))?;
        o_prot.write_i64(self.reservation)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerReleaseArtifactSlotsResult {
    pub result_value: Option<bool>,
}

impl TSerializable for BistroSchedulerReleaseArtifactSlotsResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerReleaseArtifactSlotsResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<bool> = None;
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
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BistroSchedulerReleaseArtifactSlotsResult { result_value: f_0 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroSchedulerReleaseArtifactSlotsResult");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.result_value {
            o_prot.write_field_begin(&TFieldIdentifier::new("result_value", TType::Bool, 0))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerUpdateStatusArgs {
    pub running_task: common::RunningTask,
    pub status: String,
    pub scheduler: common::BistroInstanceID,
    pub worker: common::BistroInstanceID,
}

impl TSerializable for BistroSchedulerUpdateStatusArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerUpdateStatusArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<common::RunningTask> = None;
        let mut f_2: Option<String> = None;
        let mut f_3: Option<common::BistroInstanceID> = None;
        let mut f_4: Option<common::BistroInstanceID> = None;
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
                3 if field_ident.field_type == TType::Struct => {
                    let val = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::Struct => {
                    let val = common::BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_4 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BistroSchedulerUpdateStatusArgs.running_task", &f_1)?;
        verify_required_field_exists("BistroSchedulerUpdateStatusArgs.status", &f_2)?;
        verify_required_field_exists("BistroSchedulerUpdateStatusArgs.scheduler", &f_3)?;
        verify_required_field_exists("BistroSchedulerUpdateStatusArgs.worker", &f_4)?;
        let ret = BistroSchedulerUpdateStatusArgs {
            running_task: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            status: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
            scheduler: f_3
                .expect("auto-generated code should have checked for presence of required fields"),
            worker: f_4
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("updateStatus_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("running_task", TType::Struct, 1))?;
        self.running_task.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("status", TType::String, 2))?;
        o_prot.write_string(&self.status)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("scheduler", TType::Struct, 3))?;
        self.scheduler.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("worker", TType::Struct, 4))?;
        self.worker.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerUpdateStatusResult {}

impl TSerializable for BistroSchedulerUpdateStatusResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerUpdateStatusResult> {
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
        let ret = BistroSchedulerUpdateStatusResult {};
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroSchedulerUpdateStatusResult");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerUpdateStatusBatchArgs {
    pub updates: Vec<StatusUpdate>,
}

impl TSerializable for BistroSchedulerUpdateStatusBatchArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerUpdateStatusBatchArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<StatusUpdate>> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<StatusUpdate> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_40 = StatusUpdate::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_40);
                    }
                    i_prot.read_list_end()?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BistroSchedulerUpdateStatusBatchArgs.updates", &f_1)?;
        let ret = BistroSchedulerUpdateStatusBatchArgs {
            updates: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("updateStatusBatch_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("updates", TType::List, 1))?;
        o_prot.write_list_begin(&TListIdentifier::new(
            TType::Struct,
            self.updates.len() as i32,
        ))?;
        for e in &self.updates {
            e.write_to_out_protocol(o_prot)?;
        }
        o_prot.write_list_end()?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerUpdateStatusBatchResult {
    pub result_value: Option<Vec<StatusResult>>,
}

impl TSerializable for BistroSchedulerUpdateStatusBatchResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerUpdateStatusBatchResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<Vec<StatusResult>> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<StatusResult> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_41 = StatusResult::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_41);
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
        let ret = BistroSchedulerUpdateStatusBatchResult { result_value: f_0 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroSchedulerUpdateStatusBatchResult");
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
pub struct BistroSchedulerProcessHeartbeatArgs {
    pub w: common::BistroWorker,
    pub worker_set_id: common::WorkerSetID,
}

impl TSerializable for BistroSchedulerProcessHeartbeatArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerProcessHeartbeatArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<common::BistroWorker> = None;
        let mut f_2: Option<common::WorkerSetID> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = common::BistroWorker::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::Struct => {
                    let val = common::WorkerSetID::read_from_in_protocol(i_prot)?;
                    f_2 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BistroSchedulerProcessHeartbeatArgs.w", &f_1)?;
        verify_required_field_exists("BistroSchedulerProcessHeartbeatArgs.worker_set_id", &f_2)?;
        let ret = BistroSchedulerProcessHeartbeatArgs {
            w: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            worker_set_id: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("processHeartbeat_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("w", TType::Struct, 1))?;
        self.w.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("workerSetID", TType::Struct, 2))?;
        self.worker_set_id.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerProcessHeartbeatResult {
    pub result_value: Option<common::SchedulerHeartbeatResponse>,
}

impl TSerializable for BistroSchedulerProcessHeartbeatResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerProcessHeartbeatResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<common::SchedulerHeartbeatResponse> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = common::SchedulerHeartbeatResponse::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BistroSchedulerProcessHeartbeatResult { result_value: f_0 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroSchedulerProcessHeartbeatResult");
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
pub struct BistroSchedulerReportArtifactsArgs {
    pub report: ArtifactsReport,
}

impl TSerializable for BistroSchedulerReportArtifactsArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerReportArtifactsArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<ArtifactsReport> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = ArtifactsReport::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BistroSchedulerReportArtifactsArgs.report", &f_1)?;
        let ret = BistroSchedulerReportArtifactsArgs {
            report: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("reportArtifacts_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("report", TType::Struct, 1))?;
        self.report.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerReportArtifactsResult {
    pub result_value: Option<ArtifactsAnswer>,
}

impl TSerializable for BistroSchedulerReportArtifactsResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerReportArtifactsResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<ArtifactsAnswer> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = ArtifactsAnswer::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BistroSchedulerReportArtifactsResult { result_value: f_0 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroSchedulerReportArtifactsResult");
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
pub struct BistroSchedulerFetchArtifactsArgs {
    pub cluster: String,
    pub ranges: Vec<worker::ArtifactRange>,
    pub most_bytes: i32,
    pub transfer: i64,
    pub hostname: String,
}

impl TSerializable for BistroSchedulerFetchArtifactsArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerFetchArtifactsArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<Vec<worker::ArtifactRange>> = None;
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
                    let mut val: Vec<worker::ArtifactRange> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_42 = worker::ArtifactRange::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_42);
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
        verify_required_field_exists("BistroSchedulerFetchArtifactsArgs.cluster", &f_1)?;
        verify_required_field_exists("BistroSchedulerFetchArtifactsArgs.ranges", &f_2)?;
        verify_required_field_exists("BistroSchedulerFetchArtifactsArgs.most_bytes", &f_3)?;
        verify_required_field_exists("BistroSchedulerFetchArtifactsArgs.transfer", &f_4)?;
        verify_required_field_exists("BistroSchedulerFetchArtifactsArgs.hostname", &f_5)?;
        let ret = BistroSchedulerFetchArtifactsArgs {
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
pub struct BistroSchedulerFetchArtifactsResult {
    pub result_value: Option<worker::ArtifactPieces>,
    pub ex: Option<worker::BistroWorkerException>,
}

impl TSerializable for BistroSchedulerFetchArtifactsResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerFetchArtifactsResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<worker::ArtifactPieces> = None;
        let mut f_1: Option<worker::BistroWorkerException> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = worker::ArtifactPieces::read_from_in_protocol(i_prot)?;
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
        let ret = BistroSchedulerFetchArtifactsResult {
            result_value: f_0,
            ex: f_1,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroSchedulerFetchArtifactsResult");
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
pub struct BistroSchedulerCheckArtifactArgs {
    pub cluster: String,
    pub id: Vec<u8>,
}

impl TSerializable for BistroSchedulerCheckArtifactArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerCheckArtifactArgs> {
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
        verify_required_field_exists("BistroSchedulerCheckArtifactArgs.cluster", &f_1)?;
        verify_required_field_exists("BistroSchedulerCheckArtifactArgs.id", &f_2)?;
        let ret = BistroSchedulerCheckArtifactArgs {
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
pub struct BistroSchedulerCheckArtifactResult {}

impl TSerializable for BistroSchedulerCheckArtifactResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerCheckArtifactResult> {
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
        let ret = BistroSchedulerCheckArtifactResult {};
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroSchedulerCheckArtifactResult");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerRequestWorkArgs {
    pub request: common::WorkRequest,
}

impl TSerializable for BistroSchedulerRequestWorkArgs {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerRequestWorkArgs> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<common::WorkRequest> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = common::WorkRequest::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BistroSchedulerRequestWorkArgs.request", &f_1)?;
        let ret = BistroSchedulerRequestWorkArgs {
            request: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("requestWork_args");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("request", TType::Struct, 1))?;
        self.request.write_to_out_protocol(o_prot)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroSchedulerRequestWorkResult {
    pub result_value: Option<common::WorkReply>,
}

impl TSerializable for BistroSchedulerRequestWorkResult {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<BistroSchedulerRequestWorkResult> {
        i_prot.read_struct_begin()?;
        let mut f_0: Option<common::WorkReply> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                0 if field_ident.field_type == TType::Struct => {
                    let val = common::WorkReply::read_from_in_protocol(i_prot)?;
                    f_0 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BistroSchedulerRequestWorkResult { result_value: f_0 };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroSchedulerRequestWorkResult");
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
