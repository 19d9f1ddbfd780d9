//! `NO_PROXY`, with the rules of Go's `golang.org/x/net/http/httpproxy`, which kubectl uses.
