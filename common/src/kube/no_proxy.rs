//! `NO_PROXY`, with the rules of Go's `golang.org/x/net/http/httpproxy`, which kubectl uses.
//!
//! What is no rule is skipped, as there: an empty entry, a CIDR that is none. kube-rs would fail the whole configuration,
//! and would compare the list with the proxy's own address instead of the server's.

use std::net::IpAddr;

/// Whether the server at `host` (no brackets) and `port` is to be reached without the proxy of the environment.
///
/// `localhost` and loopback addresses always are.
pub(crate) fn bypasses(no_proxy: &str, host: &str, port: u16) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    no_proxy
        .split(',')
        .map(|entry| entry.trim().to_ascii_lowercase())
        .filter(|entry| !entry.is_empty())
        .any(|entry| entry_matches(&entry, &host, address, port))
}

fn entry_matches(entry: &str, host: &str, address: Option<IpAddr>, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let Some((network, bits)) = entry.split_once('/') {
        return matches!((network.parse(), bits.parse(), address), (Ok(network), Ok(bits), Some(address)) if in_network(address, network, bits));
    }
    let (pattern, only_port) = split_port(entry);
    if only_port.is_some_and(|only| only != port) {
        return false;
    }
    if let Ok(pattern) = pattern.parse::<IpAddr>() {
        return address == Some(pattern);
    }
    if address.is_some() || pattern.is_empty() {
        return false;
    }
    let pattern = pattern.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(pattern);
    match pattern.strip_prefix('.') {
        // ".example.com" and "*.example.com": names below it only.
        Some(_) => host.ends_with(pattern) && host.len() > pattern.len(),
        // "example.com": itself and names below it.
        None => host == pattern || host.strip_suffix(pattern).is_some_and(|rest| rest.ends_with('.')),
    }
}

/// `host:port` and `[v6]:port`; a bare IPv6 address has no port.
fn split_port(entry: &str) -> (&str, Option<u16>) {
    if let Some(rest) = entry.strip_prefix('[') {
        return match rest.split_once(']') {
            Some((host, tail)) => (host, tail.strip_prefix(':').and_then(|port| port.parse().ok())),
            None => (entry, None),
        };
    }
    match entry.split_once(':') {
        Some((host, port)) if !port.contains(':') => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (entry, None),
        },
        _ => (entry, None),
    }
}

fn in_network(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    let (address, network, width) = match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            (u128::from(u32::from(address)), u128::from(u32::from(network)), 32)
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => (u128::from(address), u128::from(network), 128),
        _ => return false,
    };
    if bits > width {
        return false;
    }
    // A shift by the whole width would overflow: /0 holds everything.
    bits == 0 || (address ^ network) >> (width - bits) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_go() {
        // (NO_PROXY, host, port, reached directly)
        let cases = [
            ("", "rancher.example.com", 443, false),
            ("", "localhost", 6443, true),
            ("", "127.0.0.1", 6443, true),
            ("", "127.9.9.9", 6443, true),
            ("", "::1", 6443, true),
            (",", "rancher.example.com", 443, false),
            ("example.com,", "rancher.example.com", 443, true),
            (" Example.COM ", "RANCHER.example.com.", 443, true),
            ("example.com", "example.com", 443, true),
            ("example.com", "badexample.com", 443, false),
            (".example.com", "example.com", 443, false),
            (".example.com", "a.b.example.com", 443, true),
            ("*.example.com", "example.com", 443, false),
            ("*.example.com", "a.example.com", 443, true),
            ("*", "10.0.0.1", 443, true),
            ("a,*", "10.0.0.1", 443, true),
            ("10.0.0.0/8", "10.1.2.3", 6443, true),
            ("10.0.0.0/8", "11.1.2.3", 6443, false),
            ("0.0.0.0/0", "11.1.2.3", 6443, true),
            ("10.0.0.0/33", "10.1.2.3", 6443, false),
            ("10.0.0.0/x", "10.1.2.3", 6443, false),
            ("10.0.0.0/8", "rancher.example.com", 443, false),
            ("10.1.2.3", "10.1.2.3", 6443, true),
            ("10.1.2.3:6443", "10.1.2.3", 6443, true),
            ("10.1.2.3:6443", "10.1.2.3", 443, false),
            ("10.1.2.3:", "10.1.2.3", 443, false),
            ("example.com:443", "rancher.example.com", 443, true),
            ("example.com:443", "rancher.example.com", 6443, false),
            ("fd00::/8", "fd00::1", 6443, true),
            ("fd00::1", "fd00::1", 6443, true),
            ("[fd00::1]:6443", "fd00::1", 6443, true),
            ("[fd00::1]:6443", "fd00::1", 443, false),
            ("2.3", "10.1.2.3", 443, false),
            (":443", "a", 443, false),
        ];
        for (list, host, port, want) in cases {
            assert_eq!(bypasses(list, host, port), want, "NO_PROXY={list:?} for {host}:{port}");
        }
    }
}
