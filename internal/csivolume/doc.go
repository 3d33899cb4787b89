// Package csivolume describes what a pod needs of a volume of a CSI driver, and what a node and a cluster know of
// drivers.
//
// It owns these plain values, which the supervisor gives to the code that calls drivers, and which this code and the
// cluster exchange. It reads nothing, and never does anything: a value has no function that its reader calls back.
package csivolume
