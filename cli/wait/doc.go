// Package wait waits until objects meet a condition.
//
// It owns the conditions of podstead wait and restart --wait, the progress that is shown
// meanwhile, and the timeout.
//
// It reads objects by a watch, and manifest files to compute the revision to wait for.
// It never changes anything.
package wait
