// Package csivolume describes what a pod needs of a volume of a CSI driver.
//
// It owns these plain values, which the supervisor gives to the code that calls drivers. It reads
// nothing, and never does anything.
package csivolume
