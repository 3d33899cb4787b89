// Package jsonpath evaluates kubectl's JSONPath templates.
//
// It owns the forms in which a path may be written on the command line, and what a path
// that finds nothing means. The template language is that of
// k8s.io/client-go/util/jsonpath.
//
// It reads decoded JSON (maps, slices, strings, numbers, booleans, nil) and never
// changes it.
package jsonpath
