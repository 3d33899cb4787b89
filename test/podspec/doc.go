// Package podspec writes docs/pod-spec.md, the verdict on each field of a Pod.
//
// It owns that page. It reads the table in manifest and the names of the
// end-to-end tests, and never decides about a field.
package podspec
