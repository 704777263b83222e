//! The resources that tasks use and machines report.

use thrift::OrderedFloat;

use std::collections::BTreeMap;

use brasserie_common::cards::{GpuShare, MAX_CARDS, MAX_MODELS, WHOLE_CARD};
use brasserie_common::resources::{
    GpuInfo, NodeResources, ResourceAmount, TaskPhysicalResources, UsablePhysicalResources,
};
use brasserie_common::{CardAmount, CardNeed, CardsWanted, NodeName};

use super::{
    FieldProblem, WireError, amount, not_negative, parse_list, parse_name, saturating_i64,
    to_wire_list,
};
use crate::generated::common as wire;

impl TryFrom<wire::Resource> for ResourceAmount {
    type Error = WireError;

    fn try_from(resource: wire::Resource) -> Result<Self, WireError> {
        not_negative("Resource.amount", resource.amount.into())?;
        let name: brasserie_common::NodeName = parse_name("Resource.name", resource.name)?;
        Ok(ResourceAmount {
            name: name.into(),
            amount: resource.amount,
        })
    }
}

impl From<ResourceAmount> for wire::Resource {
    fn from(resource: ResourceAmount) -> Self {
        wire::Resource {
            name: resource.name,
            amount: resource.amount,
        }
    }
}

impl TryFrom<wire::NodeResources> for NodeResources {
    type Error = WireError;

    fn try_from(held: wire::NodeResources) -> Result<Self, WireError> {
        Ok(NodeResources {
            node: parse_name("NodeResources.node", held.node)?,
            resources: parse_list("NodeResources.resources", held.resources)?,
        })
    }
}

impl From<NodeResources> for wire::NodeResources {
    fn from(held: NodeResources) -> Self {
        wire::NodeResources {
            node: held.node.into(),
            resources: to_wire_list(held.resources),
        }
    }
}

impl TryFrom<wire::GPUInfo> for GpuInfo {
    type Error = WireError;

    fn try_from(gpu: wire::GPUInfo) -> Result<Self, WireError> {
        Ok(GpuInfo {
            name: gpu.name.unwrap_or_default(),
            pci_bus_id: gpu.pci_bus_id.unwrap_or_default(),
            cuda_device: gpu.cuda_device.unwrap_or_default(),
            memory_mb: amount("GPUInfo.memoryMB", gpu.memory_mb)?,
            compute: amount("GPUInfo.compute", gpu.compute)?,
        })
    }
}

impl From<GpuInfo> for wire::GPUInfo {
    fn from(gpu: GpuInfo) -> Self {
        wire::GPUInfo {
            name: Some(gpu.name),
            pci_bus_id: Some(gpu.pci_bus_id),
            memory_mb: Some(OrderedFloat(gpu.memory_mb)),
            compute: Some(OrderedFloat(gpu.compute)),
            // Absent if unknown, as for peers that lack this field.
            cuda_device: Some(gpu.cuda_device).filter(|name| !name.is_empty()),
        }
    }
}

impl TryFrom<wire::GpuShare> for GpuShare {
    type Error = WireError;

    fn try_from(share: wire::GpuShare) -> Result<Self, WireError> {
        let device: NodeName = parse_name("GpuShare.device", share.device)?;
        let milli = u32::try_from(share.milli).unwrap_or(0);
        if !(1..=WHOLE_CARD).contains(&milli) {
            let problem = FieldProblem::OutOfRange {
                value: share.milli.into(),
                allowed: "1 to 1000",
            };
            return Err(WireError::new("GpuShare.milli", problem));
        }
        let device = device.as_str().into();
        Ok(GpuShare { device, milli })
    }
}

impl From<GpuShare> for wire::GpuShare {
    fn from(share: GpuShare) -> Self {
        wire::GpuShare {
            device: (*share.device).to_owned(),
            milli: super::saturating_i32(share.milli),
        }
    }
}

impl TryFrom<wire::GpusWanted> for CardsWanted {
    type Error = WireError;

    fn try_from(wanted: wire::GpusWanted) -> Result<Self, WireError> {
        let out_of_range = |path, value: i32, allowed| {
            let value = value.into();
            WireError::new(path, FieldProblem::OutOfRange { value, allowed })
        };
        let named = wanted.of_models.unwrap_or_default();
        if named.len() > MAX_MODELS {
            let (count, allowed) = (named.len(), MAX_MODELS);
            let problem = FieldProblem::TooMany { count, allowed };
            return Err(WireError::new("GpusWanted.ofModels", problem));
        }
        let mut of_models = BTreeMap::new();
        for (model, cards) in named {
            let model: NodeName = parse_name("GpusWanted.ofModels", model)?;
            let count = u32::try_from(cards).unwrap_or(0);
            if !(1..=MAX_CARDS).contains(&count) {
                return Err(out_of_range("GpusWanted.ofModels", cards, "1 to 10000"));
            }
            of_models.insert(model.into(), count);
        }
        let milli = wanted.any_milli.unwrap_or(0);
        let any = u32::try_from(milli).ok().map(|any| match any % WHOLE_CARD {
            0 => CardAmount::Whole(any / WHOLE_CARD),
            _ => CardAmount::Part(any),
        });
        let need = any.and_then(|any| CardNeed::of_parts(of_models, any));
        let allowed = "0 to 10000000, in whole thousands, or 1 to 999 without a model";
        let counts_as = wanted.counts_as.map(|model| {
            let model: NodeName = parse_name("GpusWanted.countsAs", model)?;
            Ok(model.as_str().into())
        });
        Ok(CardsWanted {
            need: need.ok_or_else(|| out_of_range("GpusWanted.anyMilli", milli, allowed))?,
            counts_as: counts_as.transpose()?,
        })
    }
}

impl From<CardsWanted> for wire::GpusWanted {
    fn from(wanted: CardsWanted) -> Self {
        let (of_models, any) = wanted.need.into_parts();
        let any = match any {
            CardAmount::Part(milli) => milli,
            CardAmount::Whole(cards) => cards.saturating_mul(WHOLE_CARD),
        };
        let of_models = of_models.into_iter();
        let of_models = of_models.map(|(model, cards)| (model, super::saturating_i32(cards)));
        wire::GpusWanted {
            of_models: Some(of_models.collect()),
            any_milli: Some(super::saturating_i32(any)),
            counts_as: wanted.counts_as.map(|model| (*model).to_owned()),
        }
    }
}

impl TryFrom<wire::UsablePhysicalResources> for UsablePhysicalResources {
    type Error = WireError;

    fn try_from(usable: wire::UsablePhysicalResources) -> Result<Self, WireError> {
        Ok(UsablePhysicalResources {
            ms_since_epoch: usable.ms_since_epoch.unwrap_or(0),
            cpu_cores: amount("UsablePhysicalResources.cpuCores", usable.cpu_cores)?,
            memory_mb: amount("UsablePhysicalResources.memoryMB", usable.memory_mb)?,
            gpus: parse_list(
                "UsablePhysicalResources.gpus",
                usable.gpus.unwrap_or_default(),
            )?,
        })
    }
}

impl From<UsablePhysicalResources> for wire::UsablePhysicalResources {
    fn from(usable: UsablePhysicalResources) -> Self {
        wire::UsablePhysicalResources {
            ms_since_epoch: Some(usable.ms_since_epoch),
            cpu_cores: Some(OrderedFloat(usable.cpu_cores)),
            memory_mb: Some(OrderedFloat(usable.memory_mb)),
            gpus: Some(to_wire_list(usable.gpus)),
        }
    }
}

impl TryFrom<wire::TaskPhysicalResources> for TaskPhysicalResources {
    type Error = WireError;

    fn try_from(used: wire::TaskPhysicalResources) -> Result<Self, WireError> {
        if let Some(cpu_time) = used.cpu_time_ms {
            not_negative("TaskPhysicalResources.cpuTimeMs", cpu_time)?;
        }
        Ok(TaskPhysicalResources {
            ms_since_epoch: used.ms_since_epoch.unwrap_or(0),
            cpu_time_ms: used.cpu_time_ms,
            memory_mb: used
                .memory_mb
                .map(|mb| amount("TaskPhysicalResources.memoryMB", Some(mb)))
                .transpose()?,
            peak_memory_mb: used
                .peak_memory_mb
                .map(|mb| amount("TaskPhysicalResources.peakMemoryMB", Some(mb)))
                .transpose()?,
            read_bytes: used
                .read_bytes
                .map(|bytes| not_negative("TaskPhysicalResources.readBytes", bytes))
                .transpose()?,
            written_bytes: used
                .written_bytes
                .map(|bytes| not_negative("TaskPhysicalResources.writtenBytes", bytes))
                .transpose()?,
            gpus: parse_list("TaskPhysicalResources.gpus", used.gpus.unwrap_or_default())?,
        })
    }
}

impl From<TaskPhysicalResources> for wire::TaskPhysicalResources {
    fn from(used: TaskPhysicalResources) -> Self {
        wire::TaskPhysicalResources {
            ms_since_epoch: Some(used.ms_since_epoch),
            cpu_time_ms: used.cpu_time_ms,
            memory_mb: used.memory_mb.map(OrderedFloat),
            peak_memory_mb: used.peak_memory_mb.map(OrderedFloat),
            gpus: Some(to_wire_list(used.gpus)),
            read_bytes: used.read_bytes.map(saturating_i64),
            written_bytes: used.written_bytes.map(saturating_i64),
        }
    }
}
