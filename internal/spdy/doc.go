// Package spdy makes SPDY/3.1 connections out of HTTP connections, in the way
// that kubectl, the kubelet and the container runtimes agree on: an upgrade
// that names the protocol spoken above it, then streams with headers.
//
// It owns the upgrade on both sides and the end of a connection: at once, or
// so that everything written still arrives. Frames and streams are those of
// k8s.io/streaming. It never dials and reads no request but the one it is
// given, and it knows nothing of what the streams carry.
package spdy
