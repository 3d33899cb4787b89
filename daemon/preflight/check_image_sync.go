package preflight

import (
	"regexp"

	"k8s.io/apimachinery/pkg/util/version"
)

// syncSetting is containerd's setting to sync each layer that it unpacks for a pull over CRI.
const syncSetting = "image_pull_with_sync_fs"

// syncSince is the first containerd that has it.
const syncSince = "1.7.14"

// imageSync names the setting with which a containerd that podstead does not configure syncs what it unpacks. Without
// it podstead syncs the images that it pulls and loads, so that its absence is no fault.
func imageSync(_ *Host, s *Settings) []Finding {
	r := &s.Runtime
	if r.Private || r.Err != nil || r.Name != "containerd" {
		return nil
	}
	v, err := version.ParseGeneric(r.Version)
	if err != nil || !v.AtLeast(version.MustParseGeneric(syncSince)) {
		return nil
	}
	if r.Images.SyncsLayers {
		return ok("image-sync", "containerd syncs the layers that it unpacks")
	}
	section := "io.containerd.grpc.v1.cri"
	if v.Major() >= 2 {
		section = "io.containerd.cri.v1.images"
	}
	return ok("image-sync", "podstead syncs the images that it pulls and loads; so that those of other clients survive "+
		"a power cut too, such as the sandbox image, set %s = true in [plugins.%q] of /etc/containerd/config.toml",
		syncSetting,
		section)
}

// syncsLayers matches a printed configuration of a containerd that syncs layers.
var syncsLayers = regexp.MustCompile(`(?m)^\s*` + syncSetting + `\s*=\s*true\s*$`)
