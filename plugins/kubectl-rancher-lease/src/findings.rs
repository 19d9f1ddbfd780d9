//! The findings of `kubectl rancher-lease`, by code. Each has its page under `docs/findings/`.

use rancher_common::finding::Rule;
use rancher_common::rule;

rule!("../../..",
    /// The holder is no Rancher replica, does not renew, and the candidates wait out the recorded duration.
    HOLDER_GONE, "RL101", "HolderGone", Error);
rule!("../../..",
    /// The holder's pod exists but does not renew.
    HOLDER_NOT_RENEWING, "RL102", "HolderNotRenewing", Error);
rule!("../../..",
    /// The Lease is missing or released, and stays so.
    LEASE_FREE, "RL103", "LeaseFree", Error);
rule!("../../..",
    /// Nobody is able to take the Lease: deleting it would change nothing.
    NOBODY_CAN_CONTEND, "RL104", "NobodyCanContend", Error);
rule!("../../..",
    /// Healthy, but an unclean restart would stall for the recorded duration.
    LONG_LEASE_DURATION, "RL105", "LongLeaseDuration", Warning);
rule!("../../..",
    /// Two running replicas have one identity, so that both believe they lead.
    SHARED_IDENTITY, "RL106", "SharedIdentity", Error);
rule!("../../..",
    /// Leaders lost the election and restarted.
    LEADER_FLAPPING, "RL107", "LeaderFlapping", Warning);
rule!("../../..",
    /// The leader renews, but its controllers have not started.
    ZOMBIE_LEADER, "RL108", "ZombieLeader", Error);
rule!("../../..",
    /// The holder has just gone and a candidate is about to take over.
    TAKEOVER_PENDING, "RL109", "TakeoverPending", Info);
rule!("../../..",
    /// The ConfigMap lock of old versions: in use, or left over.
    LEGACY_LOCK, "RL110", "LegacyLock", Info);
rule!("../../..",
    /// Something that is no replica of this Rancher holds and renews the Lease.
    FOREIGN_HOLDER, "RL111", "ForeignHolder", Error);
rule!("../../..",
    /// No Rancher pod is Ready.
    NO_READY_REPLICA, "RL120", "NoReadyReplica", Error);
rule!("../../..",
    /// Downstream clusters are not connected.
    CLUSTERS_DISCONNECTED, "RL130", "ClustersDisconnected", Warning);
rule!("../../..",
    /// Nobody updates the clusters' conditions.
    CONDITIONS_FROZEN, "RL131", "ConditionsFrozen", Warning);
rule!("../../..",
    /// Rancher rejects tunnels of agents.
    TUNNEL_REJECTED, "RL132", "TunnelRejected", Warning);
rule!("../../..",
    /// Another controller of Rancher does not renew its lease.
    OTHER_LEASE_STALE, "RL140", "OtherLeaseStale", Warning);

/// All of them, by code.
pub static ALL: [&Rule; 16] = [
    &HOLDER_GONE,
    &HOLDER_NOT_RENEWING,
    &LEASE_FREE,
    &NOBODY_CAN_CONTEND,
    &LONG_LEASE_DURATION,
    &SHARED_IDENTITY,
    &LEADER_FLAPPING,
    &ZOMBIE_LEADER,
    &TAKEOVER_PENDING,
    &LEGACY_LOCK,
    &FOREIGN_HOLDER,
    &NO_READY_REPLICA,
    &CLUSTERS_DISCONNECTED,
    &CONDITIONS_FROZEN,
    &TUNNEL_REJECTED,
    &OTHER_LEASE_STALE,
];
