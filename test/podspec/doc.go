// Package podspec generates docs/pod-spec.md, which lists how each field of a Pod
// is supported.
//
// It owns that page. It reads the table in manifest/validation and the names of
// the end-to-end tests, and never decides what is supported.
package podspec
