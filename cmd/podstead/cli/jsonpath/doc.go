// Package jsonpath prints parts of objects by kubectl's JSONPath templates.
//
// It owns the template language: text, fields, indexes and slices, wildcards,
// filters, recursive descent, unions, range. client-go's is not used: it
// brings text/template, which keeps every method of every type in the binary.
//
// It reads decoded JSON (maps, slices, strings, json.Number, bool, nil) and
// never changes it.
package jsonpath
