package config

import (
	"cmp"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/device"
	"github.com/podstead/podstead/node/devices"
)

// LocalDevices are the devices that need no device plugin, by resource.
type LocalDevices = map[v1.ResourceName]devices.Local

// maxPodsPerDevice limits how many pods can have one device; the resources of a node are an int32
// in many clients.
const maxPodsPerDevice = 10000

// cdiName is the form of the name of a CDI device, VENDOR/CLASS=NAME.
var cdiName = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?/` +
	`[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?=[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?$`)

// localDevices is the setting, which has no flag.
func (o *Options) localDevices() setting {
	return setting{
		own: "localDevices", value: valueOf(&o.LocalDevices, nil, nil, readLocalDevices), check: o.checkLocalDevices,
		help: "devices that containers get without a device plugin, by resource name: paths and permissions, or " +
			"cdiDevices, and podsPerDevice (docs/devices.md)",
	}
}

func readLocalDevices(n node) (LocalDevices, bool) {
	resources, ok := n.entries("{edge.example/serial: {paths: [/dev/ttyUSB*]}}")
	all := LocalDevices{}
	for _, r := range resources {
		if r.value == nil {
			continue // null removes what an earlier file has
		}
		name := r.name(n)
		if !device.IsResource(v1.ResourceName(name)) {
			r.fail("%q is not the name of an extended resource; use a domain that is not Kubernetes' own, such as "+
				"edge.example/serial", name)
			continue
		}
		all[v1.ResourceName(name)] = readDevices(r)
	}
	return all, ok
}

// readDevices reads the devices of one resource.
func readDevices(n node) devices.Local {
	local := devices.Local{PodsPerDevice: 1}
	fields, _ := n.object("{paths: [/dev/ttyUSB*]}", "paths", "cdiDevices", "permissions", "podsPerDevice")
	if f, ok := fields["paths"]; ok {
		local.Paths = readNames(f, "must be the absolute path of a device node, or a pattern of paths such as "+
			"/dev/ttyUSB*", func(s string) bool {
			_, err := filepath.Match(s, "")
			return err == nil && filepath.IsAbs(s) && filepath.Clean(s) == s && s != "/"
		})
	}
	if f, ok := fields["cdiDevices"]; ok {
		local.CDI = readNames(f, "must be the full name of a CDI device, such as vendor.example/camera=front",
			cdiName.MatchString)
	}
	if f, ok := fields["permissions"]; ok {
		text, ok := f.value.(string)
		if !ok || text == "" || strings.Trim(text, "rwm") != "" {
			f.fail("%v is not valid; use one or more of r (read), w (write) and m (mknod), such as rw", f.value)
		}
		local.Permissions = text
	}
	if f, ok := fields["podsPerDevice"]; ok {
		count, ok := f.value.(float64)
		if !ok || count != math.Trunc(count) || count < 1 || count > maxPodsPerDevice {
			f.fail("%v is not valid; use how many pods can have one device at the same time, 1 to %d", f.value, maxPodsPerDevice)
		}
		local.PodsPerDevice = int(count)
	}
	return local
}

// readNames reads a list of different strings.
func readNames(n node, want string, valid func(string) bool) (names []string) {
	items, _ := n.items("[a, b]")
	for _, item := range items {
		name, ok := item.value.(string)
		switch {
		case !ok || !valid(name):
			item.fail("%v %s", item.value, want)
		case slices.Contains(names, name):
			item.fail("%s is in the list twice; remove one", name)
		default:
			names = append(names, name)
		}
	}
	return names
}

// checkLocalDevices validates each resource, of which a file may have a part that another one
// completes, and sets defaults.
func (o *Options) checkLocalDevices(s *setting) {
	for _, name := range slices.Sorted(maps.Keys(o.LocalDevices)) {
		local, at := o.LocalDevices[name], within{s, "." + string(name)}
		switch {
		case len(local.Paths) == 0 && len(local.CDI) == 0:
			s.table.failAt(at, ": has no devices; set paths, such as [/dev/ttyUSB*], or cdiDevices")
		case len(local.Paths) > 0 && len(local.CDI) > 0:
			s.table.failAt(at, ": paths and cdiDevices are mutually exclusive; use two resources, or remove one")
		case len(local.CDI) > 0 && local.Permissions != "":
			s.table.failAt(within{s, at.rest + ".permissions"}, ": has no effect on CDI devices, whose specification has "+
				"their permissions; remove it")
		}
		local.Permissions = cmp.Or(local.Permissions, "rw")
		o.LocalDevices[name] = local
	}
}
