//! What a snapshot tells of clusters and machines, joined, before anything is judged.

pub(crate) mod fleet;
pub(crate) mod machine;
pub(crate) mod objects;
pub(crate) mod planner;
pub(crate) mod reading;
pub(crate) mod triage;
