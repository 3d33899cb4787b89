package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/config/configfile"
	"github.com/podstead/podstead/internal/device"
	"github.com/podstead/podstead/internal/suggest"
	"github.com/podstead/podstead/node/devices"
)

const localDevicesField = "localDevices"

// LocalDevices are the devices that need no device plugin, by resource.
type LocalDevices = map[v1.ResourceName]devices.Local

// maxPodsPerDevice limits how many pods can have one device; the resources of a node are an int32
// in many clients.
const maxPodsPerDevice = 10000

// cdiName is the form of the name of a CDI device, VENDOR/CLASS=NAME.
var cdiName = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?/[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?=[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?$`)

// parseLocalDevices parses the local devices of a document. A single file may have a part of a
// resource, which another one completes.
func parseLocalDevices(doc *configfile.Document, complete bool) (LocalDevices, error) {
	value := doc.Fields[localDevicesField]
	if value == nil {
		return nil, nil
	}
	p := &localDevicesParser{doc: doc}
	resources, ok := value.(map[string]any)
	if !ok {
		p.fail(localDevicesField, "%v is not a map of resource names, such as {edge.example/serial: {paths: [/dev/ttyUSB*]}}", value)
	}
	all := LocalDevices{}
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		if resources[name] == nil {
			continue // null removes what an earlier file has
		}
		at := localDevicesField + "." + name
		if !device.IsResource(v1.ResourceName(name)) {
			p.fail(at, "%q is not the name of an extended resource; use a domain that is not Kubernetes' own, such as edge.example/serial", name)
			continue
		}
		fields, ok := resources[name].(map[string]any)
		if !ok {
			p.fail(at, "%v is not a map, such as {paths: [/dev/ttyUSB*]}", resources[name])
			continue
		}
		all[v1.ResourceName(name)] = p.resource(at, fields, complete)
	}
	return all, errors.Join(p.errs...)
}

type localDevicesParser struct {
	doc  *configfile.Document
	errs []error
}

func (p *localDevicesParser) fail(path, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s: %s: %s", p.doc.Position(path), path, fmt.Sprintf(format, args...)))
}

// resource parses the devices of one resource.
func (p *localDevicesParser) resource(at string, fields map[string]any, complete bool) devices.Local {
	local := devices.Local{Permissions: "rw", PodsPerDevice: 1}
	known := []string{"paths", "cdiDevices", "permissions", "podsPerDevice"}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value, path := fields[name], at+"."+name
		switch {
		case !slices.Contains(known, name):
			hint := "; the fields are " + strings.Join(known, ", ")
			if near := suggest.Nearest(name, known); near != "" {
				hint = "; did you mean " + near + "?"
			}
			p.fail(path, "unknown field%s", hint)
		case value == nil:
		case name == "paths":
			local.Paths = p.list(path, value, "must be the absolute path of a device node, or a pattern of paths such as /dev/ttyUSB*", func(s string) bool {
				_, err := filepath.Match(s, "")
				return err == nil && filepath.IsAbs(s) && filepath.Clean(s) == s && s != "/"
			})
		case name == "cdiDevices":
			local.CDI = p.list(path, value, "must be the full name of a CDI device, such as vendor.example/camera=front", cdiName.MatchString)
		case name == "permissions":
			text, ok := value.(string)
			if !ok || text == "" || strings.Trim(text, "rwm") != "" {
				p.fail(path, "%v is not valid; use one or more of r (read), w (write) and m (mknod), such as rw", value)
				continue
			}
			local.Permissions = text
		case name == "podsPerDevice":
			n, ok := value.(float64)
			if !ok || n != math.Trunc(n) || n < 1 || n > maxPodsPerDevice {
				p.fail(path, "%v is not valid; use how many pods can have one device at the same time, 1 to %d", value, maxPodsPerDevice)
				continue
			}
			local.PodsPerDevice = int(n)
		}
	}
	if !complete || len(p.errs) > 0 {
		return local
	}
	switch {
	case len(local.Paths) == 0 && len(local.CDI) == 0:
		p.fail(at, "has no devices; set paths, such as [/dev/ttyUSB*], or cdiDevices")
	case len(local.Paths) > 0 && len(local.CDI) > 0:
		p.fail(at, "paths and cdiDevices are mutually exclusive; use two resources, or remove one")
	case len(local.CDI) > 0 && fields["permissions"] != nil:
		p.fail(at+".permissions", "has no effect on CDI devices, whose specification has their permissions; remove it")
	}
	return local
}

// list parses a list of different strings.
func (p *localDevicesParser) list(path string, value any, want string, valid func(string) bool) (texts []string) {
	items, ok := value.([]any)
	if !ok {
		p.fail(path, "%v is not a list, such as [a, b]", value)
		return nil
	}
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", path, i)
		text, ok := item.(string)
		switch {
		case !ok || !valid(text):
			p.fail(at, "%v %s", item, want)
		case slices.Contains(texts, text):
			p.fail(at, "%s is in the list twice; remove one", text)
		default:
			texts = append(texts, text)
		}
	}
	return texts
}
