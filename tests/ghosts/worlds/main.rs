//! `kubectl rancher-ghosts` on clusters that are built in memory, from which snapshots are taken in the way the plugin
//! asks for them: a catalogue of incidents and look-alikes, random clusters, questions of identity, and removals that are
//! watched. Some of the incidents are recorded in `tests/incidents`, for the built plugin (suite `cli`).

mod catalogue;
mod pages;
mod properties;
mod recorded;
mod verifier;
mod whois;
mod world;
