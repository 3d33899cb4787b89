package event

import "regexp"

// ids matches the hexadecimal IDs that runtimes generate.
var ids = regexp.MustCompile(`\b[0-9a-f]{12,}\b`)

// WithoutIDs returns the message with the IDs of sandboxes and containers replaced,
// so that two messages of the same kind are equal.
func WithoutIDs(message string) string { return ids.ReplaceAllLiteralString(message, "…") }
