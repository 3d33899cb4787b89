// Package summary shows stats in the form of the kubelet's /stats/summary.
//
// It owns the types of that form, whose JSON names are the kubelet's. It reads
// what package stats measured and the specs of the pods; it never measures.
package summary
