//! The findings of `kubectl rancher-ghosts`, by code. Each has its page under `docs/findings/`.

use rancher_common::finding::Rule;
use rancher_common::rule;

rule!("../../..",
    /// The machine's agent has never checked in, and the time for it is over.
    NEVER_JOINED, "RG101", "NeverJoined", Error);
rule!("../../..",
    /// The Node the machine refers to does not exist any more.
    NODE_VANISHED, "RG102", "NodeVanished", Error);
rule!("../../..",
    /// A deletion stands still at one of Cluster API's steps.
    STUCK_DELETING, "RG103", "StuckDeleting", Error);
rule!("../../..",
    /// Two machines refer to one Node: a hostname was used again.
    NODE_CLAIMED_TWICE, "RG104", "NodeClaimedTwice", Error);
rule!("../../..",
    /// An infra machine whose Machine is gone.
    INFRA_ORPHAN, "RG105", "InfraOrphan", Error);
rule!("../../..",
    /// An RKEBootstrap or plan Secret whose Machine is gone.
    BOOTSTRAP_ORPHAN, "RG106", "BootstrapOrphan", Warning);
rule!("../../..",
    /// A Node of a provisioned cluster that no machine claims, or an agent whose plan Secret does not exist.
    NODE_WITHOUT_MACHINE, "RG107", "NodeWithoutMachine", Warning);
rule!("../../..",
    /// Rancher's copy of a Node that is gone.
    MANAGEMENT_NODE_ORPHAN, "RG108", "ManagementNodeOrphan", Warning);
rule!("../../..",
    /// One half of a cluster without the other, or a cluster that cannot be removed.
    GHOST_CLUSTER, "RG109", "GhostCluster", Error);
rule!("../../..",
    /// Objects in a namespace that does not exist any more.
    NAMESPACE_GONE, "RG110", "NamespaceGone", Error);
rule!("../../..",
    /// The plan is applied and Rancher has not noticed.
    RANCHER_BLIND, "RG201", "RancherBlind", Warning);
rule!("../../..",
    /// The agent tried the plan and failed.
    PLAN_FAILING, "RG202", "PlanFailing", Error);
rule!("../../..",
    /// The plan is newer than anything the agent wrote.
    AGENT_SILENT, "RG203", "AgentSilent", Warning);
rule!("../../..",
    /// The agent reports unhealthy probes.
    PROBES_FAILING, "RG204", "ProbesFailing", Warning);
rule!("../../..",
    /// A machine is still joined to the etcd machine that is being deleted.
    JOINED_TO_DELETING, "RG205", "JoinedToDeleting", Error);
rule!("../../..",
    /// Something is paused, or a restore is under way: nothing moves.
    PAUSED, "RG206", "Paused", Warning);
rule!("../../..",
    /// The planner says that the etcd plane was replaced.
    ETCD_PLANE_REPLACED, "RG207", "EtcdPlaneReplaced", Error);
rule!("../../..",
    /// Cluster API's controller or webhook is missing: everything around machines stands still.
    CAPI_DOWN, "RG208", "CapiDown", Error);
rule!("../../..",
    /// The cluster is disconnected: a vanished node and an unreachable one look the same.
    CANNOT_TELL_FROM_OUTAGE, "RG209", "CannotTellFromOutage", Unknown);
rule!("../../..",
    /// What waits for a machine.
    BLOCKS, "RG210", "Blocks", Warning);

/// All of them, by code.
pub static ALL: [&Rule; 20] = [
    &NEVER_JOINED,
    &NODE_VANISHED,
    &STUCK_DELETING,
    &NODE_CLAIMED_TWICE,
    &INFRA_ORPHAN,
    &BOOTSTRAP_ORPHAN,
    &NODE_WITHOUT_MACHINE,
    &MANAGEMENT_NODE_ORPHAN,
    &GHOST_CLUSTER,
    &NAMESPACE_GONE,
    &RANCHER_BLIND,
    &PLAN_FAILING,
    &AGENT_SILENT,
    &PROBES_FAILING,
    &JOINED_TO_DELETING,
    &PAUSED,
    &ETCD_PLANE_REPLACED,
    &CAPI_DOWN,
    &CANNOT_TELL_FROM_OUTAGE,
    &BLOCKS,
];
