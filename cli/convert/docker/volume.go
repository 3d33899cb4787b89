package docker

import (
	"errors"
	"fmt"
	"strings"
)

// Mount is one mount of a container.
type Mount struct {
	// Source is a path or the name of a volume; empty for an anonymous volume.
	Source string
	// Target is the path in the container.
	Target string
	// Options are those after the second colon.
	Options []string
}

// ParseVolume parses [SOURCE:]TARGET[:OPTIONS].
func ParseVolume(text string) (Mount, error) {
	parts := strings.Split(text, ":")
	var m Mount
	switch len(parts) {
	case 1:
		m.Target = parts[0]
	case 2, 3:
		m.Source, m.Target = parts[0], parts[1]
		if len(parts) == 2 && !strings.HasPrefix(m.Target, "/") && strings.HasPrefix(m.Source, "/") {
			// TARGET:OPTIONS, an anonymous volume.
			m.Source, m.Target, parts = "", m.Source, []string{"", "", parts[1]}
		}
		if len(parts) == 3 && parts[2] != "" {
			m.Options = strings.Split(parts[2], ",")
		}
		if m.Source == "" && len(m.Options) == 0 {
			return Mount{}, errors.New("has no source before the colon")
		}
	default:
		return Mount{}, fmt.Errorf("%q has more than three parts; must be SOURCE:TARGET[:OPTIONS]", text)
	}
	if !strings.HasPrefix(m.Target, "/") {
		return Mount{}, fmt.Errorf("the path in the container is %q; must be absolute", m.Target)
	}
	return m, nil
}

// IsPath reports whether the source of a mount is a path, and not the name of a volume.
func IsPath(source string) bool {
	return strings.HasPrefix(source, "/") || strings.HasPrefix(source, ".") || strings.HasPrefix(source, "~")
}

// Device is a device of the host.
type Device struct{ Host, Container, Permissions string }

// ParseDevice parses HOST[:CONTAINER][:PERMISSIONS]. Permissions are empty if they are not given.
func ParseDevice(text string) (Device, error) {
	parts := strings.Split(text, ":")
	d := Device{Host: parts[0], Container: parts[0]}
	for _, part := range parts[1:] {
		switch {
		case strings.HasPrefix(part, "/"):
			d.Container = part
		case part != "" && strings.Trim(part, "rwm") == "":
			d.Permissions = part
		default:
			return d, fmt.Errorf("%q is neither a path nor permissions such as rwm", part)
		}
	}
	if len(parts) > 3 || !strings.HasPrefix(d.Host, "/") {
		return d, fmt.Errorf("%q is not a device; must be /dev/NAME[:PATH][:rwm]", text)
	}
	return d, nil
}
