//! Amounts of resources: slots that tasks hold on nodes and workers, and the sizes that machines report.

use serde::{Deserialize, Serialize};

use crate::ids::NodeName;

/// Slots of one resource that a task holds on one node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ResourceAmount {
    pub name: String,
    pub amount: i32,
}

/// The slots that a task holds on one node of its path, or on its worker (the node is then the shard).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeResources {
    pub node: NodeName,
    pub resources: Vec<ResourceAmount>,
}

/// One GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuInfo {
    pub name: String,
    pub pci_bus_id: String,
    /// The name of the GPU in `CUDA_VISIBLE_DEVICES`: its UUID, or else its index. Empty if unknown.
    pub cuda_device: String,
    /// MiB: the total of a machine's GPU, or the memory that a task uses.
    pub memory_mb: f64,
    /// 1.0 for a usable GPU of a machine; the fraction in use for a task.
    pub compute: f64,
}

/// The resources of a worker's machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsablePhysicalResources {
    pub ms_since_epoch: i64,
    /// 0 if unknown.
    pub cpu_cores: f64,
    /// MiB; 0 if unknown.
    pub memory_mb: f64,
    pub gpus: Vec<GpuInfo>,
}

/// The resources that one task uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskPhysicalResources {
    pub ms_since_epoch: i64,
    /// Cumulative, in milliseconds.
    pub cpu_time_ms: Option<i64>,
    /// MiB.
    pub memory_mb: Option<f64>,
    /// The peak so far in MiB, from control groups, or else from the samples.
    pub peak_memory_mb: Option<f64>,
    /// Bytes from and to disks, by the task's living processes.
    pub read_bytes: Option<u64>,
    pub written_bytes: Option<u64>,
    pub gpus: Vec<GpuInfo>,
}
