//! Generated from `idl/common.thrift`: what schedulers and workers tell each other about.
// By thrift/regenerate; do not edit.

use std::collections::BTreeMap;
use thrift::OrderedFloat;
use thrift::protocol::{
    TFieldIdentifier, TInputProtocol, TListIdentifier, TMapIdentifier, TOutputProtocol,
    TSerializable, TStructIdentifier, TType, field_id, verify_required_field_exists,
};

#[derive(Copy, Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PhysicalResource(pub i32);

impl PhysicalResource {
    pub const RAM_MBYTES: PhysicalResource = PhysicalResource(1);
    pub const CPU_CORES: PhysicalResource = PhysicalResource(2);
    pub const GPU_CARDS: PhysicalResource = PhysicalResource(4);
    pub const ENUM_VALUES: &'static [Self] = &[Self::RAM_MBYTES, Self::CPU_CORES, Self::GPU_CARDS];
}

impl TSerializable for PhysicalResource {
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        o_prot.write_i32(self.0)
    }
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<PhysicalResource> {
        let enum_value = i_prot.read_i32()?;
        Ok(PhysicalResource::from(enum_value))
    }
}

impl From<i32> for PhysicalResource {
    fn from(i: i32) -> Self {
        match i {
            1 => PhysicalResource::RAM_MBYTES,
            2 => PhysicalResource::CPU_CORES,
            4 => PhysicalResource::GPU_CARDS,
            _ => PhysicalResource(i),
        }
    }
}

impl From<&i32> for PhysicalResource {
    fn from(i: &i32) -> Self {
        PhysicalResource::from(*i)
    }
}

impl From<PhysicalResource> for i32 {
    fn from(e: PhysicalResource) -> i32 {
        e.0
    }
}

impl From<&PhysicalResource> for i32 {
    fn from(e: &PhysicalResource) -> i32 {
        e.0
    }
}

#[derive(Copy, Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PhysicalResourceEnforcement(pub i32);

impl PhysicalResourceEnforcement {
    pub const NONE: PhysicalResourceEnforcement = PhysicalResourceEnforcement(1);
    pub const SOFT: PhysicalResourceEnforcement = PhysicalResourceEnforcement(2);
    pub const HARD: PhysicalResourceEnforcement = PhysicalResourceEnforcement(3);
    pub const ENUM_VALUES: &'static [Self] = &[Self::NONE, Self::SOFT, Self::HARD];
}

impl TSerializable for PhysicalResourceEnforcement {
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        o_prot.write_i32(self.0)
    }
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<PhysicalResourceEnforcement> {
        let enum_value = i_prot.read_i32()?;
        Ok(PhysicalResourceEnforcement::from(enum_value))
    }
}

impl From<i32> for PhysicalResourceEnforcement {
    fn from(i: i32) -> Self {
        match i {
            1 => PhysicalResourceEnforcement::NONE,
            2 => PhysicalResourceEnforcement::SOFT,
            3 => PhysicalResourceEnforcement::HARD,
            _ => PhysicalResourceEnforcement(i),
        }
    }
}

impl From<&i32> for PhysicalResourceEnforcement {
    fn from(i: &i32) -> Self {
        PhysicalResourceEnforcement::from(*i)
    }
}

impl From<PhysicalResourceEnforcement> for i32 {
    fn from(e: PhysicalResourceEnforcement) -> i32 {
        e.0
    }
}

impl From<&PhysicalResourceEnforcement> for i32 {
    fn from(e: &PhysicalResourceEnforcement) -> i32 {
        e.0
    }
}

#[derive(Copy, Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct KillMethod(pub i32);

impl KillMethod {
    pub const TERM_WAIT_KILL: KillMethod = KillMethod(1);
    pub const KILL: KillMethod = KillMethod(2);
    pub const TERM: KillMethod = KillMethod(3);
    pub const ENUM_VALUES: &'static [Self] = &[Self::TERM_WAIT_KILL, Self::KILL, Self::TERM];
}

impl TSerializable for KillMethod {
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        o_prot.write_i32(self.0)
    }
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<KillMethod> {
        let enum_value = i_prot.read_i32()?;
        Ok(KillMethod::from(enum_value))
    }
}

impl From<i32> for KillMethod {
    fn from(i: i32) -> Self {
        match i {
            1 => KillMethod::TERM_WAIT_KILL,
            2 => KillMethod::KILL,
            3 => KillMethod::TERM,
            _ => KillMethod(i),
        }
    }
}

impl From<&i32> for KillMethod {
    fn from(i: &i32) -> Self {
        KillMethod::from(*i)
    }
}

impl From<KillMethod> for i32 {
    fn from(e: KillMethod) -> i32 {
        e.0
    }
}

impl From<&KillMethod> for i32 {
    fn from(e: &KillMethod) -> i32 {
        e.0
    }
}

#[derive(Copy, Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WorkVerdict(pub i32);

impl WorkVerdict {
    pub const GRANTED: WorkVerdict = WorkVerdict(1);
    pub const NO_WORK: WorkVerdict = WorkVerdict(2);
    pub const LIMITED: WorkVerdict = WorkVerdict(3);
    pub const DEADLINE: WorkVerdict = WorkVerdict(4);
    pub const NO_APPS: WorkVerdict = WorkVerdict(5);
    pub const DEFERRED: WorkVerdict = WorkVerdict(6);
    pub const STALE: WorkVerdict = WorkVerdict(7);
    pub const PENDING: WorkVerdict = WorkVerdict(8);
    pub const ENUM_VALUES: &'static [Self] = &[
        Self::GRANTED,
        Self::NO_WORK,
        Self::LIMITED,
        Self::DEADLINE,
        Self::NO_APPS,
        Self::DEFERRED,
        Self::STALE,
        Self::PENDING,
    ];
}

impl TSerializable for WorkVerdict {
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        o_prot.write_i32(self.0)
    }
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<WorkVerdict> {
        let enum_value = i_prot.read_i32()?;
        Ok(WorkVerdict::from(enum_value))
    }
}

impl From<i32> for WorkVerdict {
    fn from(i: i32) -> Self {
        match i {
            1 => WorkVerdict::GRANTED,
            2 => WorkVerdict::NO_WORK,
            3 => WorkVerdict::LIMITED,
            4 => WorkVerdict::DEADLINE,
            5 => WorkVerdict::NO_APPS,
            6 => WorkVerdict::DEFERRED,
            7 => WorkVerdict::STALE,
            8 => WorkVerdict::PENDING,
            _ => WorkVerdict(i),
        }
    }
}

impl From<&i32> for WorkVerdict {
    fn from(i: &i32) -> Self {
        WorkVerdict::from(*i)
    }
}

impl From<WorkVerdict> for i32 {
    fn from(e: WorkVerdict) -> i32 {
        e.0
    }
}

impl From<&WorkVerdict> for i32 {
    fn from(e: &WorkVerdict) -> i32 {
        e.0
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct GPUInfo {
    pub name: Option<String>,
    pub pci_bus_id: Option<String>,
    pub memory_mb: Option<OrderedFloat<f64>>,
    pub compute: Option<OrderedFloat<f64>>,
    pub cuda_device: Option<String>,
}

impl TSerializable for GPUInfo {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<GPUInfo> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<OrderedFloat<f64>> = Some(OrderedFloat::from(0.0));
        let mut f_4: Option<OrderedFloat<f64>> = Some(OrderedFloat::from(0.0));
        let mut f_16: Option<String> = None;
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
                4 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_4 = Some(val);
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
        let ret = GPUInfo {
            name: f_1,
            pci_bus_id: f_2,
            memory_mb: f_3,
            compute: f_4,
            cuda_device: f_16,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("GPUInfo");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.name {
            o_prot.write_field_begin(&TFieldIdentifier::new("name", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.pci_bus_id {
            o_prot.write_field_begin(&TFieldIdentifier::new("pciBusID", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.memory_mb {
            o_prot.write_field_begin(&TFieldIdentifier::new("memoryMB", TType::Double, 3))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.compute {
            o_prot.write_field_begin(&TFieldIdentifier::new("compute", TType::Double, 4))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.cuda_device {
            o_prot.write_field_begin(&TFieldIdentifier::new("cudaDevice", TType::String, 16))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for GPUInfo {
    fn default() -> Self {
        GPUInfo {
            name: Some("".to_owned()),
            pci_bus_id: Some("".to_owned()),
            memory_mb: Some(OrderedFloat::from(0.0)),
            compute: Some(OrderedFloat::from(0.0)),
            cuda_device: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct GpuShare {
    pub device: String,
    pub milli: i32,
}

impl TSerializable for GpuShare {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<GpuShare> {
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
        verify_required_field_exists("GpuShare.device", &f_1)?;
        verify_required_field_exists("GpuShare.milli", &f_2)?;
        let ret = GpuShare {
            device: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            milli: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("GpuShare");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("device", TType::String, 1))?;
        o_prot.write_string(&self.device)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("milli", TType::I32, 2))?;
        o_prot.write_i32(self.milli)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct GpusWanted {
    pub of_models: Option<BTreeMap<String, i32>>,
    pub any_milli: Option<i32>,
    pub counts_as: Option<String>,
}

impl TSerializable for GpusWanted {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<GpusWanted> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<BTreeMap<String, i32>> = Some(BTreeMap::new());
        let mut f_2: Option<i32> = Some(0);
        let mut f_3: Option<String> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Map => {
                    let map_ident = i_prot.read_map_begin()?;
                    let mut val: BTreeMap<String, i32> = BTreeMap::new();
                    for _ in 0..map_ident.size {
                        let map_key_0 = i_prot.read_string()?;
                        let map_val_1 = i_prot.read_i32()?;
                        val.insert(map_key_0, map_val_1);
                    }
                    i_prot.read_map_end()?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
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
        let ret = GpusWanted {
            of_models: f_1,
            any_milli: f_2,
            counts_as: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("GpusWanted");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.of_models {
            o_prot.write_field_begin(&TFieldIdentifier::new("ofModels", TType::Map, 1))?;
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
        if let Some(fld_var) = self.any_milli {
            o_prot.write_field_begin(&TFieldIdentifier::new("anyMilli", TType::I32, 2))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.counts_as {
            o_prot.write_field_begin(&TFieldIdentifier::new("countsAs", TType::String, 3))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for GpusWanted {
    fn default() -> Self {
        GpusWanted {
            of_models: Some(BTreeMap::new()),
            any_milli: Some(0),
            counts_as: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct UsablePhysicalResources {
    pub ms_since_epoch: Option<i64>,
    pub cpu_cores: Option<OrderedFloat<f64>>,
    pub memory_mb: Option<OrderedFloat<f64>>,
    pub gpus: Option<Vec<GPUInfo>>,
}

impl TSerializable for UsablePhysicalResources {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<UsablePhysicalResources> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i64> = Some(0);
        let mut f_2: Option<OrderedFloat<f64>> = Some(OrderedFloat::from(0.0));
        let mut f_3: Option<OrderedFloat<f64>> = Some(OrderedFloat::from(0.0));
        let mut f_4: Option<Vec<GPUInfo>> = Some(Vec::new());
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
                2 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<GPUInfo> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_2 = GPUInfo::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_2);
                    }
                    i_prot.read_list_end()?;
                    f_4 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = UsablePhysicalResources {
            ms_since_epoch: f_1,
            cpu_cores: f_2,
            memory_mb: f_3,
            gpus: f_4,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("UsablePhysicalResources");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.ms_since_epoch {
            o_prot.write_field_begin(&TFieldIdentifier::new("msSinceEpoch", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.cpu_cores {
            o_prot.write_field_begin(&TFieldIdentifier::new("cpuCores", TType::Double, 2))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.memory_mb {
            o_prot.write_field_begin(&TFieldIdentifier::new("memoryMB", TType::Double, 3))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.gpus {
            o_prot.write_field_begin(&TFieldIdentifier::new("gpus", TType::List, 4))?;
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

impl Default for UsablePhysicalResources {
    fn default() -> Self {
        UsablePhysicalResources {
            ms_since_epoch: Some(0),
            cpu_cores: Some(OrderedFloat::from(0.0)),
            memory_mb: Some(OrderedFloat::from(0.0)),
            gpus: Some(Vec::new()),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TaskPhysicalResources {
    pub ms_since_epoch: Option<i64>,
    pub cpu_time_ms: Option<i64>,
    pub memory_mb: Option<OrderedFloat<f64>>,
    pub gpus: Option<Vec<GPUInfo>>,
    pub read_bytes: Option<i64>,
    pub written_bytes: Option<i64>,
    pub peak_memory_mb: Option<OrderedFloat<f64>>,
}

impl TSerializable for TaskPhysicalResources {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<TaskPhysicalResources> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i64> = Some(0);
        let mut f_2: Option<i64> = None;
        let mut f_3: Option<OrderedFloat<f64>> = None;
        let mut f_4: Option<Vec<GPUInfo>> = Some(Vec::new());
        let mut f_16: Option<i64> = None;
        let mut f_17: Option<i64> = None;
        let mut f_18: Option<OrderedFloat<f64>> = None;
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
                3 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<GPUInfo> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_3 = GPUInfo::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_3);
                    }
                    i_prot.read_list_end()?;
                    f_4 = Some(val);
                }
                16 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_16 = Some(val);
                }
                17 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_17 = Some(val);
                }
                18 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_18 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = TaskPhysicalResources {
            ms_since_epoch: f_1,
            cpu_time_ms: f_2,
            memory_mb: f_3,
            gpus: f_4,
            read_bytes: f_16,
            written_bytes: f_17,
            peak_memory_mb: f_18,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("TaskPhysicalResources");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.ms_since_epoch {
            o_prot.write_field_begin(&TFieldIdentifier::new("msSinceEpoch", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.cpu_time_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("cpuTimeMs", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.memory_mb {
            o_prot.write_field_begin(&TFieldIdentifier::new("memoryMB", TType::Double, 3))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.gpus {
            o_prot.write_field_begin(&TFieldIdentifier::new("gpus", TType::List, 4))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.read_bytes {
            o_prot.write_field_begin(&TFieldIdentifier::new("readBytes", TType::I64, 16))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.written_bytes {
            o_prot.write_field_begin(&TFieldIdentifier::new("writtenBytes", TType::I64, 17))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.peak_memory_mb {
            o_prot.write_field_begin(&TFieldIdentifier::new("peakMemoryMB", TType::Double, 18))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for TaskPhysicalResources {
    fn default() -> Self {
        TaskPhysicalResources {
            ms_since_epoch: Some(0),
            cpu_time_ms: None,
            memory_mb: None,
            gpus: Some(Vec::new()),
            read_bytes: None,
            written_bytes: None,
            peak_memory_mb: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BackoffDuration {
    pub no_more_backoffs: bool,
    pub seconds: i32,
    pub times: Option<i32>,
}

impl TSerializable for BackoffDuration {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<BackoffDuration> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<bool> = None;
        let mut f_2: Option<i32> = None;
        let mut f_16: Option<i32> = None;
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
                2 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_2 = Some(val);
                }
                16 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_16 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        verify_required_field_exists("BackoffDuration.no_more_backoffs", &f_1)?;
        verify_required_field_exists("BackoffDuration.seconds", &f_2)?;
        let ret = BackoffDuration {
            no_more_backoffs: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            seconds: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
            times: f_16,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BackoffDuration");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("noMoreBackoffs", TType::Bool, 1))?;
        o_prot.write_bool(self.no_more_backoffs)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("seconds", TType::I32, 2))?;
        o_prot.write_i32(self.seconds)?;
        o_prot.write_field_end()?;
        if let Some(fld_var) = self.times {
            o_prot.write_field_begin(&TFieldIdentifier::new("times", TType::I32, 16))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Resource {
    pub name: String,
    pub amount: i32,
}

impl TSerializable for Resource {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<Resource> {
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
        verify_required_field_exists("Resource.name", &f_1)?;
        verify_required_field_exists("Resource.amount", &f_2)?;
        let ret = Resource {
            name: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            amount: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("Resource");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("name", TType::String, 1))?;
        o_prot.write_string(&self.name)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("amount", TType::I32, 2))?;
        o_prot.write_i32(self.amount)?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NodeResources {
    pub node: String,
    pub resources: Vec<Resource>,
}

impl TSerializable for NodeResources {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<NodeResources> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = None;
        let mut f_2: Option<Vec<Resource>> = None;
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
                    let mut val: Vec<Resource> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_4 = Resource::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_4);
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
        verify_required_field_exists("NodeResources.node", &f_1)?;
        verify_required_field_exists("NodeResources.resources", &f_2)?;
        let ret = NodeResources {
            node: f_1
                .expect("auto-generated code should have checked for presence of required fields"),
            resources: f_2
                .expect("auto-generated code should have checked for presence of required fields"),
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("NodeResources");
        o_prot.write_struct_begin(&struct_ident)?;
        o_prot.write_field_begin(&TFieldIdentifier::new("node", TType::String, 1))?;
        o_prot.write_string(&self.node)?;
        o_prot.write_field_end()?;
        o_prot.write_field_begin(&TFieldIdentifier::new("resources", TType::List, 2))?;
        o_prot.write_list_begin(&TListIdentifier::new(
            TType::Struct,
            self.resources.len() as i32,
        ))?;
        for e in &self.resources {
            e.write_to_out_protocol(o_prot)?;
        }
        o_prot.write_list_end()?;
        o_prot.write_field_end()?;
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroInstanceID {
    pub start_time: Option<i64>,
    pub rand: Option<i64>,
}

impl TSerializable for BistroInstanceID {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<BistroInstanceID> {
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
        let ret = BistroInstanceID {
            start_time: f_1,
            rand: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroInstanceID");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.start_time {
            o_prot.write_field_begin(&TFieldIdentifier::new("startTime", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.rand {
            o_prot.write_field_begin(&TFieldIdentifier::new("rand", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for BistroInstanceID {
    fn default() -> Self {
        BistroInstanceID {
            start_time: Some(0),
            rand: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LogLine {
    pub job_id: Option<String>,
    pub node_id: Option<String>,
    pub time: Option<i32>,
    pub line: Option<String>,
    pub line_id: Option<i64>,
    pub time_ms: Option<i64>,
    pub invocation_id: Option<BistroInstanceID>,
    pub worker_shard: Option<String>,
    pub bytes: Option<Vec<u8>>,
    pub continued: Option<bool>,
}

impl TSerializable for LogLine {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<LogLine> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<i32> = Some(0);
        let mut f_4: Option<String> = Some("".to_owned());
        let mut f_5: Option<i64> = Some(0);
        let mut f_6: Option<i64> = None;
        let mut f_7: Option<BistroInstanceID> = None;
        let mut f_8: Option<String> = None;
        let mut f_9: Option<Vec<u8>> = None;
        let mut f_10: Option<bool> = None;
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
                7 if field_ident.field_type == TType::Struct => {
                    let val = BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_7 = Some(val);
                }
                8 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_8 = Some(val);
                }
                9 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_bytes()?;
                    f_9 = Some(val);
                }
                10 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_10 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = LogLine {
            job_id: f_1,
            node_id: f_2,
            time: f_3,
            line: f_4,
            line_id: f_5,
            time_ms: f_6,
            invocation_id: f_7,
            worker_shard: f_8,
            bytes: f_9,
            continued: f_10,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("LogLine");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.job_id {
            o_prot.write_field_begin(&TFieldIdentifier::new("jobID", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.node_id {
            o_prot.write_field_begin(&TFieldIdentifier::new("nodeID", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.time {
            o_prot.write_field_begin(&TFieldIdentifier::new("time", TType::I32, 3))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.line {
            o_prot.write_field_begin(&TFieldIdentifier::new("line", TType::String, 4))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.line_id {
            o_prot.write_field_begin(&TFieldIdentifier::new("lineID", TType::I64, 5))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.time_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("timeMs", TType::I64, 6))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.invocation_id {
            o_prot.write_field_begin(&TFieldIdentifier::new("invocationID", TType::Struct, 7))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.worker_shard {
            o_prot.write_field_begin(&TFieldIdentifier::new("workerShard", TType::String, 8))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.bytes {
            o_prot.write_field_begin(&TFieldIdentifier::new("bytes", TType::String, 9))?;
            o_prot.write_bytes(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.continued {
            o_prot.write_field_begin(&TFieldIdentifier::new("continued", TType::Bool, 10))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for LogLine {
    fn default() -> Self {
        LogLine {
            job_id: Some("".to_owned()),
            node_id: Some("".to_owned()),
            time: Some(0),
            line: Some("".to_owned()),
            line_id: Some(0),
            time_ms: None,
            invocation_id: None,
            worker_shard: None,
            bytes: None,
            continued: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LogLines {
    pub lines: Option<Vec<LogLine>>,
    pub next_line_id: Option<i64>,
}

impl TSerializable for LogLines {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<LogLines> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<LogLine>> = Some(Vec::new());
        let mut f_2: Option<i64> = Some(0);
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<LogLine> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_5 = LogLine::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_5);
                    }
                    i_prot.read_list_end()?;
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
        let ret = LogLines {
            lines: f_1,
            next_line_id: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("LogLines");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.lines {
            o_prot.write_field_begin(&TFieldIdentifier::new("lines", TType::List, 1))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.next_line_id {
            o_prot.write_field_begin(&TFieldIdentifier::new("nextLineID", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for LogLines {
    fn default() -> Self {
        LogLines {
            lines: Some(Vec::new()),
            next_line_id: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TaskStory {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub not_started: Option<String>,
    pub ended_by: Option<String>,
    pub fault: Option<String>,
    pub starting_ms: Option<i64>,
    pub ran_ms: Option<i64>,
    pub cpu_ms: Option<i64>,
    pub peak_memory_bytes: Option<i64>,
    pub last_lines: Option<Vec<String>>,
    pub read_bytes: Option<i64>,
    pub written_bytes: Option<i64>,
    pub waited_ms: Option<i64>,
}

impl TSerializable for TaskStory {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<TaskStory> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i32> = None;
        let mut f_2: Option<i32> = None;
        let mut f_3: Option<String> = None;
        let mut f_4: Option<String> = None;
        let mut f_5: Option<String> = None;
        let mut f_6: Option<i64> = Some(0);
        let mut f_7: Option<i64> = None;
        let mut f_8: Option<i64> = Some(0);
        let mut f_9: Option<i64> = None;
        let mut f_10: Option<Vec<String>> = Some(Vec::new());
        let mut f_11: Option<i64> = Some(0);
        let mut f_12: Option<i64> = Some(0);
        let mut f_13: Option<i64> = Some(0);
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
                3 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
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
                10 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_6 = i_prot.read_string()?;
                        val.push(list_elem_6);
                    }
                    i_prot.read_list_end()?;
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
                13 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_13 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = TaskStory {
            exit_code: f_1,
            signal: f_2,
            not_started: f_3,
            ended_by: f_4,
            fault: f_5,
            starting_ms: f_6,
            ran_ms: f_7,
            cpu_ms: f_8,
            peak_memory_bytes: f_9,
            last_lines: f_10,
            read_bytes: f_11,
            written_bytes: f_12,
            waited_ms: f_13,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("TaskStory");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.exit_code {
            o_prot.write_field_begin(&TFieldIdentifier::new("exitCode", TType::I32, 1))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.signal {
            o_prot.write_field_begin(&TFieldIdentifier::new("signal", TType::I32, 2))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.not_started {
            o_prot.write_field_begin(&TFieldIdentifier::new("notStarted", TType::String, 3))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.ended_by {
            o_prot.write_field_begin(&TFieldIdentifier::new("endedBy", TType::String, 4))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.fault {
            o_prot.write_field_begin(&TFieldIdentifier::new("fault", TType::String, 5))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.starting_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("startingMs", TType::I64, 6))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.ran_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("ranMs", TType::I64, 7))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.cpu_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("cpuMs", TType::I64, 8))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.peak_memory_bytes {
            o_prot.write_field_begin(&TFieldIdentifier::new("peakMemoryBytes", TType::I64, 9))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.last_lines {
            o_prot.write_field_begin(&TFieldIdentifier::new("lastLines", TType::List, 10))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.read_bytes {
            o_prot.write_field_begin(&TFieldIdentifier::new("readBytes", TType::I64, 11))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.written_bytes {
            o_prot.write_field_begin(&TFieldIdentifier::new("writtenBytes", TType::I64, 12))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.waited_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("waitedMs", TType::I64, 13))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for TaskStory {
    fn default() -> Self {
        TaskStory {
            exit_code: None,
            signal: None,
            not_started: None,
            ended_by: None,
            fault: None,
            starting_ms: Some(0),
            ran_ms: None,
            cpu_ms: Some(0),
            peak_memory_bytes: None,
            last_lines: Some(Vec::new()),
            read_bytes: Some(0),
            written_bytes: Some(0),
            waited_ms: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WorkDemand {
    pub processor: Option<String>,
    pub instances: Option<OrderedFloat<f64>>,
    pub req_instance_secs: Option<OrderedFloat<f64>>,
    pub req_instances: Option<OrderedFloat<f64>>,
    pub idle_instances: Option<OrderedFloat<f64>>,
    pub estimated_delay_sec: Option<OrderedFloat<f64>>,
    pub waiting_instances: Option<OrderedFloat<f64>>,
}

impl TSerializable for WorkDemand {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<WorkDemand> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<OrderedFloat<f64>> = Some(OrderedFloat::from(0.0));
        let mut f_3: Option<OrderedFloat<f64>> = Some(OrderedFloat::from(0.0));
        let mut f_4: Option<OrderedFloat<f64>> = Some(OrderedFloat::from(0.0));
        let mut f_5: Option<OrderedFloat<f64>> = Some(OrderedFloat::from(0.0));
        let mut f_6: Option<OrderedFloat<f64>> = Some(OrderedFloat::from(0.0));
        let mut f_7: Option<OrderedFloat<f64>> = None;
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
                5 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_7 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = WorkDemand {
            processor: f_1,
            instances: f_2,
            req_instance_secs: f_3,
            req_instances: f_4,
            idle_instances: f_5,
            estimated_delay_sec: f_6,
            waiting_instances: f_7,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("WorkDemand");
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
        if let Some(fld_var) = self.req_instance_secs {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "reqInstanceSecs",
                TType::Double,
                3,
            ))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.req_instances {
            o_prot.write_field_begin(&TFieldIdentifier::new("reqInstances", TType::Double, 4))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.idle_instances {
            o_prot.write_field_begin(&TFieldIdentifier::new("idleInstances", TType::Double, 5))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.estimated_delay_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "estimatedDelaySec",
                TType::Double,
                6,
            ))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.waiting_instances {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "waitingInstances",
                TType::Double,
                7,
            ))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for WorkDemand {
    fn default() -> Self {
        WorkDemand {
            processor: Some("".to_owned()),
            instances: Some(OrderedFloat::from(0.0)),
            req_instance_secs: Some(OrderedFloat::from(0.0)),
            req_instances: Some(OrderedFloat::from(0.0)),
            idle_instances: Some(OrderedFloat::from(0.0)),
            estimated_delay_sec: Some(OrderedFloat::from(0.0)),
            waiting_instances: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct KnownTask {
    pub invocation_id: Option<BistroInstanceID>,
    pub remaining_sec: Option<OrderedFloat<f64>>,
    pub deadline_sec: Option<OrderedFloat<f64>>,
}

impl TSerializable for KnownTask {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<KnownTask> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<BistroInstanceID> = None;
        let mut f_2: Option<OrderedFloat<f64>> = None;
        let mut f_3: Option<OrderedFloat<f64>> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = BistroInstanceID::read_from_in_protocol(i_prot)?;
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
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = KnownTask {
            invocation_id: f_1,
            remaining_sec: f_2,
            deadline_sec: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("KnownTask");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.invocation_id {
            o_prot.write_field_begin(&TFieldIdentifier::new("invocationID", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.remaining_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new("remainingSec", TType::Double, 2))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.deadline_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new("deadlineSec", TType::Double, 3))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for KnownTask {
    fn default() -> Self {
        KnownTask {
            invocation_id: None,
            remaining_sec: None,
            deadline_sec: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WorkRequest {
    pub worker: Option<BistroInstanceID>,
    pub scheduler: Option<BistroInstanceID>,
    pub seq: Option<i64>,
    pub demands: Option<Vec<WorkDemand>>,
    pub known: Option<Vec<KnownTask>>,
    pub linger_sec: Option<OrderedFloat<f64>>,
    pub chooses_cards: Option<bool>,
    pub low_water_sec: Option<OrderedFloat<f64>>,
}

impl TSerializable for WorkRequest {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<WorkRequest> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<BistroInstanceID> = None;
        let mut f_2: Option<BistroInstanceID> = None;
        let mut f_3: Option<i64> = Some(0);
        let mut f_4: Option<Vec<WorkDemand>> = Some(Vec::new());
        let mut f_5: Option<Vec<KnownTask>> = None;
        let mut f_6: Option<OrderedFloat<f64>> = Some(OrderedFloat::from(0.0));
        let mut f_7: Option<bool> = None;
        let mut f_8: Option<OrderedFloat<f64>> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::Struct => {
                    let val = BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<WorkDemand> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_7 = WorkDemand::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_7);
                    }
                    i_prot.read_list_end()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<KnownTask> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_8 = KnownTask::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_8);
                    }
                    i_prot.read_list_end()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_7 = Some(val);
                }
                8 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_8 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = WorkRequest {
            worker: f_1,
            scheduler: f_2,
            seq: f_3,
            demands: f_4,
            known: f_5,
            linger_sec: f_6,
            chooses_cards: f_7,
            low_water_sec: f_8,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("WorkRequest");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.worker {
            o_prot.write_field_begin(&TFieldIdentifier::new("worker", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.scheduler {
            o_prot.write_field_begin(&TFieldIdentifier::new("scheduler", TType::Struct, 2))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.seq {
            o_prot.write_field_begin(&TFieldIdentifier::new("seq", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.demands {
            o_prot.write_field_begin(&TFieldIdentifier::new("demands", TType::List, 4))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.known {
            o_prot.write_field_begin(&TFieldIdentifier::new("known", TType::List, 5))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.linger_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new("lingerSec", TType::Double, 6))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.chooses_cards {
            o_prot.write_field_begin(&TFieldIdentifier::new("choosesCards", TType::Bool, 7))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.low_water_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new("lowWaterSec", TType::Double, 8))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for WorkRequest {
    fn default() -> Self {
        WorkRequest {
            worker: None,
            scheduler: None,
            seq: Some(0),
            demands: Some(Vec::new()),
            known: None,
            linger_sec: Some(OrderedFloat::from(0.0)),
            chooses_cards: None,
            low_water_sec: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ProcessorVerdict {
    pub processor: Option<String>,
    pub verdict: Option<WorkVerdict>,
    pub granted: Option<i32>,
}

impl TSerializable for ProcessorVerdict {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ProcessorVerdict> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<WorkVerdict> = None;
        let mut f_3: Option<i32> = Some(0);
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
                    let val = WorkVerdict::read_from_in_protocol(i_prot)?;
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
        let ret = ProcessorVerdict {
            processor: f_1,
            verdict: f_2,
            granted: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ProcessorVerdict");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.processor {
            o_prot.write_field_begin(&TFieldIdentifier::new("processor", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.verdict {
            o_prot.write_field_begin(&TFieldIdentifier::new("verdict", TType::I32, 2))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.granted {
            o_prot.write_field_begin(&TFieldIdentifier::new("granted", TType::I32, 3))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ProcessorVerdict {
    fn default() -> Self {
        ProcessorVerdict {
            processor: Some("".to_owned()),
            verdict: None,
            granted: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WorkReply {
    pub seq: Option<i64>,
    pub verdicts: Option<Vec<ProcessorVerdict>>,
    pub request_delay_sec: Option<OrderedFloat<f64>>,
    pub no_apps: Option<Vec<String>>,
    pub next_contact_sec: Option<OrderedFloat<f64>>,
}

impl TSerializable for WorkReply {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<WorkReply> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i64> = Some(0);
        let mut f_2: Option<Vec<ProcessorVerdict>> = Some(Vec::new());
        let mut f_3: Option<OrderedFloat<f64>> = Some(OrderedFloat::from(0.0));
        let mut f_4: Option<Vec<String>> = Some(Vec::new());
        let mut f_5: Option<OrderedFloat<f64>> = Some(OrderedFloat::from(0.0));
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
                    let mut val: Vec<ProcessorVerdict> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_9 = ProcessorVerdict::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_9);
                    }
                    i_prot.read_list_end()?;
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
                        let list_elem_10 = i_prot.read_string()?;
                        val.push(list_elem_10);
                    }
                    i_prot.read_list_end()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_5 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = WorkReply {
            seq: f_1,
            verdicts: f_2,
            request_delay_sec: f_3,
            no_apps: f_4,
            next_contact_sec: f_5,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("WorkReply");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.seq {
            o_prot.write_field_begin(&TFieldIdentifier::new("seq", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.verdicts {
            o_prot.write_field_begin(&TFieldIdentifier::new("verdicts", TType::List, 2))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.request_delay_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "requestDelaySec",
                TType::Double,
                3,
            ))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.no_apps {
            o_prot.write_field_begin(&TFieldIdentifier::new("noApps", TType::List, 4))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.next_contact_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new("nextContactSec", TType::Double, 5))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for WorkReply {
    fn default() -> Self {
        WorkReply {
            seq: Some(0),
            verdicts: Some(Vec::new()),
            request_delay_sec: Some(OrderedFloat::from(0.0)),
            no_apps: Some(Vec::new()),
            next_contact_sec: Some(OrderedFloat::from(0.0)),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Artifact {
    pub id: Option<Vec<u8>>,
    pub size: Option<i64>,
    pub form: Option<String>,
}

impl TSerializable for Artifact {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<Artifact> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<Vec<u8>> = Some(Vec::new());
        let mut f_2: Option<i64> = Some(0);
        let mut f_3: Option<String> = Some("".to_owned());
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
        let ret = Artifact {
            id: f_1,
            size: f_2,
            form: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("Artifact");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.id {
            o_prot.write_field_begin(&TFieldIdentifier::new("id", TType::String, 1))?;
            o_prot.write_bytes(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.size {
            o_prot.write_field_begin(&TFieldIdentifier::new("size", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.form {
            o_prot.write_field_begin(&TFieldIdentifier::new("form", TType::String, 3))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for Artifact {
    fn default() -> Self {
        Artifact {
            id: Some(Vec::new()),
            size: Some(0),
            form: Some("".to_owned()),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TaskOutput {
    pub path: Option<String>,
    pub artifact: Option<Artifact>,
    pub generation: Option<Vec<u8>>,
}

impl TSerializable for TaskOutput {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<TaskOutput> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<Artifact> = None;
        let mut f_3: Option<Vec<u8>> = Some(Vec::new());
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
                    let val = Artifact::read_from_in_protocol(i_prot)?;
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
        let ret = TaskOutput {
            path: f_1,
            artifact: f_2,
            generation: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("TaskOutput");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.path {
            o_prot.write_field_begin(&TFieldIdentifier::new("path", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.artifact {
            o_prot.write_field_begin(&TFieldIdentifier::new("artifact", TType::Struct, 2))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.generation {
            o_prot.write_field_begin(&TFieldIdentifier::new("generation", TType::String, 3))?;
            o_prot.write_bytes(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for TaskOutput {
    fn default() -> Self {
        TaskOutput {
            path: Some("".to_owned()),
            artifact: None,
            generation: Some(Vec::new()),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RunningTask {
    pub job: Option<String>,
    pub node: Option<String>,
    pub node_resources: Option<Vec<NodeResources>>,
    pub worker_shard: Option<String>,
    pub invocation_id: Option<BistroInstanceID>,
    pub next_backoff_duration: Option<BackoffDuration>,
    pub physical_resources: Option<TaskPhysicalResources>,
    pub worker_suicide_task_kill_wait_ms: Option<i32>,
    pub est_duration_sec: Option<OrderedFloat<f64>>,
    pub deadline_sec: Option<i64>,
    pub usage: Option<BTreeMap<String, OrderedFloat<f64>>>,
    pub work_request_seq: Option<i64>,
    pub outputs: Option<Vec<TaskOutput>>,
    pub bufferable: Option<bool>,
    pub ended: Option<String>,
    pub story: Option<TaskStory>,
    pub gpus: Option<Vec<GpuShare>>,
    pub report: Option<String>,
    pub gpus_wanted: Option<GpusWanted>,
    pub fence: Option<i64>,
    pub worker_slots: Option<Vec<Resource>>,
}

impl TSerializable for RunningTask {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<RunningTask> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<Vec<NodeResources>> = Some(Vec::new());
        let mut f_4: Option<String> = Some("".to_owned());
        let mut f_5: Option<BistroInstanceID> = None;
        let mut f_6: Option<BackoffDuration> = None;
        let mut f_7: Option<TaskPhysicalResources> = None;
        let mut f_8: Option<i32> = Some(0);
        let mut f_9: Option<OrderedFloat<f64>> = None;
        let mut f_10: Option<i64> = None;
        let mut f_11: Option<BTreeMap<String, OrderedFloat<f64>>> = None;
        let mut f_12: Option<i64> = None;
        let mut f_14: Option<Vec<TaskOutput>> = None;
        let mut f_15: Option<bool> = None;
        let mut f_16: Option<String> = None;
        let mut f_17: Option<TaskStory> = None;
        let mut f_18: Option<Vec<GpuShare>> = None;
        let mut f_19: Option<String> = None;
        let mut f_20: Option<GpusWanted> = None;
        let mut f_21: Option<i64> = None;
        let mut f_22: Option<Vec<Resource>> = None;
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
                3 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<NodeResources> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_11 = NodeResources::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_11);
                    }
                    i_prot.read_list_end()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::Struct => {
                    let val = BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::Struct => {
                    let val = BackoffDuration::read_from_in_protocol(i_prot)?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::Struct => {
                    let val = TaskPhysicalResources::read_from_in_protocol(i_prot)?;
                    f_7 = Some(val);
                }
                8 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_8 = Some(val);
                }
                9 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_9 = Some(val);
                }
                10 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_10 = Some(val);
                }
                11 if field_ident.field_type == TType::Map => {
                    let map_ident = i_prot.read_map_begin()?;
                    let mut val: BTreeMap<String, OrderedFloat<f64>> = BTreeMap::new();
                    for _ in 0..map_ident.size {
                        let map_key_12 = i_prot.read_string()?;
                        let map_val_13 = OrderedFloat::from(i_prot.read_double()?);
                        val.insert(map_key_12, map_val_13);
                    }
                    i_prot.read_map_end()?;
                    f_11 = Some(val);
                }
                12 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_12 = Some(val);
                }
                14 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<TaskOutput> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_14 = TaskOutput::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_14);
                    }
                    i_prot.read_list_end()?;
                    f_14 = Some(val);
                }
                15 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_15 = Some(val);
                }
                16 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_16 = Some(val);
                }
                17 if field_ident.field_type == TType::Struct => {
                    let val = TaskStory::read_from_in_protocol(i_prot)?;
                    f_17 = Some(val);
                }
                18 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<GpuShare> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_15 = GpuShare::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_15);
                    }
                    i_prot.read_list_end()?;
                    f_18 = Some(val);
                }
                19 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_19 = Some(val);
                }
                20 if field_ident.field_type == TType::Struct => {
                    let val = GpusWanted::read_from_in_protocol(i_prot)?;
                    f_20 = Some(val);
                }
                21 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_21 = Some(val);
                }
                22 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<Resource> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_16 = Resource::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_16);
                    }
                    i_prot.read_list_end()?;
                    f_22 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = RunningTask {
            job: f_1,
            node: f_2,
            node_resources: f_3,
            worker_shard: f_4,
            invocation_id: f_5,
            next_backoff_duration: f_6,
            physical_resources: f_7,
            worker_suicide_task_kill_wait_ms: f_8,
            est_duration_sec: f_9,
            deadline_sec: f_10,
            usage: f_11,
            work_request_seq: f_12,
            outputs: f_14,
            bufferable: f_15,
            ended: f_16,
            story: f_17,
            gpus: f_18,
            report: f_19,
            gpus_wanted: f_20,
            fence: f_21,
            worker_slots: f_22,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("RunningTask");
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
        if let Some(ref fld_var) = self.node_resources {
            o_prot.write_field_begin(&TFieldIdentifier::new("nodeResources", TType::List, 3))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
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
        if let Some(ref fld_var) = self.next_backoff_duration {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "nextBackoffDuration",
                TType::Struct,
                6,
            ))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.physical_resources {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "physicalResources",
                TType::Struct,
                7,
            ))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.worker_suicide_task_kill_wait_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "workerSuicideTaskKillWaitMs",
                TType::I32,
                8,
            ))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.est_duration_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new("estDurationSec", TType::Double, 9))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.deadline_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new("deadlineSec", TType::I64, 10))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.usage {
            o_prot.write_field_begin(&TFieldIdentifier::new("usage", TType::Map, 11))?;
            o_prot.write_map_begin(&TMapIdentifier::new(
                TType::String,
                TType::Double,
                fld_var.len() as i32,
            ))?;
            for (k, v) in fld_var {
                o_prot.write_string(k)?;
                o_prot.write_double((*v).into())?;
            }
            o_prot.write_map_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.work_request_seq {
            o_prot.write_field_begin(&TFieldIdentifier::new("workRequestSeq", TType::I64, 12))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.outputs {
            o_prot.write_field_begin(&TFieldIdentifier::new("outputs", TType::List, 14))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.bufferable {
            o_prot.write_field_begin(&TFieldIdentifier::new("bufferable", TType::Bool, 15))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.ended {
            o_prot.write_field_begin(&TFieldIdentifier::new("ended", TType::String, 16))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.story {
            o_prot.write_field_begin(&TFieldIdentifier::new("story", TType::Struct, 17))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.gpus {
            o_prot.write_field_begin(&TFieldIdentifier::new("gpus", TType::List, 18))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.report {
            o_prot.write_field_begin(&TFieldIdentifier::new("report", TType::String, 19))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.gpus_wanted {
            o_prot.write_field_begin(&TFieldIdentifier::new("gpusWanted", TType::Struct, 20))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.fence {
            o_prot.write_field_begin(&TFieldIdentifier::new("fence", TType::I64, 21))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.worker_slots {
            o_prot.write_field_begin(&TFieldIdentifier::new("workerSlots", TType::List, 22))?;
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

impl Default for RunningTask {
    fn default() -> Self {
        RunningTask {
            job: Some("".to_owned()),
            node: Some("".to_owned()),
            node_resources: Some(Vec::new()),
            worker_shard: Some("".to_owned()),
            invocation_id: None,
            next_backoff_duration: None,
            physical_resources: None,
            worker_suicide_task_kill_wait_ms: Some(0),
            est_duration_sec: None,
            deadline_sec: None,
            usage: None,
            work_request_seq: None,
            outputs: None,
            bufferable: None,
            ended: None,
            story: None,
            gpus: None,
            report: None,
            gpus_wanted: None,
            fence: None,
            worker_slots: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct MachinePortLock {
    pub hostname: Option<String>,
    pub port: Option<i32>,
}

impl TSerializable for MachinePortLock {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<MachinePortLock> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<i32> = Some(0);
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
        let ret = MachinePortLock {
            hostname: f_1,
            port: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("MachinePortLock");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.hostname {
            o_prot.write_field_begin(&TFieldIdentifier::new("hostname", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.port {
            o_prot.write_field_begin(&TFieldIdentifier::new("port", TType::I32, 2))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for MachinePortLock {
    fn default() -> Self {
        MachinePortLock {
            hostname: Some("".to_owned()),
            port: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ServiceAddress {
    pub ip_or_host: Option<String>,
    pub port: Option<i32>,
}

impl TSerializable for ServiceAddress {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ServiceAddress> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<i32> = Some(0);
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
        let ret = ServiceAddress {
            ip_or_host: f_1,
            port: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ServiceAddress");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.ip_or_host {
            o_prot.write_field_begin(&TFieldIdentifier::new("ip_or_host", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.port {
            o_prot.write_field_begin(&TFieldIdentifier::new("port", TType::I32, 2))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ServiceAddress {
    fn default() -> Self {
        ServiceAddress {
            ip_or_host: Some("".to_owned()),
            port: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ArtifactHolder {
    pub address: Option<ServiceAddress>,
    pub hostname: Option<String>,
    pub rack: Option<String>,
}

impl TSerializable for ArtifactHolder {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ArtifactHolder> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<ServiceAddress> = None;
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<String> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = ServiceAddress::read_from_in_protocol(i_prot)?;
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
        let ret = ArtifactHolder {
            address: f_1,
            hostname: f_2,
            rack: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ArtifactHolder");
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
        if let Some(ref fld_var) = self.rack {
            o_prot.write_field_begin(&TFieldIdentifier::new("rack", TType::String, 3))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ArtifactHolder {
    fn default() -> Self {
        ArtifactHolder {
            address: None,
            hostname: Some("".to_owned()),
            rack: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TaskInput {
    pub path: Option<String>,
    pub artifact: Option<Artifact>,
    pub holders: Option<Vec<i32>>,
}

impl TSerializable for TaskInput {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<TaskInput> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<Artifact> = None;
        let mut f_3: Option<Vec<i32>> = Some(Vec::new());
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
                    let val = Artifact::read_from_in_protocol(i_prot)?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<i32> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_17 = i_prot.read_i32()?;
                        val.push(list_elem_17);
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
        let ret = TaskInput {
            path: f_1,
            artifact: f_2,
            holders: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("TaskInput");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.path {
            o_prot.write_field_begin(&TFieldIdentifier::new("path", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.artifact {
            o_prot.write_field_begin(&TFieldIdentifier::new("artifact", TType::Struct, 2))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.holders {
            o_prot.write_field_begin(&TFieldIdentifier::new("holders", TType::List, 3))?;
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

impl Default for TaskInput {
    fn default() -> Self {
        TaskInput {
            path: Some("".to_owned()),
            artifact: None,
            holders: Some(Vec::new()),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TaskArtifacts {
    pub cluster: Option<String>,
    pub inputs: Option<Vec<TaskInput>>,
    pub holders: Option<Vec<ArtifactHolder>>,
    pub outputs: Option<Vec<String>>,
}

impl TSerializable for TaskArtifacts {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<TaskArtifacts> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<Vec<TaskInput>> = Some(Vec::new());
        let mut f_3: Option<Vec<ArtifactHolder>> = Some(Vec::new());
        let mut f_4: Option<Vec<String>> = Some(Vec::new());
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
                    let mut val: Vec<TaskInput> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_18 = TaskInput::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_18);
                    }
                    i_prot.read_list_end()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<ArtifactHolder> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_19 = ArtifactHolder::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_19);
                    }
                    i_prot.read_list_end()?;
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
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = TaskArtifacts {
            cluster: f_1,
            inputs: f_2,
            holders: f_3,
            outputs: f_4,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("TaskArtifacts");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.cluster {
            o_prot.write_field_begin(&TFieldIdentifier::new("cluster", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.inputs {
            o_prot.write_field_begin(&TFieldIdentifier::new("inputs", TType::List, 2))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.holders {
            o_prot.write_field_begin(&TFieldIdentifier::new("holders", TType::List, 3))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.outputs {
            o_prot.write_field_begin(&TFieldIdentifier::new("outputs", TType::List, 4))?;
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

impl Default for TaskArtifacts {
    fn default() -> Self {
        TaskArtifacts {
            cluster: Some("".to_owned()),
            inputs: Some(Vec::new()),
            holders: Some(Vec::new()),
            outputs: Some(Vec::new()),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SetHash {
    pub add_all: Option<i64>,
    pub xor_all: Option<i64>,
}

impl TSerializable for SetHash {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<SetHash> {
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
        let ret = SetHash {
            add_all: f_1,
            xor_all: f_2,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("SetHash");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.add_all {
            o_prot.write_field_begin(&TFieldIdentifier::new("addAll", TType::I64, 1))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.xor_all {
            o_prot.write_field_begin(&TFieldIdentifier::new("xorAll", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for SetHash {
    fn default() -> Self {
        SetHash {
            add_all: Some(0),
            xor_all: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WorkerSetHash {
    pub start_time: Option<SetHash>,
    pub rand: Option<SetHash>,
    pub num_workers: Option<i32>,
    pub digest: Option<Vec<u8>>,
}

impl TSerializable for WorkerSetHash {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<WorkerSetHash> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<SetHash> = None;
        let mut f_2: Option<SetHash> = None;
        let mut f_3: Option<i32> = Some(0);
        let mut f_4: Option<Vec<u8>> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = SetHash::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::Struct => {
                    let val = SetHash::read_from_in_protocol(i_prot)?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_bytes()?;
                    f_4 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = WorkerSetHash {
            start_time: f_1,
            rand: f_2,
            num_workers: f_3,
            digest: f_4,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("WorkerSetHash");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.start_time {
            o_prot.write_field_begin(&TFieldIdentifier::new("startTime", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.rand {
            o_prot.write_field_begin(&TFieldIdentifier::new("rand", TType::Struct, 2))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.num_workers {
            o_prot.write_field_begin(&TFieldIdentifier::new("numWorkers", TType::I32, 3))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.digest {
            o_prot.write_field_begin(&TFieldIdentifier::new("digest", TType::String, 4))?;
            o_prot.write_bytes(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for WorkerSetHash {
    fn default() -> Self {
        WorkerSetHash {
            start_time: None,
            rand: None,
            num_workers: Some(0),
            digest: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WorkerSetID {
    pub scheduler_id: Option<BistroInstanceID>,
    pub version: Option<i64>,
    pub hash: Option<WorkerSetHash>,
    pub settled: Option<bool>,
}

impl TSerializable for WorkerSetID {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<WorkerSetID> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<BistroInstanceID> = None;
        let mut f_2: Option<i64> = Some(0);
        let mut f_3: Option<WorkerSetHash> = None;
        let mut f_16: Option<bool> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Struct => {
                    let val = WorkerSetHash::read_from_in_protocol(i_prot)?;
                    f_3 = Some(val);
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
        let ret = WorkerSetID {
            scheduler_id: f_1,
            version: f_2,
            hash: f_3,
            settled: f_16,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("WorkerSetID");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.scheduler_id {
            o_prot.write_field_begin(&TFieldIdentifier::new("schedulerID", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.version {
            o_prot.write_field_begin(&TFieldIdentifier::new("version", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.hash {
            o_prot.write_field_begin(&TFieldIdentifier::new("hash", TType::Struct, 3))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.settled {
            o_prot.write_field_begin(&TFieldIdentifier::new("settled", TType::Bool, 16))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for WorkerSetID {
    fn default() -> Self {
        WorkerSetID {
            scheduler_id: None,
            version: Some(0),
            hash: None,
            settled: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BistroWorker {
    pub shard: Option<String>,
    pub machine_lock: Option<MachinePortLock>,
    pub addr: Option<ServiceAddress>,
    pub id: Option<BistroInstanceID>,
    pub heartbeat_period_sec: Option<i32>,
    pub protocol_version: Option<i16>,
    pub usable_resources: Option<UsablePhysicalResources>,
    pub work_request: Option<WorkRequest>,
    pub has_worker_command: Option<bool>,
    pub tasks_are_dead: Option<bool>,
    pub max_tasks: Option<i32>,
    pub limited_by: Option<String>,
    pub draining: Option<bool>,
    pub asks_for_work: Option<bool>,
    pub containment: Option<String>,
    pub log_folder: Option<String>,
    pub takes_standby: Option<bool>,
}

impl TSerializable for BistroWorker {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<BistroWorker> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<MachinePortLock> = None;
        let mut f_3: Option<ServiceAddress> = None;
        let mut f_4: Option<BistroInstanceID> = None;
        let mut f_5: Option<i32> = Some(0);
        let mut f_6: Option<i16> = Some(0);
        let mut f_7: Option<UsablePhysicalResources> = None;
        let mut f_8: Option<WorkRequest> = None;
        let mut f_16: Option<bool> = None;
        let mut f_17: Option<bool> = None;
        let mut f_18: Option<i32> = None;
        let mut f_19: Option<String> = None;
        let mut f_20: Option<bool> = None;
        let mut f_21: Option<bool> = None;
        let mut f_22: Option<String> = None;
        let mut f_23: Option<String> = None;
        let mut f_24: Option<bool> = None;
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
                    let val = MachinePortLock::read_from_in_protocol(i_prot)?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::Struct => {
                    let val = ServiceAddress::read_from_in_protocol(i_prot)?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::Struct => {
                    let val = BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::I16 => {
                    let val = i_prot.read_i16()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::Struct => {
                    let val = UsablePhysicalResources::read_from_in_protocol(i_prot)?;
                    f_7 = Some(val);
                }
                8 if field_ident.field_type == TType::Struct => {
                    let val = WorkRequest::read_from_in_protocol(i_prot)?;
                    f_8 = Some(val);
                }
                16 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_16 = Some(val);
                }
                17 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_17 = Some(val);
                }
                18 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_18 = Some(val);
                }
                19 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_19 = Some(val);
                }
                20 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_20 = Some(val);
                }
                21 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_21 = Some(val);
                }
                22 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_22 = Some(val);
                }
                23 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_23 = Some(val);
                }
                24 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_24 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = BistroWorker {
            shard: f_1,
            machine_lock: f_2,
            addr: f_3,
            id: f_4,
            heartbeat_period_sec: f_5,
            protocol_version: f_6,
            usable_resources: f_7,
            work_request: f_8,
            has_worker_command: f_16,
            tasks_are_dead: f_17,
            max_tasks: f_18,
            limited_by: f_19,
            draining: f_20,
            asks_for_work: f_21,
            containment: f_22,
            log_folder: f_23,
            takes_standby: f_24,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("BistroWorker");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.shard {
            o_prot.write_field_begin(&TFieldIdentifier::new("shard", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.machine_lock {
            o_prot.write_field_begin(&TFieldIdentifier::new("machineLock", TType::Struct, 2))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.addr {
            o_prot.write_field_begin(&TFieldIdentifier::new("addr", TType::Struct, 3))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.id {
            o_prot.write_field_begin(&TFieldIdentifier::new("id", TType::Struct, 4))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.heartbeat_period_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "heartbeatPeriodSec",
                TType::I32,
                5,
            ))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.protocol_version {
            o_prot.write_field_begin(&TFieldIdentifier::new("protocolVersion", TType::I16, 6))?;
            o_prot.write_i16(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.usable_resources {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "usableResources",
                TType::Struct,
                7,
            ))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.work_request {
            o_prot.write_field_begin(&TFieldIdentifier::new("workRequest", TType::Struct, 8))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.has_worker_command {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "hasWorkerCommand",
                TType::Bool,
                16,
            ))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.tasks_are_dead {
            o_prot.write_field_begin(&TFieldIdentifier::new("tasksAreDead", TType::Bool, 17))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.max_tasks {
            o_prot.write_field_begin(&TFieldIdentifier::new("maxTasks", TType::I32, 18))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.limited_by {
            o_prot.write_field_begin(&TFieldIdentifier::new("limitedBy", TType::String, 19))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.draining {
            o_prot.write_field_begin(&TFieldIdentifier::new("draining", TType::Bool, 20))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.asks_for_work {
            o_prot.write_field_begin(&TFieldIdentifier::new("asksForWork", TType::Bool, 21))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.containment {
            o_prot.write_field_begin(&TFieldIdentifier::new("containment", TType::String, 22))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.log_folder {
            o_prot.write_field_begin(&TFieldIdentifier::new("logFolder", TType::String, 23))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.takes_standby {
            o_prot.write_field_begin(&TFieldIdentifier::new("takesStandby", TType::Bool, 24))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for BistroWorker {
    fn default() -> Self {
        BistroWorker {
            shard: Some("".to_owned()),
            machine_lock: None,
            addr: None,
            id: None,
            heartbeat_period_sec: Some(0),
            protocol_version: Some(0),
            usable_resources: None,
            work_request: None,
            has_worker_command: None,
            tasks_are_dead: None,
            max_tasks: None,
            limited_by: None,
            draining: None,
            asks_for_work: None,
            containment: None,
            log_folder: None,
            takes_standby: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PhysicalResourceConfig {
    pub physical: Option<PhysicalResource>,
    pub logical: Option<String>,
    pub logical_resource_id: Option<i64>,
    pub multiply_logical_by: Option<OrderedFloat<f64>>,
    pub enforcement: Option<PhysicalResourceEnforcement>,
    pub physical_reserve_amount: Option<OrderedFloat<f64>>,
}

impl TSerializable for PhysicalResourceConfig {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<PhysicalResourceConfig> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<PhysicalResource> = None;
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<i64> = Some(0);
        let mut f_4: Option<OrderedFloat<f64>> = Some(OrderedFloat::from(1.0));
        let mut f_5: Option<PhysicalResourceEnforcement> = Some(PhysicalResourceEnforcement::NONE);
        let mut f_6: Option<OrderedFloat<f64>> = Some(OrderedFloat::from(0.0));
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::I32 => {
                    let val = PhysicalResource::read_from_in_protocol(i_prot)?;
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
                4 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::I32 => {
                    let val = PhysicalResourceEnforcement::read_from_in_protocol(i_prot)?;
                    f_5 = Some(val);
                }
                6 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_6 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = PhysicalResourceConfig {
            physical: f_1,
            logical: f_2,
            logical_resource_id: f_3,
            multiply_logical_by: f_4,
            enforcement: f_5,
            physical_reserve_amount: f_6,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("PhysicalResourceConfig");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.physical {
            o_prot.write_field_begin(&TFieldIdentifier::new("physical", TType::I32, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.logical {
            o_prot.write_field_begin(&TFieldIdentifier::new("logical", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.logical_resource_id {
            o_prot.write_field_begin(&TFieldIdentifier::new("logicalResourceID", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.multiply_logical_by {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "multiplyLogicalBy",
                TType::Double,
                4,
            ))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.enforcement {
            o_prot.write_field_begin(&TFieldIdentifier::new("enforcement", TType::I32, 5))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.physical_reserve_amount {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "physicalReserveAmount",
                TType::Double,
                6,
            ))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for PhysicalResourceConfig {
    fn default() -> Self {
        PhysicalResourceConfig {
            physical: None,
            logical: Some("".to_owned()),
            logical_resource_id: Some(0),
            multiply_logical_by: Some(OrderedFloat::from(1.0)),
            enforcement: Some(PhysicalResourceEnforcement::NONE),
            physical_reserve_amount: Some(OrderedFloat::from(0.0)),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CGroupOptions {
    pub root: Option<String>,
    pub slice: Option<String>,
    pub subsystems: Option<Vec<String>>,
    pub unit_test_create_files: Option<bool>,
    pub cpu_shares: Option<i16>,
    pub memory_limit_in_bytes: Option<i64>,
    pub kill_without_freezer: Option<bool>,
    pub pids_max: Option<i64>,
    pub cpu_quota_milli: Option<i64>,
}

impl TSerializable for CGroupOptions {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<CGroupOptions> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<String> = Some("".to_owned());
        let mut f_3: Option<Vec<String>> = Some(Vec::new());
        let mut f_4: Option<bool> = Some(false);
        let mut f_5: Option<i16> = Some(0);
        let mut f_6: Option<i64> = Some(0);
        let mut f_7: Option<bool> = Some(false);
        let mut f_16: Option<i64> = None;
        let mut f_17: Option<i64> = None;
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
                3 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<String> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_21 = i_prot.read_string()?;
                        val.push(list_elem_21);
                    }
                    i_prot.read_list_end()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_4 = Some(val);
                }
                5 if field_ident.field_type == TType::I16 => {
                    let val = i_prot.read_i16()?;
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
                16 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_16 = Some(val);
                }
                17 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_17 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = CGroupOptions {
            root: f_1,
            slice: f_2,
            subsystems: f_3,
            unit_test_create_files: f_4,
            cpu_shares: f_5,
            memory_limit_in_bytes: f_6,
            kill_without_freezer: f_7,
            pids_max: f_16,
            cpu_quota_milli: f_17,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("CGroupOptions");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.root {
            o_prot.write_field_begin(&TFieldIdentifier::new("root", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.slice {
            o_prot.write_field_begin(&TFieldIdentifier::new("slice", TType::String, 2))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.subsystems {
            o_prot.write_field_begin(&TFieldIdentifier::new("subsystems", TType::List, 3))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::String, fld_var.len() as i32))?;
            for e in fld_var {
                o_prot.write_string(e)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.unit_test_create_files {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "unitTestCreateFiles",
                TType::Bool,
                4,
            ))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.cpu_shares {
            o_prot.write_field_begin(&TFieldIdentifier::new("cpuShares", TType::I16, 5))?;
            o_prot.write_i16(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.memory_limit_in_bytes {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "memoryLimitInBytes",
                TType::I64,
                6,
            ))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.kill_without_freezer {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "killWithoutFreezer",
                TType::Bool,
                7,
            ))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.pids_max {
            o_prot.write_field_begin(&TFieldIdentifier::new("pidsMax", TType::I64, 16))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.cpu_quota_milli {
            o_prot.write_field_begin(&TFieldIdentifier::new("cpuQuotaMilli", TType::I64, 17))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for CGroupOptions {
    fn default() -> Self {
        CGroupOptions {
            root: Some("".to_owned()),
            slice: Some("".to_owned()),
            subsystems: Some(Vec::new()),
            unit_test_create_files: Some(false),
            cpu_shares: Some(0),
            memory_limit_in_bytes: Some(0),
            kill_without_freezer: Some(false),
            pids_max: None,
            cpu_quota_milli: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct KillRequest {
    pub method: Option<KillMethod>,
    pub kill_wait_ms: Option<i32>,
    pub reason: Option<String>,
}

impl TSerializable for KillRequest {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<KillRequest> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<KillMethod> = Some(KillMethod::TERM);
        let mut f_2: Option<i32> = Some(0);
        let mut f_3: Option<String> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::I32 => {
                    let val = KillMethod::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
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
        let ret = KillRequest {
            method: f_1,
            kill_wait_ms: f_2,
            reason: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("KillRequest");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.method {
            o_prot.write_field_begin(&TFieldIdentifier::new("method", TType::I32, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.kill_wait_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("killWaitMs", TType::I32, 2))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.reason {
            o_prot.write_field_begin(&TFieldIdentifier::new("reason", TType::String, 3))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for KillRequest {
    fn default() -> Self {
        KillRequest {
            method: Some(KillMethod::TERM),
            kill_wait_ms: Some(0),
            reason: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ResourceLimit {
    pub name: Option<String>,
    pub soft: Option<i64>,
    pub hard: Option<i64>,
}

impl TSerializable for ResourceLimit {
    fn read_from_in_protocol(i_prot: &mut dyn TInputProtocol) -> thrift::Result<ResourceLimit> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<String> = Some("".to_owned());
        let mut f_2: Option<i64> = Some(0);
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
        let ret = ResourceLimit {
            name: f_1,
            soft: f_2,
            hard: f_3,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("ResourceLimit");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.name {
            o_prot.write_field_begin(&TFieldIdentifier::new("name", TType::String, 1))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.soft {
            o_prot.write_field_begin(&TFieldIdentifier::new("soft", TType::I64, 2))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.hard {
            o_prot.write_field_begin(&TFieldIdentifier::new("hard", TType::I64, 3))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for ResourceLimit {
    fn default() -> Self {
        ResourceLimit {
            name: Some("".to_owned()),
            soft: Some(0),
            hard: Some(0),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TaskSubprocessOptions {
    pub poll_ms: Option<i32>,
    pub max_log_lines_per_poll_interval: Option<i32>,
    pub parent_death_signal: Option<i32>,
    pub process_group_leader: Option<bool>,
    pub use_canary_pipe: Option<bool>,
    pub refresh_resources_sec: Option<i32>,
    pub cgroup_options: Option<CGroupOptions>,
    pub timeout_sec: Option<OrderedFloat<f64>>,
    pub limits: Option<Vec<ResourceLimit>>,
    pub status_from: Option<String>,
    pub arguments: Option<String>,
    pub user: Option<String>,
    pub group: Option<String>,
    pub max_log_bytes_per_poll_interval: Option<i32>,
    pub log_overflow: Option<String>,
    pub output: Option<String>,
    pub kill_request: Option<KillRequest>,
    pub environment: Option<BTreeMap<String, String>>,
    pub working_directory: Option<String>,
    pub artifacts: Option<TaskArtifacts>,
}

impl TSerializable for TaskSubprocessOptions {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<TaskSubprocessOptions> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<i32> = Some(10);
        let mut f_2: Option<i32> = Some(50);
        let mut f_3: Option<i32> = Some(9);
        let mut f_4: Option<bool> = Some(false);
        let mut f_5: Option<bool> = Some(true);
        let mut f_6: Option<i32> = Some(2);
        let mut f_7: Option<CGroupOptions> = None;
        let mut f_8: Option<OrderedFloat<f64>> = None;
        let mut f_9: Option<Vec<ResourceLimit>> = None;
        let mut f_10: Option<String> = None;
        let mut f_11: Option<String> = None;
        let mut f_12: Option<String> = None;
        let mut f_13: Option<String> = None;
        let mut f_16: Option<i32> = None;
        let mut f_17: Option<String> = None;
        let mut f_18: Option<String> = None;
        let mut f_19: Option<KillRequest> = None;
        let mut f_20: Option<BTreeMap<String, String>> = None;
        let mut f_21: Option<String> = None;
        let mut f_22: Option<TaskArtifacts> = None;
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
                3 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_3 = Some(val);
                }
                4 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
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
                7 if field_ident.field_type == TType::Struct => {
                    let val = CGroupOptions::read_from_in_protocol(i_prot)?;
                    f_7 = Some(val);
                }
                8 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_8 = Some(val);
                }
                9 if field_ident.field_type == TType::List => {
                    let list_ident = i_prot.read_list_begin()?;
                    let mut val: Vec<ResourceLimit> = Vec::new();
                    for _ in 0..list_ident.size {
                        let list_elem_22 = ResourceLimit::read_from_in_protocol(i_prot)?;
                        val.push(list_elem_22);
                    }
                    i_prot.read_list_end()?;
                    f_9 = Some(val);
                }
                10 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_10 = Some(val);
                }
                11 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_11 = Some(val);
                }
                12 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_12 = Some(val);
                }
                13 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_13 = Some(val);
                }
                16 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_16 = Some(val);
                }
                17 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_17 = Some(val);
                }
                18 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_18 = Some(val);
                }
                19 if field_ident.field_type == TType::Struct => {
                    let val = KillRequest::read_from_in_protocol(i_prot)?;
                    f_19 = Some(val);
                }
                20 if field_ident.field_type == TType::Map => {
                    let map_ident = i_prot.read_map_begin()?;
                    let mut val: BTreeMap<String, String> = BTreeMap::new();
                    for _ in 0..map_ident.size {
                        let map_key_23 = i_prot.read_string()?;
                        let map_val_24 = i_prot.read_string()?;
                        val.insert(map_key_23, map_val_24);
                    }
                    i_prot.read_map_end()?;
                    f_20 = Some(val);
                }
                21 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_21 = Some(val);
                }
                22 if field_ident.field_type == TType::Struct => {
                    let val = TaskArtifacts::read_from_in_protocol(i_prot)?;
                    f_22 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = TaskSubprocessOptions {
            poll_ms: f_1,
            max_log_lines_per_poll_interval: f_2,
            parent_death_signal: f_3,
            process_group_leader: f_4,
            use_canary_pipe: f_5,
            refresh_resources_sec: f_6,
            cgroup_options: f_7,
            timeout_sec: f_8,
            limits: f_9,
            status_from: f_10,
            arguments: f_11,
            user: f_12,
            group: f_13,
            max_log_bytes_per_poll_interval: f_16,
            log_overflow: f_17,
            output: f_18,
            kill_request: f_19,
            environment: f_20,
            working_directory: f_21,
            artifacts: f_22,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("TaskSubprocessOptions");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(fld_var) = self.poll_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("pollMs", TType::I32, 1))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.max_log_lines_per_poll_interval {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "maxLogLinesPerPollInterval",
                TType::I32,
                2,
            ))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.parent_death_signal {
            o_prot.write_field_begin(&TFieldIdentifier::new("parentDeathSignal", TType::I32, 3))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.process_group_leader {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "processGroupLeader",
                TType::Bool,
                4,
            ))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.use_canary_pipe {
            o_prot.write_field_begin(&TFieldIdentifier::new("useCanaryPipe", TType::Bool, 5))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.refresh_resources_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "refreshResourcesSec",
                TType::I32,
                6,
            ))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.cgroup_options {
            o_prot.write_field_begin(&TFieldIdentifier::new("cgroupOptions", TType::Struct, 7))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.timeout_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new("timeoutSec", TType::Double, 8))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.limits {
            o_prot.write_field_begin(&TFieldIdentifier::new("limits", TType::List, 9))?;
            o_prot.write_list_begin(&TListIdentifier::new(TType::Struct, fld_var.len() as i32))?;
            for e in fld_var {
                e.write_to_out_protocol(o_prot)?;
            }
            o_prot.write_list_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.status_from {
            o_prot.write_field_begin(&TFieldIdentifier::new("statusFrom", TType::String, 10))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.arguments {
            o_prot.write_field_begin(&TFieldIdentifier::new("arguments", TType::String, 11))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.user {
            o_prot.write_field_begin(&TFieldIdentifier::new("user", TType::String, 12))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.group {
            o_prot.write_field_begin(&TFieldIdentifier::new("group", TType::String, 13))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.max_log_bytes_per_poll_interval {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "maxLogBytesPerPollInterval",
                TType::I32,
                16,
            ))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.log_overflow {
            o_prot.write_field_begin(&TFieldIdentifier::new("logOverflow", TType::String, 17))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.output {
            o_prot.write_field_begin(&TFieldIdentifier::new("output", TType::String, 18))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.kill_request {
            o_prot.write_field_begin(&TFieldIdentifier::new("killRequest", TType::Struct, 19))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.environment {
            o_prot.write_field_begin(&TFieldIdentifier::new("environment", TType::Map, 20))?;
            o_prot.write_map_begin(&TMapIdentifier::new(
                TType::String,
                TType::String,
                fld_var.len() as i32,
            ))?;
            for (k, v) in fld_var {
                o_prot.write_string(k)?;
                o_prot.write_string(v)?;
            }
            o_prot.write_map_end()?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.working_directory {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "workingDirectory",
                TType::String,
                21,
            ))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.artifacts {
            o_prot.write_field_begin(&TFieldIdentifier::new("artifacts", TType::Struct, 22))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for TaskSubprocessOptions {
    fn default() -> Self {
        TaskSubprocessOptions {
            poll_ms: Some(10),
            max_log_lines_per_poll_interval: Some(50),
            parent_death_signal: Some(9),
            process_group_leader: Some(false),
            use_canary_pipe: Some(true),
            refresh_resources_sec: Some(2),
            cgroup_options: None,
            timeout_sec: None,
            limits: None,
            status_from: None,
            arguments: None,
            user: None,
            group: None,
            max_log_bytes_per_poll_interval: None,
            log_overflow: None,
            output: None,
            kill_request: None,
            environment: None,
            working_directory: None,
            artifacts: None,
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SchedulerHeartbeatResponse {
    pub id: Option<BistroInstanceID>,
    pub max_healthcheck_gap: Option<i32>,
    pub heartbeat_grace_period: Option<i32>,
    pub lose_unhealthy_worker_after: Option<i32>,
    pub worker_check_interval: Option<i32>,
    pub worker_state: Option<i32>,
    pub protocol_version: Option<i16>,
    pub worker_set_id: Option<WorkerSetID>,
    pub work_verdict: Option<WorkReply>,
    pub request_delay_sec: Option<OrderedFloat<f64>>,
    pub not_healthy_for_ms: Option<i64>,
    pub why_must_die: Option<String>,
    pub uses_artifacts: Option<bool>,
}

impl TSerializable for SchedulerHeartbeatResponse {
    fn read_from_in_protocol(
        i_prot: &mut dyn TInputProtocol,
    ) -> thrift::Result<SchedulerHeartbeatResponse> {
        i_prot.read_struct_begin()?;
        let mut f_1: Option<BistroInstanceID> = None;
        let mut f_2: Option<i32> = Some(0);
        let mut f_3: Option<i32> = Some(0);
        let mut f_4: Option<i32> = Some(0);
        let mut f_5: Option<i32> = Some(0);
        let mut f_6: Option<i32> = Some(0);
        let mut f_7: Option<i16> = Some(0);
        let mut f_8: Option<WorkerSetID> = None;
        let mut f_9: Option<WorkReply> = None;
        let mut f_10: Option<OrderedFloat<f64>> = None;
        let mut f_16: Option<i64> = None;
        let mut f_17: Option<String> = None;
        let mut f_18: Option<bool> = None;
        loop {
            let field_ident = i_prot.read_field_begin()?;
            if field_ident.field_type == TType::Stop {
                break;
            }
            let field_id = field_id(&field_ident)?;
            match field_id {
                1 if field_ident.field_type == TType::Struct => {
                    let val = BistroInstanceID::read_from_in_protocol(i_prot)?;
                    f_1 = Some(val);
                }
                2 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_2 = Some(val);
                }
                3 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
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
                6 if field_ident.field_type == TType::I32 => {
                    let val = i_prot.read_i32()?;
                    f_6 = Some(val);
                }
                7 if field_ident.field_type == TType::I16 => {
                    let val = i_prot.read_i16()?;
                    f_7 = Some(val);
                }
                8 if field_ident.field_type == TType::Struct => {
                    let val = WorkerSetID::read_from_in_protocol(i_prot)?;
                    f_8 = Some(val);
                }
                9 if field_ident.field_type == TType::Struct => {
                    let val = WorkReply::read_from_in_protocol(i_prot)?;
                    f_9 = Some(val);
                }
                10 if field_ident.field_type == TType::Double => {
                    let val = OrderedFloat::from(i_prot.read_double()?);
                    f_10 = Some(val);
                }
                16 if field_ident.field_type == TType::I64 => {
                    let val = i_prot.read_i64()?;
                    f_16 = Some(val);
                }
                17 if field_ident.field_type == TType::String => {
                    let val = i_prot.read_string()?;
                    f_17 = Some(val);
                }
                18 if field_ident.field_type == TType::Bool => {
                    let val = i_prot.read_bool()?;
                    f_18 = Some(val);
                }
                _ => {
                    i_prot.skip(field_ident.field_type)?;
                }
            };
            i_prot.read_field_end()?;
        }
        i_prot.read_struct_end()?;
        let ret = SchedulerHeartbeatResponse {
            id: f_1,
            max_healthcheck_gap: f_2,
            heartbeat_grace_period: f_3,
            lose_unhealthy_worker_after: f_4,
            worker_check_interval: f_5,
            worker_state: f_6,
            protocol_version: f_7,
            worker_set_id: f_8,
            work_verdict: f_9,
            request_delay_sec: f_10,
            not_healthy_for_ms: f_16,
            why_must_die: f_17,
            uses_artifacts: f_18,
        };
        Ok(ret)
    }
    fn write_to_out_protocol(&self, o_prot: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let struct_ident = TStructIdentifier::new("SchedulerHeartbeatResponse");
        o_prot.write_struct_begin(&struct_ident)?;
        if let Some(ref fld_var) = self.id {
            o_prot.write_field_begin(&TFieldIdentifier::new("id", TType::Struct, 1))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.max_healthcheck_gap {
            o_prot.write_field_begin(&TFieldIdentifier::new("maxHealthcheckGap", TType::I32, 2))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.heartbeat_grace_period {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "heartbeatGracePeriod",
                TType::I32,
                3,
            ))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.lose_unhealthy_worker_after {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "loseUnhealthyWorkerAfter",
                TType::I32,
                4,
            ))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.worker_check_interval {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "workerCheckInterval",
                TType::I32,
                5,
            ))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.worker_state {
            o_prot.write_field_begin(&TFieldIdentifier::new("workerState", TType::I32, 6))?;
            o_prot.write_i32(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.protocol_version {
            o_prot.write_field_begin(&TFieldIdentifier::new("protocolVersion", TType::I16, 7))?;
            o_prot.write_i16(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.worker_set_id {
            o_prot.write_field_begin(&TFieldIdentifier::new("workerSetID", TType::Struct, 8))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.work_verdict {
            o_prot.write_field_begin(&TFieldIdentifier::new("workVerdict", TType::Struct, 9))?;
            fld_var.write_to_out_protocol(o_prot)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.request_delay_sec {
            o_prot.write_field_begin(&TFieldIdentifier::new(
                "requestDelaySec",
                TType::Double,
                10,
            ))?;
            o_prot.write_double(fld_var.into())?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.not_healthy_for_ms {
            o_prot.write_field_begin(&TFieldIdentifier::new("notHealthyForMs", TType::I64, 16))?;
            o_prot.write_i64(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(ref fld_var) = self.why_must_die {
            o_prot.write_field_begin(&TFieldIdentifier::new("whyMustDie", TType::String, 17))?;
            o_prot.write_string(fld_var)?;
            o_prot.write_field_end()?
        }
        if let Some(fld_var) = self.uses_artifacts {
            o_prot.write_field_begin(&TFieldIdentifier::new("usesArtifacts", TType::Bool, 18))?;
            o_prot.write_bool(fld_var)?;
            o_prot.write_field_end()?
        }
        o_prot.write_field_stop()?;
        o_prot.write_struct_end()
    }
}

impl Default for SchedulerHeartbeatResponse {
    fn default() -> Self {
        SchedulerHeartbeatResponse {
            id: None,
            max_healthcheck_gap: Some(0),
            heartbeat_grace_period: Some(0),
            lose_unhealthy_worker_after: Some(0),
            worker_check_interval: Some(0),
            worker_state: Some(0),
            protocol_version: Some(0),
            worker_set_id: None,
            work_verdict: None,
            request_delay_sec: None,
            not_healthy_for_ms: None,
            why_must_die: None,
            uses_artifacts: None,
        }
    }
}

pub const K_NOT_A_LINE_ID: i64 = -1;

pub const K_PROTOCOL_VERSION: i16 = 2;
