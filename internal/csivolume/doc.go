// Package csivolume describes volumes of CSI drivers as plain values: what a pod needs of them, for
// the code that publishes them. It is a leaf, and does nothing.
package csivolume
