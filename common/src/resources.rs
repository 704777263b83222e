//! Amounts: slots that tasks hold on nodes and workers, and what machines report of themselves.

use serde::{Deserialize, Serialize};

use crate::ids::NodeName;

/// Slots of one resource that a task holds on one node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ResourceAmount {
    pub name: String,
    pub amount: i32,
}

/// What a task holds on one node of its path, or on its worker (the node is then the shard).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeResources {
    pub node: NodeName,
    pub resources: Vec<ResourceAmount>,
}

/// One graphics card.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuInfo {
    pub name: String,
    pub pci_bus_id: String,
    /// What `CUDA_VISIBLE_DEVICES` calls it on its machine: its UUID, or else its index. Empty: nobody said.
    pub cuda_device: String,
    /// Total when usable, used when of a task; MiB.
    pub memory_mb: f64,
    /// 1.0 = available; fraction in use when of a task.
    pub compute: f64,
}

/// What a worker's machine offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsablePhysicalResources {
    pub ms_since_epoch: i64,
    /// 0 = unknown.
    pub cpu_cores: f64,
    /// MiB; 0 = unknown.
    pub memory_mb: f64,
    pub gpus: Vec<GpuInfo>,
}

/// What one task uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskPhysicalResources {
    pub ms_since_epoch: i64,
    /// Cumulative, in milliseconds.
    pub cpu_time_ms: Option<i64>,
    /// MiB.
    pub memory_mb: Option<f64>,
    /// The most so far, in MiB: as control groups count it, or else as far as it was seen.
    pub peak_memory_mb: Option<f64>,
    /// From and to disks, by its living processes.
    pub read_bytes: Option<u64>,
    pub written_bytes: Option<u64>,
    pub gpus: Vec<GpuInfo>,
}
