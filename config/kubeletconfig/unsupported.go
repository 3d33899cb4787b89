package kubeletconfig

import (
	"fmt"
	"strings"
)

// unsupported is a field about the node's resources of which podstead supports only the value
// in fixed, or none. Such a field is never ignored: pods would run without what the file
// promises them.
type unsupported struct {
	// fault says what podstead does instead, and remedy what to set.
	fault, remedy string
}

const removeField = "remove the field"

// resourceFields are the fields about resources that have only one supported value.
var resourceFields = map[string]unsupported{
	"cgroupsPerQOS":                 {"each pod has a cgroup in that of its QoS class", "set it to true, or remove the field"},
	"localStorageCapacityIsolation": {"limits of ephemeral storage are enforced", "set it to true, or remove the field"},
	"qosReserved":                   {"memory is not reserved by QoS class", removeField},
}

// refuse records that a field about resources cannot be honoured. text is the value, empty for
// one that does not fit in a message.
func (p *parser) refuse(name, text string, u unsupported) {
	if text != "" {
		text += " "
	}
	p.cfg.Unsupported = append(p.cfg.Unsupported, fmt.Errorf("%s: %s: %sis not supported: %s; %s", p.doc.Position(name), name, text, u.fault, u.remedy))
}

// valueText returns a scalar as a message has it, and nothing for a list or map.
func valueText(v any) string {
	switch v.(type) {
	case []any, map[string]any:
		return ""
	}
	return strings.TrimSpace(fmt.Sprint(v))
}
