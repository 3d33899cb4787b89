// Package output prints objects in the formats of the flag --output.
//
// It owns the formats: table, wide, json, yaml, name, jsonpath and custom-columns, with
// --sort-by, and how the changes of a watch are printed.
//
// It reads objects that were listed before. It never sends requests to the daemon.
package output
