package edit

import (
	"bytes"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"
)

// toYAML returns a decoded value as YAML. JSON may have characters that a YAML text must not have as
// they are, such as DEL: in YAML they are escaped.
func toYAML(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	if bytes.ContainsFunc(text, isUnprintable) {
		var escaped bytes.Buffer
		for _, r := range string(text) {
			if isUnprintable(r) { // part of a string, as JSON has no such characters elsewhere
				fmt.Fprintf(&escaped, `\u%04x`, r)
			} else {
				escaped.WriteRune(r)
			}
		}
		text = escaped.Bytes()
	}
	return yaml.JSONToYAML(text)
}

// isUnprintable reports whether a YAML text must not have a character.
func isUnprintable(r rune) bool {
	return r >= 0x7f && r < 0xa0 || r == 0xfffe || r == 0xffff || r == 0xfeff
}
