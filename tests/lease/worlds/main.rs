//! `kubectl rancher-lease` on clusters that are built in memory, from which snapshots are taken in the way the plugin
//! asks for them: a catalogue of incidents and look-alikes, random clusters, and repairs that are watched. The recorded
//! incidents with their files are beside it, in `tests/incidents`.

mod catalogue;
mod pages;
mod properties;
mod recorded;
mod verifier;
mod world;
