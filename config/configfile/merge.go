package configfile

import "strings"

// merge applies a later document as the kubelet does, as a JSON merge patch (RFC 7386): maps
// are merged, everything else is replaced, and null removes a field.
func (d *Document) merge(later *Document) {
	if d.start.File == "" {
		d.start = later.start
	}
	d.mergeFields(d.Fields, later, later.Fields, "")
}

func (d *Document) mergeFields(to map[string]any, later *Document, from map[string]any, path string) {
	for name, value := range from {
		at := joinPath(path, name)
		fields, isMap := value.(map[string]any)
		if !isMap {
			d.move(later, at)
			if to[name] = value; value == nil {
				delete(to, name)
			}
			continue
		}
		below, ok := to[name].(map[string]any)
		if !ok {
			d.forget(at)
			below = map[string]any{}
			to[name] = below
		}
		d.positions[at] = later.Position(at)
		d.mergeFields(below, later, fields, at)
	}
}

// move replaces the positions of a field and of what is in it.
func (d *Document) move(later *Document, path string) {
	d.forget(path)
	for name, at := range later.positions {
		if within(name, path) {
			d.positions[name] = at
		}
	}
}

func (d *Document) forget(path string) {
	for name := range d.positions {
		if within(name, path) {
			delete(d.positions, name)
		}
	}
}

func within(name, path string) bool {
	rest, ok := strings.CutPrefix(name, path)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
