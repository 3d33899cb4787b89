// Package spdy turns HTTP connections into SPDY/3.1 connections, as kubectl, the kubelet
// and the container runtimes do: an upgrade request that names the protocol above SPDY,
// then streams with headers.
//
// It owns the upgrade on both sides and the closing of a connection, at once or after
// everything written has arrived, and the limits of what the other side can make it keep:
// the bytes of a connection, its streams and their headers, and the bytes of all
// connections with the same Budget. Of spdystream it uses the decoder of headers only. It
// reads only the request or connection that it is given. It never dials, and does not
// know what the streams carry.
package spdy
