// Package tracingtest owns a collector of traces for tests, which speaks OTLP over gRPC. It
// reads what clients export. Product code never imports it. test/oracle compares what it
// receives with the official messages.
package tracingtest
