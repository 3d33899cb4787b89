// Package tracing owns spans: it records them, passes their context to other processes, and
// exports them to an OpenTelemetry collector (OTLP over gRPC).
//
// It reads nothing. It never blocks a caller, keeps a bounded number of spans, and does
// nothing while there are none. The SDK of OpenTelemetry would do more, at a cost of several
// megabytes of binary.
package tracing
