package event

import "regexp"

// ids are the hexadecimal names that runtimes give to what they make.
var ids = regexp.MustCompile(`\b[0-9a-f]{12,}\b`)

// WithoutIDs is a message by which two of the same kind can be recognised: the
// IDs of sandboxes and containers in it are blotted out.
func WithoutIDs(message string) string { return ids.ReplaceAllLiteralString(message, "…") }
