// Package usage declares what the node, its pods, containers and volumes use, as
// plain data.
//
// It owns the types and the sums over them. It reads its arguments alone. It
// never measures: node/cgroup and node/stats fill the types in, the metrics and
// the summary API show them.
package usage
