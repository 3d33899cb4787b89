// Package tree holds a YAML document as values that know their file and line.
//
// It owns the expansion of aliases and merge keys, with a bound on the number of values. It
// reads nodes that the package manifest has decoded and measured. It never interprets a value:
// scalars are the text of the document, so that yes and 0644 stay what their author wrote.
package tree
